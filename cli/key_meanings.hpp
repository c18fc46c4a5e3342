// What the keys of a scenario mean, from the tables of docs/file-formats.md, which the build puts into the program.
#pragma once

#include <string>

namespace panpipe::cli {

// Without the marks of Markdown; empty where no row of a table names the key.
std::string meaning_of(const std::string& path);

}  // namespace panpipe::cli
