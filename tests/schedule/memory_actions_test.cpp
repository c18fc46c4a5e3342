// Recompute and offload in orders, by hand and for every family.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/base/error.hpp"
#include "costmodel/schedule/activations.hpp"
#include "costmodel/schedule/copy_slots.hpp"
#include "costmodel/schedule/memory_actions.hpp"
#include "tests/schedule/rows.hpp"

namespace panpipe {
namespace {

using test::from_rows;
using test::rows_of;
using Rows = std::vector<std::string>;

// F=1, R=1, B=2: r0 F0 0-1, F1 1-2, R0 2-3 in its bubble, B0 5-7, R1 7-8, B1 9-11; r1 F0 1-2, R0 2-3, B0 3-5, F1 5-6, R1, B1 7-9.
// Two microbatches on two ranks take 9 without; rank 1 has no bubble, so its two recomputes come on top.
TEST(Recompute, FillsBubbles) {
  const Schedule schedule = make_schedule("1f1b", 2, 2, {{"recompute", "full"}});
  EXPECT_EQ(rows_of(schedule), (Rows{"0F0 0F1 0R0 0B0 0R1 0B1", "1F0 1R0 1B0 1F1 1R1 1B1"}));
  const ScheduleEvaluation evaluation = evaluate(schedule, {});
  EXPECT_EQ(evaluation.makespan, 11);
  EXPECT_EQ(evaluation.times[0][2], (std::pair<double, double>{2, 3}));
  // Held from a forward's start to its end and from R's start to B's end: never two at once, where 1f1b holds two on rank 0.
  EXPECT_EQ(evaluation.peak_activations, (std::vector<int>{1, 1}));
  EXPECT_EQ(evaluate(make_schedule("1f1b", 2, 2), {}).peak_activations, (std::vector<int>{2, 1}));
}

// Rank 0 waits from 2 to 4 for the gradient of 0B0 and would recompute for 0B1 between its backwards; 0R1 in front of 0B0 fits
// into the wait: r1 F0 1-2, B0 2-4 (no R there to make the arithmetic short), F1 4-5, B1 5-7.
TEST(Recompute, MovesOneCellEarlierWhereTheRankWaits) {
  const Schedule schedule = add_recompute(from_rows({"0F0 0F1 0I0 0B1 0W0", "1F0 1F1 1B1 1B0"}), {});
  // r1: F0 1-2, F1 2-3, R1 3-4, B1 4-6, R0 6-7, B0 7-9. 0B1's R goes ahead only of a cell that waits for longer than R takes.
  EXPECT_EQ(test::message_of(check_schedule(schedule)), "legal");
  EXPECT_LE(evaluate(schedule, {}).makespan,
            evaluate(from_rows({"0F0 0F1 0R0 0I0 0R1 0B1 0W0", "1F0 1F1 1R1 1B1 1R0 1B0"}), {}).makespan);
}

// One rank, F=1, B=2, copies 1: forwards end at 1 2 3 4, backwards start at 4 6 8 10. Lives: 3 4 5 6, longest first.
// m3: away 4-5, back 8-9 (while 0B2 runs). m2: away 3-4, back 6-7. m1: away 2-3, back 5-6, its first free slot before 6.
// m0: away 1-2, but nothing is free for its way back before 4: only `full` takes it.
TEST(Offload, LongLivesFirstAsFarAsTheCopyLaneHidesThem) {
  const Schedule selective = make_schedule("gpipe", 1, 4, {{"offload", "selective"}});
  EXPECT_EQ(rows_of(selective),
            (Rows{"0F0 0F1 0OFFLOAD1 0F2 0OFFLOAD2 0F3 0OFFLOAD3 0RELOAD1 0B0 0RELOAD2 0B1 0RELOAD3 0B2 0B3"}));
  const ScheduleEvaluation hidden = evaluate(selective, {});
  EXPECT_EQ(hidden.makespan, 12);
  EXPECT_EQ(hidden.peak_activations, (std::vector<int>{3}));
  // Levels: F0 1, F1 2, F2 3; at 3 m1 is gone and F3 comes; 4 m2 gone; 5 m3 gone and m1 back; 6 B0 over, m2 back; ...
  const std::vector<std::pair<double, int>> levels = {{0, 1}, {1, 2}, {2, 3}, {3, 3},  {4, 2},
                                                      {5, 2}, {6, 2}, {8, 2}, {10, 1}, {12, 0}};
  EXPECT_EQ(activation_curves(selective, hidden)[0].levels, levels);

  // With m0 the lane is late: back 4-5, so 0B0 starts at 5 and all ends one later; two activations are held at most.
  const Schedule full = make_schedule("gpipe", 1, 4, {{"offload", "full"}});
  EXPECT_EQ(rows_of(full), (Rows{"0F0 0OFFLOAD0 0F1 0OFFLOAD1 0F2 0OFFLOAD2 0RELOAD0 0F3 0OFFLOAD3 0RELOAD1 0B0 0RELOAD2 0B1 "
                                 "0RELOAD3 0B2 0B3"}));
  EXPECT_EQ(evaluate(full, {}).makespan, 13);
  EXPECT_EQ(evaluate(full, {}).peak_activations, (std::vector<int>{2}));
  EXPECT_EQ(evaluate(make_schedule("gpipe", 1, 4), {}).peak_activations, (std::vector<int>{4}));
}

TEST(Offload, NothingThatLivesShorterThanTheRoundTrip) {
  PassCosts slow;
  slow.offload = 3;
  slow.reload = 2;  // round trip 5: lives are 3 4 5 6
  const Schedule schedule = make_schedule("gpipe", 1, 4, {{"offload", "full"}}, slow);
  EXPECT_EQ(rows_of(schedule)[0].find("OFFLOAD0"), std::string::npos);
  EXPECT_EQ(rows_of(schedule)[0].find("OFFLOAD1"), std::string::npos);
  EXPECT_NE(rows_of(schedule)[0].find("OFFLOAD2"), std::string::npos);
  // The last rank of 1f1b goes back at once: nothing to offload.
  EXPECT_EQ(rows_of(make_schedule("1f1b", 4, 8, {{"offload", "full"}}))[3], rows_of(make_schedule("1f1b", 4, 8))[3]);
}

TEST(Offload, SelectiveTakesTheStagesWhoseActivationsLiveLongest) {
  // V placement: rank 0 has the first and the last stage; the last one's activations go back at once.
  const Rows rows = rows_of(make_schedule("zb-v", 4, 12, {{"offload", "selective"}}));
  EXPECT_NE(rows[0].find("0OFFLOAD"), std::string::npos);
  EXPECT_EQ(rows[0].find("7OFFLOAD"), std::string::npos);
}

TEST(Offload, CopySlots) {
  CopySlots slots;
  slots.take(2, 2);
  slots.take(5, 1);
  EXPECT_EQ(slots.first(1, 0, 9), 0);
  EXPECT_EQ(slots.first(1, 2, 9), 4);  // 2-4 is taken
  EXPECT_EQ(slots.first(2, 2, 9), 6);  // 4-5 is too short
  EXPECT_EQ(slots.first(2, 2, 7), std::nullopt);
  EXPECT_EQ(slots.last(1, 0, 6), 4);
  EXPECT_EQ(slots.last(2, 0, 6), 0);
  EXPECT_EQ(slots.last(2, 1, 6), std::nullopt);
  EXPECT_EQ(slots.last(2, 1, 8), 6);
}

TEST(MemoryOptions, WrongOnesAreNamed) {
  const auto message = [](const ScheduleOptions& options) {
    try {
      make_schedule("1f1b", 2, 4, options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({{"offload", "all"}}),
            "error: option 'offload' of a schedule must be one of none, selective, full, not 'all'");
  EXPECT_EQ(
      message({{"recompute", "full"}, {"offload", "full"}}),
      "error: options 'recompute' and 'offload' exclude each other: what is recomputed is not kept, so nothing is offloaded");
  EXPECT_EQ(message({{"ofload", "full"}}), "error: unknown option 'ofload' of schedule 1f1b, did you mean 'offload'?");
  EXPECT_EQ(message({{"recompute", "none"}}), "no error");
}

// Every family: the orders are legal and run the same passes; recompute holds no more than before on any rank; offload
// holds no more than before, and selective offload does not lengthen the step.
TEST(MemoryOptions, EveryFamily) {
  const PassCosts costs{10, 12, 8, std::nullopt, 1, 6, 6};
  int orders = 0, fewer = 0;
  for (const ScheduleFamily& family : schedule_families())
    for (const auto& [ranks, microbatches] : {std::pair{2, 5}, {4, 8}, {4, 12}, {6, 24}}) {
      if (family.searched() && ranks > 2) continue;  // searches take their time
      Schedule plain;
      try {
        plain = make_schedule(family.name, ranks, microbatches, {}, costs);
      } catch (const InputError&) {
        continue;
      }
      if (!check_schedule(plain).empty()) continue;
      SCOPED_TRACE(fmt::format("{} p={} m={}", family.name, ranks, microbatches));
      ++orders;
      const ScheduleEvaluation before = evaluate(plain, costs);
      const auto most = [](const ScheduleEvaluation& e) {
        return *std::max_element(e.peak_activations.begin(), e.peak_activations.end());
      };
      for (const auto& [key, value] : {std::pair{"recompute", "full"}, {"offload", "selective"}, {"offload", "full"}}) {
        SCOPED_TRACE(fmt::format("{}={}", key, value));
        ScheduleOptions options = {{key, value}};
        const Schedule with = apply_memory_options(plain, options, costs);
        EXPECT_EQ(test::message_of(check_schedule(with)), "legal");
        Schedule without = with;
        for (auto& row : without.order)
          std::erase_if(row, [](const Action& a) {
            return a.kind == ActionKind::R || a.kind == ActionKind::Offload || a.kind == ActionKind::Reload;
          });
        EXPECT_EQ(without.order, plain.order);
        EXPECT_EQ(read_schedule_csv(to_csv(with, false), "x").order, with.order);
        const ScheduleEvaluation after = evaluate(with, costs);
        EXPECT_LE(most(after), most(before) + (key == std::string("recompute") ? 1 : 0));
        fewer += most(after) < most(before);
        if (value == std::string("selective")) {
          EXPECT_LE(after.makespan, before.makespan * (1 + 1e-12));
        }
      }
    }
  EXPECT_GT(orders, 50);
  EXPECT_GT(fewer, orders);
}

}  // namespace
}  // namespace panpipe
