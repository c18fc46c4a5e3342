// Recompute and offload in orders, by hand and for every family.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/activations.hpp"
#include "schedule/find_family.hpp"
#include "schedule/memory/copy_slots.hpp"
#include "schedule/memory/memory_actions.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using test::from_rows;
using test::rows_of;
using testing::HasSubstr;
using testing::Not;
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
  const std::vector<std::pair<double, double>> levels = {{0, 1}, {1, 2}, {2, 3}, {3, 3},  {4, 2},
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
  EXPECT_THAT(rows_of(schedule)[0], Not(HasSubstr("OFFLOAD0")));
  EXPECT_THAT(rows_of(schedule)[0], Not(HasSubstr("OFFLOAD1")));
  EXPECT_THAT(rows_of(schedule)[0], HasSubstr("OFFLOAD2"));
  // The last rank of 1f1b goes back at once: nothing to offload.
  EXPECT_EQ(rows_of(make_schedule("1f1b", 4, 8, {{"offload", "full"}}))[3], rows_of(make_schedule("1f1b", 4, 8))[3]);
}

TEST(Offload, SelectiveTakesTheStagesWhoseActivationsLiveLongest) {
  // V placement: rank 0 has the first and the last stage; the last one's activations go back at once.
  const Rows rows = rows_of(make_schedule("zb-v", 4, 12, {{"offload", "selective"}}));
  EXPECT_THAT(rows[0], HasSubstr("0OFFLOAD"));
  EXPECT_THAT(rows[0], Not(HasSubstr("7OFFLOAD")));
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
    return test::fault_of([&] { make_schedule("1f1b", 2, 4, options); });
  };
  EXPECT_EQ(message({{"offload", "all"}}),
            "error: option 'offload' of a schedule must be one of none, selective, full, not 'all'");
  EXPECT_EQ(message({{"recompute", "some"}}),
            "error: option 'recompute' of a schedule must be none, full, or how many of each rank's stages are recomputed, not "
            "'some'");
  EXPECT_EQ(message({{"offload_stagger", "2"}}),
            "error: options 'offload_waiting' and 'offload_stagger' need offload=selective or offload=full");
  EXPECT_EQ(message({{"offload", "full"}, {"offload_waiting", "yes"}}),
            "error: option 'offload_waiting' of a schedule must be true or false, not 'yes'");
  EXPECT_EQ(message({{"offload", "full"}, {"offload_stagger", "2x"}}),
            "error: option 'offload_stagger' of a schedule must be a whole number, not '2x'");
  EXPECT_EQ(message({{"ofload", "full"}}), "error: unknown option 'ofload' of schedule 1f1b, did you mean 'offload'?");
  EXPECT_EQ(message({{"recompute", "none"}}), "");
}

// One rank, all passes 1: I0 1-2, I1 3-4, I2 5-6, W0 6, W1 7, W2 8. The parts that wait for W live 4, 3, 2; copies 1. 0: away
// 2-3, back 5-6, while 0I2 runs. 1: away 4-5, back 6-7. 2: 6-7 is taken, and 7-8 would be too late for W2 at 8.
TEST(Offload, WhatWaitsForTheWeightGradient) {
  const Schedule plain = from_rows({"0F0 0I0 0F1 0I1 0F2 0I2 0W0 0W1 0W2"});
  const Schedule parked = add_offload(plain, {}, {OffloadRequest::Choice::Selective, true, 1});
  EXPECT_EQ(rows_of(parked), (Rows{"0F0 0I0 0OFFLOAD0 0F1 0I1 0OFFLOAD1 0F2 0RELOAD0 0I2 0RELOAD1 0W0 0W1 0W2"}));
  EXPECT_EQ(test::message_of(check_schedule(parked)), "legal");
  const ScheduleEvaluation evaluation = evaluate(parked, {});
  EXPECT_EQ(evaluation.makespan, 9);
  const std::vector<std::pair<double, double>> levels = {{0, 1}, {2, 2}, {3, 1}, {4, 2}, {5, 2}, {6, 3}, {7, 2}, {8, 1}, {9, 0}};
  EXPECT_EQ(activation_curves(parked, evaluation)[0].levels, levels);
  // Half of it is left after I: copies take 0.5, and the third fits as well (away 6-6.5, back at 7).
  PassCosts half;
  half.waiting = 0.5;
  EXPECT_THAT(rows_of(add_offload(plain, half, {OffloadRequest::Choice::Selective, true, 1}))[0], HasSubstr("0OFFLOAD2"));
}

TEST(Offload, AParkedActivationMustBeBackBeforeItIsRead) {
  const auto message = [](const std::string& row) { return test::message_of(check_schedule(from_rows({row}))); };
  EXPECT_EQ(message("0F0 0OFFLOAD0 0RELOAD0 0I0 0OFFLOAD0 0RELOAD0 0W0"), "legal");
  EXPECT_EQ(message("0F0 0I0 0OFFLOAD0 0RELOAD0 0W0"), "legal");
  EXPECT_EQ(message("0F0 0OFFLOAD0 0RELOAD0 0R0 0B0"), "legal");
  EXPECT_THAT(message("0F0 0OFFLOAD0 0RELOAD0 0I0 0OFFLOAD0 0W0"),
              HasSubstr("comes before 0RELOAD0, which brings its activations back"));
  EXPECT_THAT(message("0F0 0OFFLOAD0 0R0 0RELOAD0 0B0"), HasSubstr("comes before 0RELOAD0, which brings its activations back"));
  EXPECT_THROW(from_rows({"0F0 0OFFLOAD0 0RELOAD0 0OFFLOAD0 0RELOAD0 0B0"}), InputError);  // the reader: stands twice
}

// The first of each rank's two stages is recomputed, the other one offloaded.
TEST(MemoryOptions, SomeStagesRecomputedTheRestOffloaded) {
  const Schedule schedule = make_schedule("interleaved-1f1b", 4, 12, {{"recompute", "1"}, {"offload", "full"}});
  EXPECT_EQ(test::message_of(check_schedule(schedule)), "legal");
  for (const auto& row : schedule.order)
    for (const Action& a : row) EXPECT_TRUE(a.kind != ActionKind::R || a.stage < 4);
  const auto most = [](const Schedule& of) {
    const ScheduleEvaluation e = evaluate(of, {});
    return *std::max_element(e.peak_activations.begin(), e.peak_activations.end());
  };
  EXPECT_LT(most(schedule), most(make_schedule("interleaved-1f1b", 4, 12, {{"recompute", "1"}})));
  EXPECT_LT(most(schedule), most(make_schedule("interleaved-1f1b", 4, 12, {{"offload", "full"}})) + 1);
}

// Ranks 0 and 1, and 2 and 3, share a way to the host: their copies never run at the same time.
TEST(Offload, StaggeredCopiesOfRanksBehindOneSwitchNeverMeet) {
  const PassCosts costs{10, 12, 8, std::nullopt, 1, 4, 5};
  for (const char* family : {"1f1b", "interleaved-1f1b", "group-interleaved", "gis-h", "stp", "dualpipe-v", "zb-h1"}) {
    const Schedule plain = make_schedule(family, 4, 16);
    const auto collisions = [&](int stagger) {
      const Schedule with = add_offload(plain, costs, {OffloadRequest::Choice::Selective, true, stagger});
      const ScheduleEvaluation evaluation = evaluate(with, costs);
      EXPECT_LE(evaluation.makespan, evaluate(plain, costs).makespan + 1e-9) << family;
      int copies = 0, found = 0;
      for (std::size_t rank = 0; rank < 4; rank += 2) {
        std::vector<std::pair<double, double>> busy;
        for (std::size_t r = rank; r < rank + 2; ++r)
          for (std::size_t i = 0; i < with.order[r].size(); ++i)
            if (with.order[r][i].kind == ActionKind::Offload || with.order[r][i].kind == ActionKind::Reload)
              busy.push_back(evaluation.times[r][i]);
        std::sort(busy.begin(), busy.end());
        copies += static_cast<int>(busy.size());
        for (std::size_t i = 1; i < busy.size(); ++i) found += busy[i].first < busy[i - 1].second - 1e-9;
      }
      EXPECT_GT(copies, 0) << family;
      return found;
    };
    EXPECT_EQ(collisions(2), 0) << family;
    EXPECT_GT(collisions(1), 0) << family;
  }
}

// Every family: the orders are legal and run the same passes; recompute holds at most one more than before on any rank, offload
// no more than before, and selective offload does not lengthen the step.
TEST(MemoryOptions, EveryFamily) {
  const PassCosts costs{10, 12, 8, std::nullopt, 1, 6, 6};
  struct Case {
    ScheduleOptions options;
    bool recomputes = false, never_longer = false;
  };
  const std::vector<Case> cases = {
      {{{"recompute", "full"}}, true},
      {{{"offload", "selective"}}, false, true},
      {{{"offload", "full"}}},
      {{{"offload", "selective"}, {"offload_waiting", "true"}, {"offload_stagger", "2"}}, false, true},
      {{{"offload", "full"}, {"offload_waiting", "true"}}},
      {{{"recompute", "full"}, {"offload", "selective"}}, true},
      {{{"recompute", "1"}, {"offload", "full"}, {"offload_waiting", "true"}}, true}};
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
      if (has_option(family.name, "ways") || has_option(family.name, "forward_slots")) continue;  // recomputes by itself
      SCOPED_TRACE(fmt::format("{} p={} m={}", family.name, ranks, microbatches));
      ++orders;
      const ScheduleEvaluation before = evaluate(plain, costs);
      const auto most = [](const ScheduleEvaluation& e) {
        return *std::max_element(e.peak_activations.begin(), e.peak_activations.end());
      };
      for (const Case& test : cases) {
        SCOPED_TRACE(&test - cases.data());
        ScheduleOptions options = test.options;
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
        EXPECT_LE(most(after), most(before) + (test.recomputes ? 1 : 0));
        fewer += most(after) < most(before);
        EXPECT_TRUE(!test.never_longer || after.makespan <= before.makespan * (1 + 1e-12));
      }
    }
  EXPECT_GT(orders, 50);
  EXPECT_GT(fewer, 2 * orders);
}

}  // namespace
}  // namespace panpipe
