// The synchronous step: N T + fill and drain.
//
// With loads up to T the least fill and drain is G(T), which only falls as T rises. A plan at load T costs at least N T + G(T),
// so once G(T) is known every plan with a load between (best - G(T)) / N and T is no better than the best, and the search goes
// on below. It ends at the least load of all.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner/piper/solve.hpp"

namespace panpipe::planner::piper {
namespace {

// A plan that is better by less than this share is not looked for: it would be rounding.
constexpr double kSame = 1e-12;

// Finds the plan with loads of at most T that fills and drains fastest. A step takes N T + sum of x - max of x, where x = data *
// load of a stage. Sum less max is the sum without one stage, minimised over that stage: a label's value is the sum so far, and
// it keeps whether a stage was left out already.
class FillDrain final : public LabelSearch {
 public:
  using LabelSearch::LabelSearch;
  // Of plans that cost less than `enough`.
  std::optional<double> reach(double limit, double enough, const std::atomic<bool>* stop) {
    enough_ = enough;
    return walk(limit, stop, [&](auto& stage, auto& behind, std::size_t index, Labels& labels, Counts&) {
      extend(stage, behind, index, labels);
    });
  }

 private:
  // More replicas than needed cost more, except where fewer microbatches in flight let a faster choice fit.
  void extend(const Stage& stage, const Label& behind, std::size_t index, Labels& labels) const {
    for (std::size_t i = stage.first; i < costs_.data_degrees().size(); ++i) {
      const int d = costs_.data_degrees()[i];
      Label label = extended(stage, d, behind, index);
      if (!within_limits(stage.cut.outer, label)) return;
      const double fastest = (stage.base.time + (d - 1) * stage.base.reduction) / d;
      if (fastest > limit_) continue;
      const double own = load(stage, label);
      if (own > limit_ || own == kInfinity) continue;
      label.value = behind.value + d * own;
      insert(stage.cut.outer, label, labels);
      if (!label.left_out) {
        label.value = behind.value;
        label.left_out = true;
        insert(stage.cut.outer, label, labels);
      }
      if (own <= fastest) return;
    }
  }

  // The needs of the layers before: devices, and their own time without one stage that may be left out.
  bool hopeless(std::size_t outer, const Label& label) const {
    if (!leaves_devices(outer, label)) return true;
    const auto& replica = costs_.replica_time();
    const double left_out = label.left_out ? 0 : limit_ * (costs_.problem().devices - label.devices);
    const double rest = std::max(0.0, replica.back() - replica[outer] - left_out);
    return label.value + rest * (1 - kRounding) >= enough_;
  }

  // A label beats another that has as few devices and replicas and costs as much, unless only the other may still leave one out.
  void insert(std::size_t outer, const Label& label, Labels& labels) const {
    if (hopeless(outer, label)) return;
    const auto beats = [](const Label& a, const Label& b) {
      return a.devices <= b.devices && a.replicas <= b.replicas && a.value <= b.value && a.left_out <= b.left_out;
    };
    if (std::any_of(labels.begin(), labels.end(), [&](const Label& other) { return beats(other, label); })) return;
    std::erase_if(labels, [&](const Label& other) { return beats(label, other); });
    const auto key = [](const Label& l) { return std::tuple(l.devices, l.replicas, l.value, l.left_out); };
    labels.insert(
        std::upper_bound(labels.begin(), labels.end(), label, [&](const Label& a, const Label& b) { return key(a) < key(b); }),
        label);
  }

  double enough_ = 0;
};

class StepSolver {
 public:
  StepSolver(const SuffixCosts& costs, const SolveOptions& options, Solution start)
      : costs_(costs),
        options_(options),
        fill_(costs, options.threads, costs.problem().stages),
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
  FillDrain fill_;
  const double microbatches_, least_load_;  // no plan has a smaller one
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
