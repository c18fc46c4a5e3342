// Where a verb's words go: data to standard output, and colour only for people.
#pragma once

#include <string>

#include "base/files/standard_output.hpp"
#include "base/text/terminal.hpp"

namespace panpipe::cli {

using panpipe::print;

// What to do where the file of -o cannot be written.
inline constexpr const char* kAdvice = "choose another file with -o";

// Text for people: lines within the terminal's width.
void show(const std::string& text);

}  // namespace panpipe::cli
