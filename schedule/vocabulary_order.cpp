// One order of the exchanges of a cut vocabulary, in which no rank waits for another that waits for it.
#include <algorithm>
#include <array>
#include <tuple>

#include "schedule/vocabulary.hpp"

namespace panpipe {
namespace {

// The end of each exchange's last producer, under plain costs.
class ReadyTimes {
 public:
  ReadyTimes(const Schedule& schedule, const ScheduleEvaluation& evaluation)
      : microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        first_(schedule.chains.front().front()),
        last_(schedule.chains.front().back()),
        barriers_(schedule.vocabulary_barriers) {
    for (std::vector<double>& times : ready_) times.assign(microbatches_, 0);
    for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)
      for (std::size_t i = 0; i < schedule.order[rank].size(); ++i)
        note(schedule.order[rank][i], evaluation.times[rank][i].second);
  }

  double of(const VocabularyTurn& turn) const {
    return ready_[static_cast<std::size_t>(turn.exchange)][static_cast<std::size_t>(turn.microbatch)];
  }

 private:
  void note(const Action& action, double end) {
    const auto add = [&](VocabularyExchange exchange) {
      double& ready = ready_[static_cast<std::size_t>(exchange)][static_cast<std::size_t>(action.microbatch)];
      ready = std::max(ready, end);
    };
    const bool backward = action.kind == ActionKind::B || action.kind == ActionKind::I;
    if (action.kind == ActionKind::F && action.stage == last_) add(VocabularyExchange::Hidden);
    if (action.kind == ActionKind::S) add(VocabularyExchange::Statistics);
    if (action.kind == (barriers_ == 1 ? ActionKind::S : ActionKind::T)) add(VocabularyExchange::HiddenGradient);
    if (backward && action.stage == first_) add(VocabularyExchange::EmbeddingGradient);
    if (action.kind == ActionKind::E) add(VocabularyExchange::Embedding);
  }

  std::size_t microbatches_;
  int first_, last_, barriers_;
  std::array<std::vector<double>, kVocabularyExchanges> ready_;
};

}  // namespace

ActionKind served_pass(VocabularyExchange exchange) {
  switch (exchange) {
    case VocabularyExchange::Hidden:
      return ActionKind::S;
    case VocabularyExchange::EmbeddingGradient:
      return ActionKind::G;
    case VocabularyExchange::Embedding:
      return ActionKind::E;
    default:
      return ActionKind::T;
  }
}

// All that an exchange needs has ended, on every rank, when it is ready; whatever stands behind it on the lane is ready no
// earlier. So a rank that runs each exchange before the first action that starts after it is ready waits for no one who waits for
// it.
VocabularyOrder vocabulary_order(const Schedule& schedule) {
  VocabularyOrder order;
  for (std::size_t exchange = 0; exchange < kVocabularyExchanges; ++exchange)
    for (int m = 0; m < schedule.microbatches; ++m) order.turns.push_back({static_cast<VocabularyExchange>(exchange), m});
  const ScheduleEvaluation evaluation = evaluate(schedule, {});
  const ReadyTimes ready(schedule, evaluation);
  const auto key = [&](const VocabularyTurn& turn) { return std::tuple(ready.of(turn), turn.exchange, turn.microbatch); };
  std::sort(order.turns.begin(), order.turns.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  std::vector<double> times;
  for (const VocabularyTurn& turn : order.turns) times.push_back(ready.of(turn));
  for (const auto& row : evaluation.times) {
    std::vector<int>& before = order.before.emplace_back();
    for (const auto& [start, end] : row)
      before.push_back(static_cast<int>(std::upper_bound(times.begin(), times.end(), start) - times.begin()));
  }
  return order;
}

}  // namespace panpipe
