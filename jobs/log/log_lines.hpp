// The lines of a log of any size, in constant memory: colours are removed, and what collectors of logs write in front of a line
// is split off.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe::jobs {

struct LogLine {
  std::string_view text;   // without colours and without the marks
  std::string_view rank;   // "rank3" of "[rank3]: ", "worker-1" of "worker-1: "; empty: none
  std::string_view stamp;  // "2024-05-01T10:00:00.123456Z" of `kubectl logs --timestamps`; empty: none
  long long number = 0;    // in the file, from 1
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
  bool next_text(std::string_view& text);

  std::string_view unwrapped_rest_;
  std::string unwrapped_, plain_;  // a line without its JSON, and without its colours
  long long number_ = 1, cut_ = 0;
  bool ended_ = false, binary_ = false;
  bool skips_ = false;      // the rest of a line that was cut
  bool next_line_ = false;  // the line before ended with a line feed
};

// Removes the escape sequences of terminals. `buffer` holds the result if there were any.
std::string_view without_escapes(std::string_view line, std::string& buffer);

// The text of a line that is a JSON string which ends its line (notebooks), or that of `{"log": ...}` (docker's files), which may
// hold several redraws of a bar. `buffer` holds the result if there was one.
std::string_view without_json(std::string_view line, std::string& buffer);

// Splits marks off the front: "[rank3]:", "[default7]:", "3: " (srun), "worker-1: " (kubectl, pdsh), "trainer-1  | " (compose),
// "(RayTrainWorker pid=7) ", a stamp as kubectl and CI write it, and "> " of quoted text.
LogLine split_marks(std::string_view line);

}  // namespace panpipe::jobs
