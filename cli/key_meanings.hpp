// The meanings of a scenario's keys, from the tables of docs/file-formats.md that the build embeds in the program.
#pragma once

#include <string>

namespace panpipe::cli {

// Plain text without Markdown; empty if no table row names the key.
std::string meaning_of(const std::string& path);

}  // namespace panpipe::cli
