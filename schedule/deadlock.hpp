// Explains why an order cannot finish.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/walk.hpp"

namespace panpipe {

// Follows waits from `start`: cause(x) is the element that x waits for, or -1. Returns the cycle that this reaches, in which each
// element waits for the next and the last for the first. Returns an empty list if the chain ends.
template <class Cause>
std::vector<std::int32_t> waiting_cycle(std::int32_t start, Cause&& cause) {
  std::vector<std::int32_t> path;
  std::unordered_map<std::int32_t, std::size_t> place;  // in the path
  for (std::int32_t at = start; at >= 0; at = cause(at)) {
    const auto [seen, is_new] = place.try_emplace(at, path.size());
    if (!is_new) return {path.begin() + static_cast<std::ptrdiff_t>(seen->second), path.end()};
    path.push_back(at);
  }
  return {};
}

// A blocked rank.
struct RankWait {
  std::size_t at = 0;                    // index of the blocked action in its row
  std::string wanted;                    // the missing action or message, as text
  std::int32_t wanted_rank = -1;         // the rank whose row should contain it
  std::optional<std::size_t> wanted_at;  // its index in that row; nullopt if that row lacks it
};

// `waits` holds the wait of each rank, nullopt for finished ranks. The first problem names a cycle of ranks; the others state the
// wait of each further blocked rank.
std::vector<ScheduleProblem> explain_waits(const Schedule& schedule, const std::vector<std::optional<RankWait>>& waits);

// The same for an order that walk() could not finish. `reached` is the result of walk(): the number of actions that each rank
// completed.
std::vector<ScheduleProblem> explain_deadlock(const Schedule& schedule, const Products& products,
                                              const std::vector<std::size_t>& reached);

// Builds the text of an action from its parts: "3SEND_F0", "0B2.1".
std::string text_of(ActionKind kind, int stage, int microbatch, int split);

}  // namespace panpipe
