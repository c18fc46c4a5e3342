// Text without the blanks around it.
#pragma once

#include <string_view>

namespace panpipe {

inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n") {
  const std::size_t begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

}  // namespace panpipe
