#include "schedule/memory/fit_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "schedule/memory/eviction.hpp"
#include "schedule/memory/way_moves.hpp"
#include "schedule/search/random.hpp"

namespace panpipe {
namespace {

// Changes one row at a time and keeps what does not lengthen the step (late acceptance: compared with the value some changes
// ago).
class Improver {
 public:
  Improver(FittedOrder start, const PassCosts& costs, const MemoryLimit& limit)
      : now_(start.order), costs_(costs), limit_(limit), evaluation_(start.evaluation), best_(std::move(start)) {
    least_ = current_ = value(evaluation_);
  }

  void run(double actions) {
    double each = 0;
    for (const Row& row : now_.order) each += static_cast<double>(row.size());
    std::vector<double> history(kHistory, current_);
    const auto turns = static_cast<std::size_t>(std::min(kMostTurns, actions / each));
    for (std::size_t turn = 0; turn < turns; ++turn) {
      const auto rank = changed_rank();
      Row before = now_.order[rank];
      double& old = history[turn % kHistory];
      if (!change_row(now_, rank, evaluation_, limit_, random_) || !accept(old)) now_.order[rank] = std::move(before);
      old = std::min(old, current_);
    }
  }
  FittedOrder best() { return std::move(best_); }

 private:
  static constexpr std::size_t kHistory = 64;
  static constexpr double kMostTurns = 40000;

  // The ranks' mean end leads over plateaus.
  static double value(const ScheduleEvaluation& evaluation) {
    double ends = 0;
    for (const auto& times : evaluation.times) ends += times.empty() ? 0 : times.back().second;
    return evaluation.makespan + 0.001 * ends / static_cast<double>(evaluation.times.size());
  }

  std::size_t changed_rank() { return static_cast<std::size_t>(random_.below(now_.ranks)); }

  bool accept(double old) {
    std::optional<ScheduleEvaluation> after = evaluate_if_it_ends(now_, costs_);
    if (!after || !limit_.covers(*after)) return false;
    const double changed = value(*after);
    if (changed > current_ && changed > old) return false;
    current_ = changed;
    evaluation_ = *std::move(after);
    if (changed < least_ * (1 - 1e-9)) {
      least_ = changed;
      best_ = {now_, evaluation_};
    }
    return true;
  }

  Schedule now_;
  const PassCosts& costs_;
  const MemoryLimit& limit_;
  ScheduleEvaluation evaluation_;
  FittedOrder best_;
  double current_ = 0, least_ = 0;
  search::Random random_{1};
};

constexpr int kMostRounds = 400;
constexpr double kActions = 4e6;  // that the search times

}  // namespace

std::optional<FittedOrder> fitted(const Schedule& base, const PassCosts& costs, const MemoryLimit& limit) {
  Schedule schedule = base;
  for (int round = 0; round < kMostRounds; ++round) {
    std::optional<ScheduleEvaluation> evaluation = evaluate_if_it_ends(schedule, costs);
    if (!evaluation) return std::nullopt;
    if (limit.covers(*evaluation)) return FittedOrder{std::move(schedule), *std::move(evaluation)};
    if (!evict(schedule, *evaluation, costs, limit)) return std::nullopt;
  }
  return std::nullopt;
}

FittedOrder improved(FittedOrder start, const PassCosts& costs, const MemoryLimit& limit) {
  Improver improver(std::move(start), costs, limit);
  improver.run(kActions * limit.effort);
  return improver.best();
}

}  // namespace panpipe
