#include "costmodel/plan/streamed_weights.hpp"

#include <algorithm>

namespace panpipe {

std::vector<WeightTurn> weight_turns(const std::vector<Action>& row) {
  constexpr std::size_t kHeld = 2;  // stages
  std::vector<WeightTurn> turns;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!row[i].is_compute()) continue;
    if (turns.empty() || turns.back().stage != row[i].stage) turns.push_back({row[i].stage, i, i});
    turns.back().last = i;
  }
  std::vector<std::size_t> held;  // by the last turn of each stage that is there
  for (std::size_t t = 0; t < turns.size(); ++t) {
    const auto there =
        std::find_if(held.begin(), held.end(), [&](std::size_t other) { return turns[other].stage == turns[t].stage; });
    if (there != held.end()) {
      *there = t;
      continue;
    }
    turns[t].comes = true;
    if (held.size() == kHeld) {  // the one that does not run now
      const auto gone = std::min_element(held.begin(), held.end());
      turns[*gone].leaves = true;
      turns[t].room_after = static_cast<int>(*gone);
      held.erase(gone);
    }
    held.push_back(t);
  }
  for (const std::size_t t : held) turns[t].leaves = true;
  return turns;
}

}  // namespace panpipe
