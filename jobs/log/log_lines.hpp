// The lines of a log of any size, in constant memory: colours are removed, and the mark of the process that wrote a line is split
// off.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe::jobs {

struct LogLine {
  std::string_view text;  // without colours and without the mark
  std::string_view rank;  // "3" of "[rank3]: ", "worker-1" of "worker-1: "; empty: none
  long long number = 0;   // in the file, from 1
};

class LogLines {
 public:
  // Fills the buffer and returns the number of bytes; 0 at the end.
  using Source = std::function<std::size_t(char* buffer, std::size_t size)>;
  static constexpr std::size_t kLongestLine = std::size_t{1} << 16;  // the rest of a longer line is dropped

  explicit LogLines(Source source);

  // A carriage return ends a line too: progress bars write their lines over each other. `line` is valid until the next call.
  bool next(LogLine& line);
  long long cut() const { return cut_; }        // lines longer than the longest
  bool holds_text() const { return !binary_; }  // false once a NUL byte was seen

 private:
  bool fill();
  bool next_raw(std::string_view& raw);

  Source source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::string plain_;  // a line without its colours
  long long number_ = 1, cut_ = 0;
  bool ended_ = false, binary_ = false;
  bool skips_ = false;      // the rest of a line that was cut
  bool next_line_ = false;  // the line before ended with a line feed
};

// Removes the escape sequences of terminals. `buffer` holds the result if there were any.
std::string_view without_escapes(std::string_view line, std::string& buffer);

// Splits "[rank3]:", "[default7]:", "3: " (srun), "worker-1: " (kubectl, pdsh) off the front.
LogLine split_rank(std::string_view line);

}  // namespace panpipe::jobs
