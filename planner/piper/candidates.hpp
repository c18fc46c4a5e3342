// Turns found stages into candidates of an answer, and into plans if the engines can run them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/piper/problem_of.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner::piper {

// Summary, metrics and stages. Devices are numbered in the order of the stages, tensor fastest, then data.
Candidate candidate_of(const PlanningProblem& problem, const std::vector<StageChoice>& stages);

// Adds the plan, its settings and its estimate. Returns the reason why the engines cannot run it, or an empty text: degrees that
// differ between stages, a stage that recomputes only some of its layers, a profile that the engines do not take, layers that are
// not contiguous, or an unsuitable schedule.
std::string add_plan(const Experiment& experiment, const PlanningProblem& problem, const std::vector<StageChoice>& stages,
                     Candidate& candidate);

}  // namespace panpipe::planner::piper
