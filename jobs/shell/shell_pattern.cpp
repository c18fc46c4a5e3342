#include "jobs/shell/shell_pattern.hpp"

#include <fnmatch.h>

#include <string>

namespace panpipe::jobs {

bool matches_pattern(std::string_view text, std::string_view pattern) {
  return fnmatch(std::string(pattern).c_str(), std::string(text).c_str(), 0) == 0;
}

bool is_extended_pattern(std::string_view pattern) {
  for (std::size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] == '\\')
      ++i;
    else if (pattern[i + 1] == '(' && std::string_view("?*+@!").find(pattern[i]) != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace panpipe::jobs
