// Turns the bytes of a file into checked text with lines. Everything other than plain UTF-8 text is refused here, before a parser
// sees it.
#pragma once

#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// The largest input file: far above any handwritten or exported one, and small enough to hold several in memory.
constexpr long long kLargestFile = 64LL << 20;

// Reads a whole file. Throws InputError if it is missing, a directory, unreadable, or larger than kLargestFile.
std::string read_text_file(const std::string& path);

// Removes a byte-order mark, converts line ends to '\n', fills source.lines, and returns the text. Throws InputError, with the
// place, for NUL and other control bytes, UTF-16, and bytes that are not UTF-8.
std::string checked_text(const std::string& bytes, SourceText& source);

// Converts the byte offset (from 0) in a line (from 1) to a column in characters, from 1.
int character_column(const SourceText& source, int line, int byte_offset);

}  // namespace panpipe
