#include "jobs/log/bracket_block.hpp"

namespace panpipe::jobs {

bool BracketBlock::add(std::string_view line, std::size_t most) {
  if (!open_) return false;
  if (text_.size() + line.size() + 1 > most) {
    drop();
    return false;
  }
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
