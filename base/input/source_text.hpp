// Bytes of a file -> checked text with lines. Everything that is not plain UTF-8 text is refused here, before a parser sees it.
#pragma once

#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// The largest input file: far above any hand-written or exported one, and small enough to hold several times in memory.
constexpr long long kLargestFile = 64LL << 20;

// Reads a whole file. Throws InputError: missing, a directory, unreadable, larger than kLargestFile.
std::string read_text_file(const std::string& path);

// Takes off a byte-order mark, turns line ends into '\n', fills source.lines, and returns the text. Throws InputError for
// NUL and other control bytes, UTF-16, and bytes that are not UTF-8, with the place.
std::string checked_text(const std::string& bytes, SourceText& source);

// Column in characters, from 1, of the byte offset (from 0) in a line (from 1).
int character_column(const SourceText& source, int line, int byte_offset);

}  // namespace panpipe
