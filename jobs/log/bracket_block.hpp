// A value that a log prints over several lines, up to the bracket that closes it: JSON, or Python's spelling of an object.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace panpipe::jobs {

class BracketBlock {
 public:
  bool open() const { return open_; }
  void drop() { open_ = false, text_.clear(); }
  void begin() { text_.clear(), open_ = true, depth_ = 0, quote_ = '\0'; }
  // Adds a line, which must be without marks of the logger. True if it closes the value. A value of more than `most` bytes is
  // none.
  bool add(std::string_view line, std::size_t most);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool open_ = false;
  int depth_ = 0;
  char quote_ = '\0';  // within a string
};

}  // namespace panpipe::jobs
