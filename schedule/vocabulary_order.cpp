// One order of the exchanges of a cut vocabulary, in which no rank waits for another that waits for it.
#include <algorithm>
#include <tuple>

#include "base/index.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe {
namespace {

using Of = VocabularyEnd::Of;

// By exchange: who makes it, who reads it. HiddenGradient is of two barriers; with one S makes it.
struct ExchangeRow {
  VocabularyEnd maker, reader;
};
constexpr ExchangeRow kExchanges[kVocabularyExchanges] = {
    {{ActionKind::F, Of::Last}, {ActionKind::S, Of::Share}},   // Hidden
    {{ActionKind::S, Of::Share}, {ActionKind::T, Of::Share}},  // Statistics
    {{ActionKind::T, Of::Share}, {ActionKind::B, Of::Last}},   // HiddenGradient
    {{ActionKind::B, Of::First}, {ActionKind::G, Of::Share}},  // EmbeddingGradient
    {{ActionKind::E, Of::Share}, {ActionKind::F, Of::First}},  // Embedding
};

}  // namespace

int VocabularyEnd::stage(const Schedule& schedule) const {
  const std::vector<int>& chain = schedule.chains.front();
  return of == Of::Share ? -1 : of == Of::First ? chain.front() : chain.back();
}

bool VocabularyEnd::is(const Schedule& schedule, const Action& action) const {
  const ActionKind found = action.kind == ActionKind::I ? ActionKind::B : action.kind;
  return found == kind && (of == Of::Share || action.stage == stage(schedule));
}

std::vector<std::pair<double, double>> VocabularyEnd::times(const Schedule& schedule,
                                                            const ScheduleEvaluation& evaluation) const {
  std::vector<std::pair<double, double>> all(at(schedule.microbatches), {evaluation.makespan, 0});
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)
    for (std::size_t i = 0; i < schedule.order[rank].size(); ++i) {
      const Action& action = schedule.order[rank][i];
      if (!is(schedule, action)) continue;
      auto& [start, end] = all[at(action.microbatch)];
      start = std::min(start, evaluation.times[rank][i].first);
      end = std::max(end, evaluation.times[rank][i].second);
    }
  return all;
}

VocabularyEnd maker_of(VocabularyExchange exchange, int barriers) {
  const bool with_statistics = exchange == VocabularyExchange::HiddenGradient && barriers == 1;
  return kExchanges[at(with_statistics ? VocabularyExchange::Statistics : exchange)].maker;
}

VocabularyEnd reader_of(VocabularyExchange exchange) { return kExchanges[at(exchange)].reader; }

ActionKind served_pass(VocabularyExchange exchange) {
  const ExchangeRow& row = kExchanges[at(exchange)];
  return row.reader.of == Of::Share ? row.reader.kind : row.maker.kind;
}

// All that an exchange needs has ended, on every rank, when it is ready; whatever stands behind it on the lane is ready no
// earlier. So a rank that runs each exchange before the first action that starts after it is ready waits for no one who waits for
// it.
VocabularyOrder vocabulary_order(const Schedule& schedule) {
  const ScheduleEvaluation evaluation = evaluate(schedule, {});
  std::vector<std::tuple<double, VocabularyExchange, int>> turns;
  for (std::size_t e = 0; e < kVocabularyExchanges; ++e) {
    const auto exchange = static_cast<VocabularyExchange>(e);
    const auto ready = maker_of(exchange, schedule.vocabulary_barriers).times(schedule, evaluation);  // under plain costs
    for (int m = 0; m < schedule.microbatches; ++m) turns.emplace_back(ready[at(m)].second, exchange, m);
  }
  std::sort(turns.begin(), turns.end());
  VocabularyOrder order;
  std::vector<double> times;
  for (const auto& [ready, exchange, microbatch] : turns) {
    order.turns.push_back({exchange, microbatch});
    times.push_back(ready);
  }
  for (const auto& row : evaluation.times) {
    std::vector<int>& before = order.before.emplace_back();
    for (const auto& [start, end] : row)
      before.push_back(static_cast<int>(std::upper_bound(times.begin(), times.end(), start) - times.begin()));
  }
  return order;
}

}  // namespace panpipe
