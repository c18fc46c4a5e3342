// Stages that were found, as candidates of an answer; and as plans for the engines where they can run them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/piper/problem_of.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner::piper {

// Summary, metrics and stages; devices are numbered as the stages use them, tensor fastest, then data.
Candidate candidate_of(const PlanningProblem& problem, const std::vector<StageChoice>& stages);

// Adds the plan, its settings and its estimate. Returns why the engines cannot run it, empty when they can: degrees that differ
// from stage to stage, a stage that recomputes some of its layers only, layers that are not contiguous, a schedule that does not
// take it.
std::string add_plan(const Experiment& experiment, const PlanningProblem& problem, const std::vector<StageChoice>& stages,
                     Candidate& candidate);

}  // namespace panpipe::planner::piper
