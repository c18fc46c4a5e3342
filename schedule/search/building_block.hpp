// Policies from repeated building blocks. The passes of one microbatch are laid out with some distance between neighbouring
// ranks, and each microbatch follows one period after the one before (Qi et al., Pipeline parallelism with controllable memory,
// NeurIPS 2024). The distance between passes decides how long activations live, and so how many a rank holds.
#pragma once

#include "schedule/search/list_scheduler.hpp"

namespace panpipe::search {

// Blocks for the V placement with published distances, in sixths of a period.
enum class Pattern { Free, VMin, VHalf };

// The most activations that a rank holds when this block is repeated.
int building_block_memory(Pattern pattern, int ranks);

// The parameters of a block. Times are fractions of the period, which is the work of a rank per microbatch.
struct Knobs {
  Pattern pattern = Pattern::Free;
  int interval = 0;  // of a published pattern: sixths between the last forward and the first input gradient
  double stretch[4] = {0, 0, 0,
                       0};     // waits per hop, added to pass and transfer: F down, F back, I down, I back (one chunk: [0], [3])
  double turn[3] = {0, 0, 0};  // waits where the V turns, at the last forward, and where the V turns back
  double slack[2] = {0, 0};    // activations allowed in addition to those of the block, per chunk
  double fit = 1;              // as in Policy
  double patience = 0;         // as in Policy, in periods
  double lead_at_first = -1, lead = -1;  // as in Policy, in periods; negative: unlimited
  bool weights_by_time = false;
  bool keep_apart = true;        // passes of one rank do not overlap in the repeated block
  bool even = false;             // lay the block out as if all passes took the same time and transfers none
  bool plan_even = false;        // plan the order under the same assumption
  bool gradients_first = false;  // input gradients before forwards, regardless of the block
};

// The problem with equal pass times and free transfers.
OrderProblem evened(const OrderProblem& problem);

// Start of the pass `kind + 2 chunk` (F and I of both chunks) on rank r in a published block, in sixths of a period. `interval`
// is the distance between the last forward and the first input gradient.
int published_start(Pattern pattern, int ranks, int interval, int r, int pass);

Policy building_block_policy(const OrderProblem& problem, const Knobs& knobs);

}  // namespace panpipe::search
