// Texts that a test makes of others.
#pragma once

#include <string>

namespace panpipe::test {

// With `by` in every place of `what`.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

}  // namespace panpipe::test
