// A vocabulary that is cut over all ranks: the authors' orders, what makes an order of such passes legal, and their order in
// families that were published without them.
#include "schedule/vocabulary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "schedule/communication.hpp"
#include "schedule/semantics.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using Rows = std::vector<std::string>;

Schedule cut(const std::string& family, int ranks, int microbatches, const std::string& barriers = "1") {
  return make_schedule(family, ranks, microbatches, {{"vocabulary", "stages"}, {"vocabulary_barriers", barriers}});
}

// Letters and microbatches of a row, without stages.
Rows letters_of(const Schedule& schedule) {
  Rows rows;
  for (const std::string& row : test::rows_of(schedule)) {
    std::istringstream cells(row);
    std::string text, cell;
    while (cells >> cell) {
      if (!text.empty()) text += ' ';
      text += cell.substr(cell.find_first_not_of("0123456789"));
    }
    rows.push_back(text);
  }
  return rows;
}

// sail-sg/VocabularyParallelism (6191c3b), forward_backward_pipelining_with_vocab_parallel: run once per rank with recorders in
// place of its passes, IF and IB written E and G, the two halves of an S pass written T and S.
TEST(VocabularyOrders, OneBarrierIsTheAuthors) {
  EXPECT_EQ(
      letters_of(cut("1f1b", 4, 8)),
      (Rows{"E0 E1 F0 E2 F1 E3 F2 E4 F3 S0 F4 T0 S1 T1 S2 T2 S3 E5 B0 F5 T3 S4 E6 B1 F6 T4 S5 E7 G0 B2 F7 T5 S6 G1 B3 T6 S7 "
            "G2 B4 G3 B5 G4 B6 G5 B7 G6 G7 T7",
            "E0 E1 E2 F0 E3 F1 E4 F2 S0 F3 T0 S1 T1 S2 B0 T2 S3 E5 F4 B1 T3 S4 E6 F5 B2 T4 S5 E7 G0 F6 B3 T5 S6 G1 F7 B4 T6 "
            "S7 G2 B5 G3 B6 G4 B7 G5 G6 G7 T7",
            "E0 E1 E2 E3 F0 E4 F1 S0 F2 T0 S1 B0 T1 S2 F3 B1 T2 S3 E5 F4 B2 T3 S4 E6 F5 B3 T4 S5 E7 G0 F6 B4 T5 S6 G1 F7 B5 "
            "T6 S7 G2 B6 G3 B7 G4 G5 G6 G7 T7",
            "E0 E1 E2 E3 E4 F0 S0 F1 B0 T0 S1 F2 B1 T1 S2 F3 B2 T2 S3 E5 F4 B3 T3 S4 E6 F5 B4 T4 S5 E7 G0 F6 B5 T5 S6 G1 F7 "
            "B6 T6 S7 G2 B7 G3 G4 G5 G6 G7 T7"}));
  EXPECT_EQ(
      letters_of(cut("1f1b", 5, 7)),
      (Rows{"E0 E1 F0 E2 F1 E3 F2 E4 F3 E5 F4 S0 F5 T0 S1 T1 S2 T2 S3 E6 B0 T3 S4 F6 B1 T4 S5 G0 B2 T5 S6 G1 B3 G2 B4 G3 B5 G4 "
            "B6 G5 G6 T6",
            "E0 E1 E2 F0 E3 F1 E4 F2 E5 F3 S0 F4 T0 S1 T1 S2 T2 S3 E6 B0 F5 T3 S4 B1 F6 T4 S5 G0 B2 T5 S6 G1 B3 G2 B4 G3 B5 G4 "
            "B6 G5 G6 T6",
            "E0 E1 E2 E3 F0 E4 F1 E5 F2 S0 F3 T0 S1 T1 S2 B0 T2 S3 E6 F4 B1 T3 S4 F5 B2 T4 S5 G0 F6 B3 T5 S6 G1 B4 G2 B5 G3 B6 "
            "G4 G5 G6 T6",
            "E0 E1 E2 E3 E4 F0 E5 F1 S0 F2 T0 S1 B0 T1 S2 F3 B1 T2 S3 E6 F4 B2 T3 S4 F5 B3 T4 S5 G0 F6 B4 T5 S6 G1 B5 G2 B6 G3 "
            "G4 G5 G6 T6",
            "E0 E1 E2 E3 E4 E5 F0 S0 F1 B0 T0 S1 F2 B1 T1 S2 F3 B2 T2 S3 E6 F4 B3 T3 S4 F5 B4 T4 S5 G0 F6 B5 T5 S6 G1 B6 G2 G3 "
            "G4 G5 G6 T6"}));
}

TEST(VocabularyOrders, TwoBarriersAreTheAuthors) {  // --disable-backward-fusion
  EXPECT_EQ(
      letters_of(cut("1f1b", 4, 8, "2")),
      (Rows{"E0 E1 F0 E2 F1 E3 F2 E4 F3 S0 E5 F4 T0 S1 F5 T1 S2 T2 S3 T3 S4 E6 B0 F6 T4 S5 E7 B1 F7 T5 S6 G0 B2 T6 S7 G1 B3 T7 "
            "G2 B4 G3 B5 G4 B6 G5 B7 G6 G7",
            "E0 E1 E2 F0 E3 F1 E4 F2 S0 E5 F3 T0 S1 F4 T1 S2 T2 S3 B0 T3 S4 E6 F5 B1 T4 S5 E7 F6 B2 T5 S6 G0 F7 B3 T6 S7 G1 B4 "
            "T7 G2 B5 G3 B6 G4 B7 G5 G6 G7",
            "E0 E1 E2 E3 F0 E4 F1 S0 E5 F2 T0 S1 F3 T1 S2 B0 T2 S3 F4 B1 T3 S4 E6 F5 B2 T4 S5 E7 F6 B3 T5 S6 G0 F7 B4 T6 S7 G1 "
            "B5 T7 G2 B6 G3 B7 G4 G5 G6 G7",
            "E0 E1 E2 E3 E4 F0 S0 E5 F1 T0 S1 F2 B0 T1 S2 F3 B1 T2 S3 F4 B2 T3 S4 E6 F5 B3 T4 S5 E7 F6 B4 T5 S6 G0 F7 B5 T6 S7 "
            "G1 B6 T7 G2 B7 G3 G4 G5 G6 G7"}));
  EXPECT_EQ(letters_of(cut("1f1b", 2, 4, "2")),
            (Rows{"E0 E1 F0 E2 F1 S0 E3 F2 T0 S1 F3 T1 S2 B0 T2 S3 B1 T3 G0 B2 G1 B3 G2 G3",
                  "E0 E1 E2 F0 S0 E3 F1 T0 S1 F2 B0 T1 S2 F3 B1 T2 S3 B2 T3 G0 B3 G1 G2 G3"}));
}

TEST(VocabularyOrders, AreLegalInEveryFamilyAndSize) {
  for (const char* family : {"1f1b", "interleaved-1f1b", "1f1b-v", "v-half", "v-min"})
    for (const char* barriers : {"1", "2"})
      for (const int ranks : {2, 3, 4})
        for (const int microbatches : {1, 2, ranks, 2 * ranks + 1, 3 * ranks}) {
          if (std::string(family) == "interleaved-1f1b" && microbatches % ranks != 0) continue;
          const Schedule schedule = cut(family, ranks, microbatches, barriers);
          EXPECT_EQ(test::message_of(check_schedule(schedule)), "legal")
              << family << ' ' << ranks << ' ' << microbatches << ' ' << barriers;
          for (const std::vector<Action>& row : schedule.order) {
            std::map<ActionKind, int> count;
            for (const Action& action : row) ++count[action.kind];
            for (const ActionKind kind : {ActionKind::E, ActionKind::S, ActionKind::T, ActionKind::G})
              EXPECT_EQ(count[kind], microbatches);
          }
        }
}

// Four ranks, 16 microbatches, F = 1 and B = 2 of the layers, a head of 4 + 4. Whole, it makes the last rank's period 3 + 8: at
// least 16 x 11 = 176 in all. Cut, every rank's is 3 + 1 + 1 = 5: at least 80, and no more than a few periods to fill and drain.
TEST(VocabularyOrders, CutHeadsTakeTheLoadOffTheLastRank) {
  PassCosts whole;
  whole.stages = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {5, 3, 3}};
  EXPECT_GE(evaluate(make_schedule("1f1b", 4, 16), whole).makespan, 176);
  PassCosts parts;
  parts.S = parts.T = 1;
  for (const char* barriers : {"1", "2"}) {
    const ScheduleEvaluation result = evaluate(cut("1f1b", 4, 16, barriers), parts);
    for (const double busy : result.busy) EXPECT_DOUBLE_EQ(busy, 80);
    EXPECT_LE(result.makespan, 80 + 5 * 5);
  }
}

// One more microbatch in flight for each barrier (the paper's table 3): p + 1 and p + 2 on the first rank, p without.
TEST(VocabularyOrders, HoldOneMoreActivationForEachBarrier) {
  EXPECT_EQ(evaluate(make_schedule("1f1b", 6, 24), {}).peak_activations.front(), 6);
  EXPECT_EQ(evaluate(cut("1f1b", 6, 24), {}).peak_activations.front(), 7);
  EXPECT_EQ(evaluate(cut("1f1b", 6, 24, "2"), {}).peak_activations.front(), 8);
}

TEST(VocabularyOrders, ABackwardWaitsForAllRanksPartsOfItsGradient) {
  const auto swapped = [](Schedule schedule, const char* barriers, ActionKind kind) {
    static_cast<void>(barriers);
    auto& row = schedule.order.front();  // rank 0 runs its part for microbatch 0 last
    const auto at = std::find_if(row.begin(), row.end(), [&](const Action& a) { return a.kind == kind && a.microbatch == 0; });
    std::rotate(at, at + 1, row.end());
    return test::message_of(check_schedule(schedule));
  };
  // T of microbatch 0 last: the last rank's backward does not need it with one barrier, and waits for it for ever with two.
  EXPECT_EQ(swapped(cut("1f1b", 2, 4), "1", ActionKind::T), "legal");
  EXPECT_NE(swapped(cut("1f1b", 2, 4, "2"), "2", ActionKind::T), "legal");
  EXPECT_NE(swapped(cut("1f1b", 2, 4), "1", ActionKind::E), "legal");
}

// Sends right behind their passes change no time: 4 microbatches of 3 slots and two S, T on 2 ranks take 20 with delays of 0.25.
TEST(VocabularyOrders, ExchangesWaitForNoMessage) {
  PassCosts costs;
  costs.comm = 0.25;
  const Schedule schedule = cut("1f1b", 2, 4);
  EXPECT_EQ(evaluate(schedule, costs).makespan, 20);
  EXPECT_EQ(evaluate(add_sends_and_receives(schedule, Receives::Early), costs).makespan, 20);
}

// Without delays, receives right before their passes hold no rank: the parts of other ranks still do.
TEST(VocabularyOrders, TransfersWaitForExchanges) {
  const Schedule schedule = cut("1f1b-v", 4, 4), late = add_sends_and_receives(schedule, Receives::Late);
  EXPECT_EQ(evaluate(schedule, {}).makespan, 44.5);
  EXPECT_EQ(run_transfers(late, {}, TransferSemantics::Buffered).makespan, 44.5);
}

TEST(VocabularyOrders, FaultsNameThePass) {
  Schedule schedule = cut("1f1b", 2, 4);
  auto& row = schedule.order.back();
  row.erase(std::find_if(row.begin(), row.end(), [](const Action& a) { return a.kind == ActionKind::G && a.microbatch == 3; }));
  EXPECT_EQ(test::message_of(check_schedule(schedule)),
            "1:-1 1G3 is missing: every rank runs E, S, T and G of a vocabulary that is cut");
  EXPECT_EQ(test::diagnostic_of([] { cut("gpipe", 4, 8); }).message,
            "schedule gpipe has no place for the passes of a vocabulary that is cut over the stages: they are known for 1f1b, "
            "interleaved-1f1b, 1f1b-v, v-half and v-min");
  EXPECT_EQ(test::diagnostic_of([] { cut("1f1b", 4, 8, "3"); }).message, "option 'vocabulary_barriers' must be 1 or 2, not 3");
  EXPECT_EQ(test::diagnostic_of([] {
              make_schedule("1f1b", 4, 8, {{"vocabulary_barriers", "2"}});
            }).message,
            "option 'vocabulary_barriers' is for a vocabulary that is cut");
}

TEST(VocabularyOrders, EndWithAFlush) {
  const ScheduleOptions options = {{"vocabulary", "stages"}, {"post_validation", "true"}};
  EXPECT_EQ(test::diagnostic_of([&] { make_schedule("1f1b", 4, 8, options); }).message,
            "a vocabulary that is cut over the stages and steps without a flush do not go together: its passes end with a flush");
}

TEST(VocabularyOrders, AreTextAndBack) {
  for (const char* barriers : {"1", "2"}) {
    const Schedule schedule = cut("1f1b", 3, 5, barriers);
    const Schedule back = read_schedule_csv(to_csv(schedule, false), "order.csv");
    EXPECT_EQ(back.order, schedule.order);
    EXPECT_EQ(back.vocabulary_barriers, schedule.vocabulary_barriers);
    EXPECT_EQ(test::message_of(check_schedule(back)), "legal");
  }
  EXPECT_EQ(test::diagnostic_of([] { to_csv(cut("1f1b", 2, 2), true); }).message, "PyTorch's CSV cannot express 0E0 (rank 0)");
}

// The gradient that follows the statistics comes before anything that waits for it, and each exchange once.
TEST(VocabularyOrders, ExchangesHaveOneOrder) {
  for (const char* family : {"1f1b", "interleaved-1f1b", "v-half"}) {
    const Schedule schedule = cut(family, 4, 8);
    const VocabularyOrder order = vocabulary_order(schedule);
    EXPECT_EQ(order.turns.size(), kVocabularyExchanges * 8);
    const auto at = [&](VocabularyExchange exchange, int m) {
      return std::find_if(order.turns.begin(), order.turns.end(),
                          [&](const VocabularyTurn& turn) { return turn.exchange == exchange && turn.microbatch == m; });
    };
    for (int m = 0; m < 8; ++m) {
      EXPECT_LT(at(VocabularyExchange::Embedding, m), at(VocabularyExchange::Hidden, m));
      EXPECT_LT(at(VocabularyExchange::Hidden, m), at(VocabularyExchange::Statistics, m));
      EXPECT_LT(at(VocabularyExchange::Statistics, m), at(VocabularyExchange::HiddenGradient, m));
      EXPECT_LT(at(VocabularyExchange::HiddenGradient, m), at(VocabularyExchange::EmbeddingGradient, m));
    }
    for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)  // what an action needs is ready before it
      for (std::size_t i = 0; i < schedule.order[rank].size(); ++i)
        if (const Action& a = schedule.order[rank][i]; a.kind == ActionKind::T) {
          EXPECT_LT(at(VocabularyExchange::Statistics, a.microbatch) - order.turns.begin(), order.before[rank][i]);
        }
  }
}

}  // namespace
}  // namespace panpipe
