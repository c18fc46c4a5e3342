// One order of the exchanges of a cut vocabulary, in which no rank waits for another that waits for it.
#include <algorithm>
#include <array>
#include <tuple>

#include "schedule/vocabulary.hpp"

namespace panpipe {

std::vector<VocabularyExchange> made_exchanges(const Schedule& schedule, const Action& action) {
  std::vector<VocabularyExchange> made;
  const std::vector<int>& chain = schedule.chains.front();
  const bool backward = action.kind == ActionKind::B || action.kind == ActionKind::I;
  const ActionKind makes_gradient = schedule.vocabulary_barriers == 1 ? ActionKind::S : ActionKind::T;
  if (action.kind == ActionKind::F && action.stage == chain.back()) made.push_back(VocabularyExchange::Hidden);
  if (action.kind == ActionKind::S) made.push_back(VocabularyExchange::Statistics);
  if (action.kind == makes_gradient) made.push_back(VocabularyExchange::HiddenGradient);
  if (backward && action.stage == chain.front()) made.push_back(VocabularyExchange::EmbeddingGradient);
  if (action.kind == ActionKind::E) made.push_back(VocabularyExchange::Embedding);
  return made;
}

std::optional<VocabularyExchange> taken_exchange(const Schedule& schedule, const Action& action) {
  const std::vector<int>& chain = schedule.chains.front();
  const bool backward = action.kind == ActionKind::B || action.kind == ActionKind::I;
  if (action.kind == ActionKind::F && action.stage == chain.front()) return VocabularyExchange::Embedding;
  if (backward && action.stage == chain.back()) return VocabularyExchange::HiddenGradient;
  if (action.kind == ActionKind::S) return VocabularyExchange::Hidden;
  if (action.kind == ActionKind::T) return VocabularyExchange::Statistics;
  if (action.kind == ActionKind::G) return VocabularyExchange::EmbeddingGradient;
  return std::nullopt;
}

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
  std::array<std::vector<double>, kVocabularyExchanges> ready;  // the end of each exchange's last producer, under plain costs
  ready.fill(std::vector<double>(static_cast<std::size_t>(schedule.microbatches), 0));
  const auto ready_at = [&](const VocabularyTurn& turn) -> double& {
    return ready[static_cast<std::size_t>(turn.exchange)][static_cast<std::size_t>(turn.microbatch)];
  };
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)
    for (std::size_t i = 0; i < schedule.order[rank].size(); ++i)
      for (const VocabularyExchange exchange : made_exchanges(schedule, schedule.order[rank][i])) {
        double& time = ready_at({exchange, schedule.order[rank][i].microbatch});
        time = std::max(time, evaluation.times[rank][i].second);
      }
  const auto key = [&](const VocabularyTurn& turn) { return std::tuple(ready_at(turn), turn.exchange, turn.microbatch); };
  std::sort(order.turns.begin(), order.turns.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  std::vector<double> times;
  for (const VocabularyTurn& turn : order.turns) times.push_back(ready_at(turn));
  for (const auto& row : evaluation.times) {
    std::vector<int>& before = order.before.emplace_back();
    for (const auto& [start, end] : row)
      before.push_back(static_cast<int>(std::upper_bound(times.begin(), times.end(), start) - times.begin()));
  }
  return order;
}

}  // namespace panpipe
