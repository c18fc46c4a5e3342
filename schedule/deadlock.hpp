// Why an order cannot finish.
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

// Follows waits from `start` on: cause(x) is the one that x waits for, or -1. Returns the cycle that this leads into, each
// waiting for the next and the last for the first; empty when it ends at something that waits for nothing.
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

// A rank that cannot go on.
struct RankWait {
  std::size_t at = 0;                    // action of its row
  std::string wanted;                    // what it waits for
  std::int32_t wanted_rank = -1;         // whose row that belongs into
  std::optional<std::size_t> wanted_at;  // action of that row; none = it never runs it
};

// `waits` holds what each rank waits for, nothing for one that has finished. The first problem names a cycle of ranks, the others
// say what each further blocked rank waits for.
std::vector<ScheduleProblem> explain_waits(const Schedule& schedule, const std::vector<std::optional<RankWait>>& waits);

// The same of an order that walk() could not finish; `reached` is what it returned: actions that each rank got through.
std::vector<ScheduleProblem> explain_deadlock(const Schedule& schedule, const Products& products,
                                              const std::vector<std::size_t>& reached);

// An action as text from its parts: "3SEND_F0", "0B2.1".
std::string text_of(ActionKind kind, int stage, int microbatch, int split);

}  // namespace panpipe
