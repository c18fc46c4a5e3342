// Finds the best plan of a problem, with a proof: moves a threshold until no value remains between the best plan and the
// impossible ones.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "planner/piper/threshold.hpp"

namespace panpipe::planner::piper {

// Problems with more suffixes are refused, since the search visits pairs of them.
constexpr std::size_t kMostSuffixes = 100000;

struct SolveOptions {
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(double best, double bound, const Counts& counts)> progress;  // best 0: none yet
};

struct Solution {
  std::vector<StageChoice> stages;  // first to last; empty: no plan exists, or none was found before the stop
  double objective = 0;             // of `stages`, summed from the layers
  double lower_bound = 0;
  bool proved = false;  // no plan is better; without stages: none exists
  bool interrupted = false;
  Counts counts;
  std::string reason;  // the limiting constraint, if it is proved that no plan exists
};

// Minimises the time per sample: the load of the slowest stage.
Solution least_load(const SuffixCosts& costs, const SolveOptions& options);
Solution least_load(const PlanningProblem& problem, const SolveOptions& options);

// Minimises the synchronous step of step_time(). Lowers a limit on the load, starting from the highest that can still improve the
// best plan, and finds the least fill and drain at each.
Solution least_step(const PlanningProblem& problem, const SolveOptions& options);

// The reason why a problem has no plan.
std::string obstacle(const SuffixCosts& costs, int threads, const std::atomic<bool>* stop = nullptr);

}  // namespace panpipe::planner::piper
