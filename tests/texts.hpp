// Texts that a test makes of others.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace panpipe::test {

// With `by` in every place of `what`.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

// What lies between the separators.
inline std::vector<std::string> parts_of(const std::string& text, char separator = ' ') {
  std::vector<std::string> parts;
  std::istringstream rest(text);
  for (std::string part; std::getline(rest, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace panpipe::test
