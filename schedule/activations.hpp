// Counts the activations that a rank holds during an evaluated step: one per stage and microbatch, or per slice of a microbatch
// with sequence splits.
#pragma once

#include <utility>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

struct ActivationCurve {
  std::vector<std::pair<double, double>> levels;  // time, live activations from then on; starts at {0, 0}, times ascend
  double peak = 0;                                // may occur within an instant, when passes take no time
};

// Returns one curve per rank. A forward takes an activation when it starts; B or W frees it when it ends. With recompute the
// forward frees it when it ends, and R takes it again. An offloaded activation, or the part of it that waits for W, does not
// count from the end of its offload to the start of its reload. The stage inputs from which a recompute starts are not counted.
// `sizes`: what an activation of each stage counts; empty: 1.
std::vector<ActivationCurve> activation_curves(const Schedule& schedule, const ScheduleEvaluation& evaluation,
                                               const std::vector<double>& sizes = {});

}  // namespace panpipe
