// A number with its noun.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace panpipe {

// "1 device", "8 devices".
inline std::string counted(long long count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

}  // namespace panpipe
