#include "schedule/families/turns.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/families/building.hpp"

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

int default_turn(std::string_view family, int ranks, int microbatches, std::string_view option) {
  const int rounds = std::max(1, microbatches / ranks);
  if (microbatches % rounds != 0) {
    const int less = microbatches - microbatches % rounds, more = less + rounds;
    const std::string state =
        option.empty() ? std::string() : fmt::format(", or state the length of a turn (option {}={})", option, ranks);
    throw InputError(
        fmt::format("{} cuts {} microbatches on {} ranks into {} turns, which leaves {} over; use {} or {} microbatches{}",
                    family, microbatches, ranks, rounds, microbatches % rounds, less, more, state));
  }
  return microbatches / rounds;
}

Action TurnsOfRank::F(int k) const {
  const Turn& turn = forward[static_cast<std::size_t>(k)];
  return pass(ActionKind::F, turn.chunk * ranks + rank, turn.microbatch);
}

Action TurnsOfRank::backward(ActionKind kind, int k) const {
  const Turn& turn = forward[static_cast<std::size_t>(k)];
  return pass(kind, (chunks - 1 - turn.chunk) * ranks + rank, turn.microbatch);
}

}  // namespace panpipe
