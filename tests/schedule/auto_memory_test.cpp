// auto-memory: within its limit, of the base's passes, never longer than the base within that limit, above its bound, and shorter
// than searched orders without recompute where it should be.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "schedule/search/lower_bound.hpp"
#include "schedule/step_bound.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

int held(const ScheduleEvaluation& evaluation) {
  return *std::max_element(evaluation.peak_activations.begin(), evaluation.peak_activations.end());
}

std::map<ActionKind, int> counts(const Schedule& schedule) {
  std::map<ActionKind, int> result;
  for (const auto& row : schedule.order)
    for (const Action& action : row) ++result[action.kind];
  return result;
}

ScheduleOptions within(int memory, const std::string& base, const std::string& ways) {
  return {{"memory", std::to_string(memory)}, {"base", base}, {"ways", ways}, {"effort", "20"}};
}

using Size = std::tuple<std::string, int, int, std::string>;  // base, ranks, microbatches, ways

class AutoMemory : public testing::TestWithParam<Size> {};

TEST_P(AutoMemory, HoldsNoMoreThanItsLimit) {
  const auto& [base, ranks, microbatches, ways] = GetParam();
  for (const PassCosts& costs :
       {PassCosts{}, PassCosts{10, 12, 8, std::nullopt, 1, 4, 5}, PassCosts{10, 14, 6, std::nullopt, 2, 25}}) {
    const Schedule plain = make_schedule(base.substr(0, base.find(':')), ranks, microbatches, {}, costs);
    const int most = held(evaluate(plain, costs));
    for (const int memory : {1, 2, most / 2, most}) {
      if (memory < 1 || (ways == "offload" && memory < 3)) continue;
      SCOPED_TRACE(fmt::format("memory {}, I {}", memory, costs.I));
      Schedule found;
      try {
        found = make_schedule("auto-memory", ranks, microbatches, within(memory, base, ways), costs);
      } catch (const InputError&) {
        EXPECT_EQ(ways, "offload");  // whatever is made again takes no room
        continue;
      }
      EXPECT_EQ(test::message_of(check_schedule(found)), "legal");
      const ScheduleEvaluation evaluation = evaluate(found, costs);
      EXPECT_LE(held(evaluation), memory);
      std::map<ActionKind, int> actions = counts(found), passes = counts(plain);
      for (const ActionKind kind : {ActionKind::F, ActionKind::B, ActionKind::I, ActionKind::W})
        EXPECT_EQ(actions[kind], passes[kind]) << name_of(kind);
      EXPECT_EQ(actions[ActionKind::Offload], actions[ActionKind::Reload]);
      EXPECT_TRUE(ways != "recompute" || actions[ActionKind::Offload] == 0);
      EXPECT_TRUE(ways != "offload" || actions[ActionKind::R] == 0);
      EXPECT_GE(evaluation.makespan, found.lower_bound.value_or(0) * (1 - 1e-9));
      EXPECT_GE(evaluation.makespan, step_bound(found, costs, memory).makespan * (1 - 1e-9));
      EXPECT_TRUE(memory < most || evaluation.makespan <= evaluate(plain, costs).makespan * (1 + 1e-9));
      EXPECT_EQ(read_schedule_csv(to_csv(found, false), "x").order, found.order);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bases, AutoMemory,
                         testing::Values(Size{"1f1b", 1, 3, "recompute"}, Size{"1f1b", 4, 8, "both"},
                                         Size{"1f1b", 4, 8, "offload"}, Size{"gpipe", 3, 7, "recompute"},
                                         Size{"zb-h2", 4, 9, "recompute"}, Size{"zb-auto", 4, 6, "both"},
                                         Size{"zb-v-auto", 3, 6, "both"}, Size{"interleaved-1f1b", 4, 8, "both"},
                                         Size{"seq-1f1b", 2, 4, "recompute"}, Size{"hanayo", 2, 6, "recompute"},
                                         Size{"chimera", 4, 8, "both"}));

double step(const char* family, int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  return evaluate(make_schedule(family, ranks, microbatches, options, costs), costs).makespan;
}

// On the line one rank alone holds its microbatches one after another, so that nothing has to be made again: M (F + I + W).
TEST(AutoMemory, OneRankNeedsNothing) {
  const Schedule found = make_schedule("auto-memory", 1, 5, {{"base", "gpipe"}, {"memory", "5"}});
  EXPECT_DOUBLE_EQ(evaluate(found, {}).makespan, 15);
  EXPECT_EQ(counts(found)[ActionKind::R], 0);
}

// Two ranks, one activation each. Kept, a microbatch leaves rank 0 before the next one comes: F, F of rank 1, I of rank 1, I, W
// are 5 each, 15 for three. Made again, nothing waits on rank 0, since the next F and R run while rank 1 has its F and I:
// 3 (F + R + I + W) = 12, which is also its work, so no order with three R is shorter.
TEST(AutoMemory, RecomputeFillsWaits) {
  const ScheduleOptions line = {{"base", "zb-auto"}, {"memory", "1"}};
  EXPECT_DOUBLE_EQ(step("zb-auto", 2, 3, {{"memory", "1"}}, {}), 15);
  EXPECT_DOUBLE_EQ(step("auto-memory", 2, 3, line, {}), 12);
}

// Ranks with less room hold less; a list of equal limits is one limit.
TEST(AutoMemory, ALimitForEachRank) {
  const ScheduleOptions uneven = {{"base", "zb-v-auto"}, {"memory", "1,4,2,6"}, {"ways", "both"}, {"effort", "20"}};
  const std::vector<int> limits = {1, 4, 2, 6};
  const ScheduleEvaluation evaluation = evaluate(make_schedule("auto-memory", 4, 8, uneven), {});
  for (std::size_t r = 0; r < limits.size(); ++r) EXPECT_LE(evaluation.peak_activations[r], limits[r]) << r;
  EXPECT_LT(evaluation.makespan, step("auto-memory", 4, 8, within(1, "zb-v-auto", "both"), {}));
  const auto order = [](const char* memory) {
    return make_schedule("auto-memory", 4, 8, {{"memory", memory}, {"base", "1f1b"}, {"effort", "5"}}).order;
  };
  EXPECT_EQ(order("2,2,2,2"), order("2"));
  EXPECT_EQ(test::fault_of([&] { order("2,2"); }),
            "error: option 'memory' of schedule auto-memory lists the limits of 2 ranks, but there are 4");
}

// PipeOffload's own orders at their own memory, where a copy takes as long as a forward and where it takes twice that.
TEST(AutoMemory, NeverLongerThanPipeOffload) {
  for (const double copy : {1.0, 2.0})
    for (const char* family : {"gis-h", "group-interleaved"})
      for (const char* choice : {"selective", "full"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", family, choice, copy));
        const PassCosts costs{1, 1, 1, std::nullopt, 0, copy};
        const ScheduleEvaluation theirs = evaluate(make_schedule(family, 4, 16, {{"offload", choice}}, costs), costs);
        const double ours = step("auto-memory", 4, 16, {{"memory", std::to_string(held(theirs))}, {"ways", "both"}}, costs);
        EXPECT_LE(ours, theirs.makespan);
      }
}

// Half and a quarter of 1F1B's memory (two stages a rank hold twice as many activations), Llama 3 8B's passes at 32k tokens.
TEST(AutoMemory, ShorterThanOrdersThatKeepAll) {
  PassCosts costs{0.5, 0.7855, 0.3095, std::nullopt, 0};
  for (const auto& [memory, gain] : {std::pair{8, 0.08}, {4, 0.4}}) {
    costs.offload = 1;  // twice the forward
    const double kept = step("v-auto", 8, 32, {{"memory", std::to_string(memory)}}, costs);
    const double found = step("auto-memory", 8, 32, {{"memory", std::to_string(memory)}, {"ways", "both"}}, costs);
    EXPECT_LE(found, kept * (1 - gain)) << memory;
  }
}

TEST(AutoMemory, RefusesWhatItCannotRead) {
  const auto make = [](const ScheduleOptions& options) { return [=] { make_schedule("auto-memory", 4, 8, options); }; };
  EXPECT_EQ(test::fault_of(make({{"base", "zb-uato"}})).substr(0, 33), "error: unknown schedule 'zb-uato'");
  EXPECT_EQ(test::fault_of(make({{"base", "auto-memory"}})), "error: the base of auto-memory is another family");
  EXPECT_NE(test::fault_of(make({{"base", "hanayo:stages"}})).find("an option is KEY=VALUE"), std::string::npos);
  EXPECT_NE(test::fault_of(make({{"base", "1f1b"}, {"ways", "offload"}, {"memory", "1"}})).find("allow ways=both"),
            std::string::npos);
}

// The bound with ways: two stages of one time, two ranks, M microbatches, one activation on each. Rank 0's lives are
// F + F + I + I + W = 5, together 5 M; with x of them made again (2F + I + W = 4 each) T >= 3 M + x and T >= 5 M - x, so
// T >= 4 M at x = M. Without ways 5 M.
TEST(AutoMemory, BoundOfRecompute) {
  search::OrderProblem problem{2, 6, 1, 1};
  EXPECT_DOUBLE_EQ(search::lower_bound(problem).makespan, 30);
  EXPECT_NEAR(search::lower_bound(problem, {true, false, 0, 0}), 24, 1e-6);
  // Copies of 1 and 1 in a step of T: T/2 activations leave, each F + 2 + I + W = 5: no gain.
  EXPECT_NEAR(search::lower_bound(problem, {false, true, 1, 1}), 30, 1e-6);
  // Copies that take no time leave F + I + W = 3 of 5: 3 M, but the passes themselves and the tail bound the step: 3 M + 2 - ...
  EXPECT_GE(search::lower_bound(problem, {false, true, 0, 0}), 19);
}

}  // namespace
}  // namespace panpipe
