// Every plan of a small problem, one after another: what the search is checked against. Shares no code with it.
#pragma once

#include "planner/piper/planning_problem.hpp"

namespace panpipe::planner::piper {

struct BruteForce {
  bool feasible = false;
  double least_load = 0, least_step = 0;
};
BruteForce brute_force(const PlanningProblem& problem);

// Up to five layers with random edges, degrees, choices and limits.
PlanningProblem random_problem(unsigned seed);

}  // namespace panpipe::planner::piper
