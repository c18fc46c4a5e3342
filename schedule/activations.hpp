// What a rank holds over an evaluated step, counted in activations: one stage of one microbatch (one slice of it, with sequence
// splits).
#pragma once

#include <utility>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

struct ActivationCurve {
  std::vector<std::pair<double, int>> levels;  // time, live activations from then on; starts at {0, 0}, times ascend
  int peak = 0;                                // may lie inside an instant, when passes take no time
};

// Of every rank. A forward takes one when it starts, B or W gives it back when it ends. Where the schedule recomputes (R), the
// forward gives it back when it ends and R takes it anew; what was offloaded does not count from the end of its offload to the
// start of its reload, whole or what waits for W alike. The inputs of stages, which a recompute starts from, are not counted.
std::vector<ActivationCurve> activation_curves(const Schedule& schedule, const ScheduleEvaluation& evaluation);

}  // namespace panpipe
