// Turns the bytes of a file into checked text with lines. Everything other than plain UTF-8 text is refused here, before a parser
// sees it.
#pragma once

#include <string>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// The largest input file: far above any handwritten or exported one, and small enough to hold several in memory.
constexpr long long kLargestFile = 64LL << 20;

// Reads a whole file. Throws InputError if it is missing, a directory, unreadable, or larger than `most` bytes.
std::string read_text_file(const std::string& path, long long most = kLargestFile);

// The folder where a document's references start: the file's own; of a stream ("/dev/stdin"), the working directory, "".
std::string reference_folder(const std::string& path);

// Removes a byte-order mark, converts line ends to '\n', fills source.lines, and returns the text. Throws InputError, with the
// place, for NUL and other control bytes, UTF-16, and bytes that are not UTF-8.
std::string checked_text(const std::string& bytes, SourceText& source);

// Converts byte offsets (from 0) in lines (from 1) to columns in characters, from 1. It goes on from the place that was asked for
// last, so that all places of a text, in order, take one pass over it.
class ColumnCursor {
 public:
  explicit ColumnCursor(const SourceText& source) : source_(&source) {}
  int column(int line, int byte_offset);
  long long bytes_passed() const { return passed_; }  // in all calls

 private:
  const SourceText* source_;
  int line_ = 0, offset_ = 0;
  int characters_ = 0;  // of the line, that start before offset_
  long long passed_ = 0;
};

// One column.
int character_column(const SourceText& source, int line, int byte_offset);

}  // namespace panpipe
