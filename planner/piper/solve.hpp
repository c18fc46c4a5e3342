// The best plan of a problem, with a proof: threshold after threshold until nothing is left between the best plan and what is
// known to be impossible.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "planner/piper/threshold.hpp"

namespace panpipe::planner::piper {

// More suffixes than this are refused: pairs of them are what a search looks at.
constexpr std::size_t kMostSuffixes = 100000;

struct SolveOptions {
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(double best, double bound, const Counts& counts)> progress;  // best 0: none yet
};

struct Solution {
  std::vector<StageChoice> stages;  // first to last; empty: there is no plan (or none was found before the stop)
  double objective = 0;             // of `stages`, summed from the layers
  double lower_bound = 0;
  bool proved = false;  // no plan is better; without stages: there is none
  bool interrupted = false;
  int rounds = 0;
  Counts counts;
  std::string reason;  // without stages, proved: which limit is in the way
};

// Least time per sample: the load of the slowest stage.
Solution least_load(const SuffixCosts& costs, const SolveOptions& options);
Solution least_load(const PlanningProblem& problem, const SolveOptions& options);

// Least synchronous step, as step_time() counts it: sweeps a limit on the load downwards from what the best plan leaves possible,
// and asks at each for the least fill and drain.
Solution least_step(const PlanningProblem& problem, const SolveOptions& options);

// What no plan can beat, memory and transfers aside.
double work_bound(const SuffixCosts& costs);

// Why a problem has no plan.
std::string obstacle(const SuffixCosts& costs, int threads, const std::atomic<bool>* stop = nullptr);

}  // namespace panpipe::planner::piper
