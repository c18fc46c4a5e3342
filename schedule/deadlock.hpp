// Explains why an order cannot finish.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

// Explains a run of all rows that did not finish; empty if it did. wanted_of(event): the action that makes an event, which its
// row may lack, or hold as I where this is B. The first problem names a cycle of ranks; the others state the wait of each further
// blocked rank.
std::vector<ScheduleProblem> explain_waits(const Schedule& schedule, const Reached& reached,
                                           const std::function<Action(std::size_t event)>& wanted_of);

}  // namespace panpipe
