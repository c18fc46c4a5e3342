// The synchronous step: N T + fill and drain.
//
// With loads up to T the least fill and drain is G(T), which only falls as T rises. A plan at load T costs at least N T + G(T),
// so once G(T) is known every plan with a load between (best - G(T)) / N and T is no better than the best, and the search goes
// on below. It ends at the least load of all.
#include <algorithm>
#include <cmath>

#include "planner/piper/fill_drain.hpp"
#include "planner/piper/solve.hpp"

namespace panpipe::planner::piper {
namespace {

// A plan that is better by less than this share is not looked for: it would be rounding.
constexpr double kSame = 1e-12;

class StepSolver {
 public:
  StepSolver(const SuffixCosts& costs, const SolveOptions& options, Solution start)
      : costs_(costs),
        options_(options),
        front_(costs.problem(), costs.suffixes()),
        fill_(costs, front_),
        microbatches_(costs.problem().microbatches),
        least_load_(start.lower_bound),
        solution_(std::move(start)) {
    solution_.proved = false;
    if (!solution_.stages.empty()) solution_.objective = step_time(costs.problem(), solution_.stages);
    solution_.lower_bound = microbatches_ * least_load_;
  }

  Solution solve() {
    double limit = solution_.objective / microbatches_;
    while (!solution_.interrupted && limit >= least_load_ * (1 - kSame)) {
      const double enough = (solution_.objective - microbatches_ * least_load_) * (1 + kSame);
      const auto cost = fill_.reach(limit, enough, options_.stop);
      if (fill_.stopped()) {
        solution_.interrupted = true;
      } else if (!cost) {
        break;  // nothing below the limit reaches the best
      } else {
        take();
        limit = std::nextafter(std::min(limit, (solution_.objective - *cost) / microbatches_), 0);
        solution_.lower_bound = std::min(solution_.objective, microbatches_ * least_load_ + *cost);
      }
      if (options_.progress) options_.progress(solution_.objective, solution_.lower_bound, counts());
    }
    solution_.proved = !solution_.interrupted;
    if (solution_.proved) solution_.lower_bound = solution_.objective;
    solution_.counts = counts();
    return solution_;
  }

 private:
  void take() {
    std::vector<StageChoice> stages = fill_.stages();
    evaluate(costs_.problem(), stages);
    const double value = step_time(costs_.problem(), stages);
    if (value >= solution_.objective) return;
    solution_.objective = value;
    solution_.stages = std::move(stages);
  }

  Counts counts() const {
    return {solution_.counts.evaluated + fill_.counts().evaluated, solution_.counts.pruned + fill_.counts().pruned};
  }

  const SuffixCosts& costs_;
  const SolveOptions& options_;
  FrontBounds front_;
  FillDrain fill_;
  double microbatches_;
  double least_load_;  // no plan has a smaller one
  Solution solution_;
};

}  // namespace

Solution least_step(const PlanningProblem& problem, const SolveOptions& options) {
  const Suffixes suffixes(problem, kMostSuffixes);
  const SuffixCosts costs(problem, suffixes);
  SolveOptions quiet = options;
  quiet.progress = nullptr;
  Solution start = least_load(costs, quiet);
  if (start.stages.empty() || start.interrupted) {
    if (!start.stages.empty()) start.objective = step_time(problem, start.stages);
    start.lower_bound *= problem.microbatches;
    return start;
  }
  return StepSolver(costs, options, std::move(start)).solve();
}

}  // namespace panpipe::planner::piper
