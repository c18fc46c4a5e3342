// A job that a log prints over several lines, up to the bracket that closes it: JSON, or Python's spelling of an object.
#pragma once

#include <string>
#include <string_view>

#include "jobs/log/run_log.hpp"

namespace panpipe::jobs {

class BracketedJob {
 public:
  bool open() const { return open_; }
  void drop() { open_ = false, text_.clear(); }
  // `front`: the line that opens the first bracket, from there on.
  void begin(std::string_view front, StatedJob& job);
  // Adds a line, which must be without marks of the logger. The job has its text once the value is closed. A value of more than
  // RunLog::kMostText bytes is none.
  void add(std::string_view line, StatedJob& job);

 private:
  bool closes(std::string_view line);

  std::string text_;
  bool open_ = false;
  int depth_ = 0;
  char quote_ = '\0';  // within a string
};

}  // namespace panpipe::jobs
