// Questions of tests about markup: is it whole, how often does it contain a text.
#pragma once

#include <string>
#include <vector>

namespace panpipe::present {

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

// Every element of a fragment is closed, in order; attributes stand in double quotes. Returns what is wrong.
inline std::string broken_markup(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (count(tag, "\"") % 2 != 0) return "quotes in " + tag;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "closes " + tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty() ? "" : "left open: " + open.back();
}

}  // namespace panpipe::present
