// Builds the multidimensional problem of a scenario, from its table of profiled layers or from the cost model, which then makes
// the profiles for tensor degrees and recompute.
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
  std::vector<std::string> notes;  // the searched space, and exclusions with reasons
};

// Values stated by the scenario stay fixed (parallel.tensor, parallel.data, recompute); absent or `auto` values are searched. The
// problem's microbatches are those of all replicas. Throws InputError if the workload has no times.
Posed pose(const Experiment& experiment, Objective objective);

}  // namespace panpipe::planner::piper
