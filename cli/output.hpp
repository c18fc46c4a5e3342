// The output of a verb: data to standard output, with colour only for people; what else to know to standard error.
#pragma once

#include <cstdio>
#include <string>

#include "base/files/standard_output.hpp"
#include "base/text/terminal.hpp"

namespace panpipe::cli {

using panpipe::print;

// The remedy if the file of -o cannot be written.
inline constexpr const char* kAdvice = "choose another file with -o";

// Prints text for people, with lines within the terminal's width.
void show(const std::string& text);

// Into the file of -o, or to standard output if there is none. True if it was a file.
bool deliver(const std::string& output, const std::string& text);

// On a terminal alone, a line that the next one takes the place of; an empty one clears it.
void show_line(const std::string& text);

inline void print_note(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace panpipe::cli
