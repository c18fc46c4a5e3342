// The output of a verb: data to standard output, with colour only for people.
#pragma once

#include <string>

#include "base/files/standard_output.hpp"
#include "base/text/terminal.hpp"

namespace panpipe::cli {

using panpipe::print;

// The remedy if the file of -o cannot be written.
inline constexpr const char* kAdvice = "choose another file with -o";

// Prints text for people, with lines within the terminal's width.
void show(const std::string& text);

}  // namespace panpipe::cli
