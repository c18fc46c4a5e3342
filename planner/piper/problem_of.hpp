// The multidimensional problem of a scenario: from a table of profiled layers as it stands, or from the cost model, which then
// makes the profiles for tensor degrees and recompute.
#pragma once

#include <string>
#include <vector>

#include "costmodel/prediction/experiment.hpp"
#include "planner/piper/planning_problem.hpp"

namespace panpipe::planner::piper {

enum class Objective { TimePerSample, Step };

struct Posed {
  PlanningProblem problem;
  bool profiled = false;           // from a table of profiled layers
  std::vector<std::string> notes;  // what was searched, and what was left out and why
};

// What the scenario states stays fixed (parallel.tensor, parallel.data, recompute); what is absent or `auto` is searched. The
// microbatches of the problem are those of all replicas. Throws InputError when the workload has no times.
Posed pose(const Experiment& experiment, Objective objective);

// The same layers in a chain: stages are then contiguous in the order of the layers, as a plan's are.
PlanningProblem in_order(const PlanningProblem& problem);

}  // namespace panpipe::planner::piper
