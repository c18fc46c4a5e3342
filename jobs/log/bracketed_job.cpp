#include "jobs/log/bracketed_job.hpp"

#include <utility>

namespace panpipe::jobs {

void BracketedJob::begin(std::string_view front, StatedJob& job) {
  drop();
  open_ = true, depth_ = 0, quote_ = '\0';
  add(front, job);
}

void BracketedJob::add(std::string_view line, StatedJob& job) {
  if (!open_) return;
  if (text_.size() + line.size() + 1 > RunLog::kMostText) return drop();
  if (closes(line)) job.text = std::exchange(text_, {});
}

bool BracketedJob::closes(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote_ != '\0') {
      if (c == '\\')
        ++i;
      else if (c == quote_)
        quote_ = '\0';
      continue;
    }
    if (c == '"' || c == '\'') quote_ = c;
    if (c == '{' || c == '[' || c == '(') ++depth_;
    if ((c == '}' || c == ']' || c == ')') && --depth_ == 0) {
      text_.append(line.substr(0, i + 1));
      open_ = false;
      return true;
    }
  }
  quote_ = '\0';  // strings of both languages end on their line
  text_.append(line).push_back('\n');
  return false;
}

}  // namespace panpipe::jobs
