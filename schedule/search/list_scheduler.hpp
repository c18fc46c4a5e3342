// A list scheduler within a memory limit. Each free rank runs the pass that its policy ranks first among those whose inputs have
// arrived.
#pragma once

#include <vector>

#include "schedule/search/order_problem.hpp"

namespace panpipe::search {

// The policy ranks passes by `wanted[rank][kind + 3 chunk] + microbatch * period`; only the order of these numbers counts. In the
// V a rank may hold at most `limit[rank][chunk]` activations of a chunk, within the total of the problem.
struct Policy {
  double period = 0;
  std::vector<std::vector<double>> wanted;
  std::vector<std::vector<int>> limit;
  // Weight gradients fill gaps: one runs if the gap until the next known input is at least `fit` of its time. With
  // `weights_by_time` they also run in the order of `wanted`.
  double fit = 1;
  bool weights_by_time = false;
  // The rank waits for an earlier-ranked pass if it becomes ready within this time.
  double patience = 0;
  // How much earlier, in wanted time, a forward may run than the other passes of its rank: before the rank's first input
  // gradient, and after it.
  double lead_at_first = kUnlimited, lead = kUnlimited;
  static constexpr double kUnlimited = 1e300;

  bool operator==(const Policy&) const = default;
};

// Returns the rows of all ranks within the memory limit. Without a lead limit they are always complete: passes of one kind and
// stage run in the order of microbatches, and one slot is reserved for the second chunk, so the oldest microbatch can always
// proceed. With a lead limit the policy can get stuck; the result is then empty. `score` includes the planned waits; without them
// the rows can only end sooner.
Rows list_schedule(const OrderProblem& problem, const Policy& policy, Score& score);

}  // namespace panpipe::search
