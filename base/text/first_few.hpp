// A list of names in a message.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

namespace panpipe {

// Three of them, and how many more there are: "a, b, c and 2 more".
inline std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size()));
  const std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  return names.size() > kMost ? text + fmt::format(" and {} more", names.size() - kMost) : text;
}

}  // namespace panpipe
