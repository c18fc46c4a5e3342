#include "schedule/looped_turns.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace panpipe {

std::vector<Turn> turns(int microbatches, int group, int chunks) {
  std::vector<Turn> all;
  all.reserve(static_cast<std::size_t>(microbatches) * static_cast<std::size_t>(chunks));
  for (int first = 0, end = 0; first < microbatches; first = end) {
    end = first + std::min(group, microbatches - first);
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int m = first; m < end; ++m) all.push_back({chunk, m});
  }
  return all;
}

int default_turn(int ranks, int microbatches) { return microbatches / std::max(1, microbatches / ranks); }

std::string no_default_turn(std::string_view family, int ranks, int microbatches, std::string_view option) {
  const int rounds = std::max(1, microbatches / ranks), over = microbatches % rounds;
  if (over == 0) return "";
  const std::string state =
      option.empty() ? std::string() : fmt::format(", or state the length of a turn (option {}={})", option, ranks);
  return fmt::format("{} cuts {} microbatches on {} ranks into {} turns, which leaves {} over; use {} or {} microbatches{}",
                     family, microbatches, ranks, rounds, over, microbatches - over, microbatches - over + rounds, state);
}

}  // namespace panpipe
