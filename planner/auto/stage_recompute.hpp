// Recompute of some blocks only, stage by stage: as few as make the ranks fit. Earlier ranks of a pipeline hold more activations,
// so they recompute more.
#pragma once

#include <vector>

#include "planner/auto/exact.hpp"

namespace panpipe::planner {

// Whether recompute is open, and the trainer lets each stage recompute a number of blocks of its own.
bool recomputes_by_stage(const Scenario& scenario);

// A configuration whose recompute is selective or full, in as few blocks of each stage as leave the error of the memory model
// free on every device. Not usable where that takes all blocks.
Exact fit_recompute(Evaluator& evaluator, const Configuration& configuration);

// The same with the cuts of `start`, which is such a plan, and with so many bytes more.
Exact fit_recompute(Evaluator& evaluator, const Exact& start, double more);

// Moves blocks over the cuts of such a plan, and fits its recompute again, as long as that makes it faster.
Exact improve_recompute(Evaluator& evaluator, const Exact& start);

// What a configuration takes with as much recompute as makes its fullest rank fit, from what it takes without any and in all
// blocks: bytes of that rank, seconds of the step. Infinite where all blocks do not suffice.
struct RecomputeShare {
  double memory_without = 0, memory_with = 0;
  double step_without = 0, step_with = 0;
  double step_within(double limit) const;
};

}  // namespace panpipe::planner
