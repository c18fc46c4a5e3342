#include "planner/piper/solve.hpp"

#include <algorithm>
#include <cmath>

namespace panpipe::planner::piper {
namespace {

// The first threshold lies this share above the bound, and the distance doubles until a plan is found.
constexpr double kFirstDistance = 0.01;
constexpr double kHopeless = 64;  // times the bound: from there on time is no limit
// Where best and bound are this close, the next question is whether anything at all is better.
constexpr double kClose = 1e-4;
// A threshold stands this share of the way down from the best plan to the bound.
constexpr double kStep = 0.4;

// A bound that no plan can beat, without memory and transfers.
double work_bound(const SuffixCosts& costs) {
  const PlanningProblem& problem = costs.problem();
  const int replicas = std::min(problem.devices, problem.microbatches);
  return std::max(costs.device_time().back() / problem.devices, costs.replica_time().back() / replicas);
}

class Bisection {
 public:
  Bisection(const SuffixCosts& costs, const SolveOptions& options)
      : costs_(costs), options_(options), threshold_(costs, options.threads, costs.problem().stages) {
    solution_.lower_bound = std::max(work_bound(costs), costs.front().least_limit()) * (1 - 1e-12);
  }

  Solution solve() {
    find_first();
    while (!solution_.stages.empty() && !solution_.interrupted && !solution_.proved) {
      const double bound = solution_.lower_bound, gap = slowest_ - bound;
      const bool close = gap <= kClose * slowest_;
      const double below = std::nextafter(slowest_, 0);
      if (ask(close ? below : std::min(below, slowest_ - kStep * gap)) || !close) continue;
      solution_.proved = !solution_.interrupted;
    }
    if (solution_.proved) solution_.lower_bound = solution_.objective;
    solution_.counts = threshold_.counts();
    return solution_;
  }

 private:
  void find_first() {
    const double bound = solution_.lower_bound;
    double step = std::isinf(bound) ? kHopeless * 2 : kFirstDistance;
    for (bool last = costs_.data_degrees().empty(); !last && !solution_.interrupted; step *= 2) {
      last = step > kHopeless || bound <= 0;
      if (ask(last ? kInfinity : bound * (1 + step))) return;
    }
    if (solution_.interrupted) return;
    solution_.proved = true;
    solution_.lower_bound = 0;
    solution_.reason = obstacle(costs_, options_.threads, options_.stop);
  }

  bool ask(double limit) {
    const auto reached = threshold_.reach(limit, options_.stop);
    if (reached) {
      slowest_ = *reached;
      solution_.stages = threshold_.stages();
      solution_.objective = evaluate(costs_.problem(), solution_.stages);
    } else if (threshold_.stopped()) {
      solution_.interrupted = true;
    } else if (limit < kInfinity) {
      solution_.lower_bound = std::max(solution_.lower_bound, limit);
    }
    if (options_.progress) options_.progress(solution_.objective, solution_.lower_bound, threshold_.counts());
    return reached.has_value();
  }

  const SuffixCosts& costs_;
  const SolveOptions& options_;
  Threshold threshold_;
  double slowest_ = 0;  // as the search counts it: sums in another order than the objective's
  Solution solution_;
};

}  // namespace

Solution least_load(const SuffixCosts& costs, const SolveOptions& options) { return Bisection(costs, options).solve(); }

Solution least_load(const PlanningProblem& problem, const SolveOptions& options) {
  const Suffixes suffixes(problem, kMostSuffixes);
  const SuffixCosts costs(problem, suffixes);
  return least_load(costs, options);
}

}  // namespace panpipe::planner::piper
