// A list scheduler that keeps within a memory limit: every rank, when free, takes the pass that its policy puts first among
// those whose inputs are there.
#pragma once

#include <vector>

#include "schedule/search/order_problem.hpp"

namespace panpipe::search {

// Passes are wanted in the order of `wanted[rank][kind + 3 chunk] + microbatch * period`; only the order of these numbers
// counts. In the V a rank may hold at most `limit[rank][chunk]` activations of a chunk, besides the total of the problem.
struct Policy {
  double period = 0;
  std::vector<std::vector<double>> wanted;
  std::vector<std::vector<int>> limit;
  // Weight gradients fill gaps: one is run when the gap until the next known input is at least `fit` of its time. With
  // `weights_by_time` they also run in the order of `wanted`.
  double fit = 1;
  bool weights_by_time = false;
  // A pass that is wanted earlier is waited for when it comes within this time.
  double patience = 0;
  // How much earlier than the other passes of its rank, in wanted time, a forward may run: before the rank's first input gradient
  // and after it.
  double lead_at_first = kUnlimited, lead = kUnlimited;
  static constexpr double kUnlimited = 1e300;

  bool operator==(const Policy&) const = default;
};

// Rows of all ranks within the memory limit. Without a limit on leads they are always complete: passes of one kind and stage run
// in the order of microbatches, and one slot is left to the second chunk, so the oldest microbatch can always go on. With a limit
// on leads the policy can get stuck; the rows are then empty. `score` belongs to the times that were planned; without the waits
// the rows can only end sooner.
Rows list_schedule(const OrderProblem& problem, const Policy& policy, Score& score);

}  // namespace panpipe::search
