// Searched families: never longer than what is published, within their memory, above their bounds, and exact where that can be
// proved.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/memory/memory_sweep.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

constexpr PassCosts kEven{1, 1, 1, std::nullopt, 0}, kSkewed{10, 12, 8, std::nullopt, 1}, kMore{10, 14, 6, std::nullopt, 2},
    // ZB's table of the 14.1 B model on 16 GPUs with half a stage each (sail-sg/zero-bubble, efficiency.py), in microseconds.
    kMeasured{14407, 14380, 9676, std::nullopt, 1610};

int held(const ScheduleEvaluation& evaluation) {
  return *std::max_element(evaluation.peak_activations.begin(), evaluation.peak_activations.end());
}

// Properties of every searched order.
ScheduleEvaluation checked(const Schedule& schedule, const PassCosts& costs, int memory) {
  EXPECT_EQ(test::message_of(check_schedule(schedule)), "legal");
  const ScheduleEvaluation evaluation = evaluate(schedule, costs);
  EXPECT_LE(held(evaluation), memory);
  EXPECT_TRUE(schedule.lower_bound.has_value());
  EXPECT_GE(evaluation.makespan, schedule.lower_bound.value_or(0) * (1 - 1e-9));
  EXPECT_EQ(schedule.notes.size(), 1U);
  return evaluation;
}

ScheduleOptions memory_of(int memory) { return {{"memory", std::to_string(memory)}}; }

struct Published {
  const char* family;
  int ranks, microbatches, memory;
  PassCosts costs;
  double makespan;
};

// Makespans of orders that the published generators made (sail-sg/zero-bubble-pipeline-parallelism: zb.py, zbv.py, zbv_greedy.py,
// v_auto_schedule.py), evaluated as `evaluate` does, and the activations they hold; those of zb.py as its limit counts.
class NeverLonger : public testing::TestWithParam<Published> {};

TEST_P(NeverLonger, ThanThePublishedHeuristic) {
  const Published& p = GetParam();
  const bool fixed = std::string(p.family) == "v-half" || std::string(p.family) == "v-min";
  const Schedule schedule =
      make_schedule(p.family, p.ranks, p.microbatches, fixed ? ScheduleOptions{} : memory_of(p.memory), p.costs);
  EXPECT_LE(checked(schedule, p.costs, p.memory).makespan, p.makespan);
}

INSTANTIATE_TEST_SUITE_P(
    Searched, NeverLonger,
    testing::Values(Published{"zb-auto", 2, 4, 2, kEven, 13}, Published{"zb-auto", 4, 8, 4, kEven, 27},
                    Published{"zb-auto", 4, 8, 4, kSkewed, 294}, Published{"zb-auto", 4, 12, 8, kSkewed, 393},
                    Published{"zb-auto", 8, 16, 8, kEven, 55}, Published{"zb-auto", 8, 16, 8, kSkewed, 606},
                    Published{"zb-auto", 8, 16, 16, kSkewed, 557}, Published{"zb-v-auto", 4, 8, 8, kEven, 51},
                    Published{"zb-v-auto", 4, 12, 8, kSkewed, 769}, Published{"zb-v-auto", 8, 16, 16, kEven, 103},
                    Published{"zb-v-auto", 8, 16, 16, kSkewed, 1077}, Published{"v-half", 4, 8, 6, kEven, 53},
                    Published{"v-half", 4, 8, 6, kSkewed, 576}, Published{"v-half", 8, 16, 10, kEven, 113},
                    Published{"v-half", 8, 16, 10, kSkewed, 1234}, Published{"v-half", 8, 24, 10, kMeasured, 2210813},
                    Published{"v-min", 4, 8, 4, kEven, 59}, Published{"v-min", 4, 8, 4, kSkewed, 728},
                    Published{"v-min", 4, 8, 4, kMeasured, 909223}, Published{"v-min", 4, 12, 4, kMeasured, 1280751},
                    Published{"v-min", 8, 16, 8, kEven, 123}, Published{"v-min", 8, 24, 8, kMore, 2594},
                    Published{"v-auto", 4, 8, 6, kEven, 53}, Published{"v-auto", 4, 12, 6, kSkewed, 814}),
    [](const auto& instance) {
      const Published& p = instance.param;
      std::string name = fmt::format("{}_p{}_m{}_memory{}_{}", p.family, p.ranks, p.microbatches, p.memory, instance.index);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// Exact answers of an integer program (the same repository's zb.py with its ILP switched on, solved to optimality by CBC): ours
// are as short. zb.py's limits count an input gradient as freeing half; these orders hold as much in our count.
TEST(Searched, AsShortAsTheIntegerProgram) {
  // The program minimises the longest span; with this memory rank 0 has it, from time 0 on, so it is the makespan.
  EXPECT_EQ(evaluate(make_schedule("zb-auto", 3, 4, memory_of(3), PassCosts{5, 6, 4, std::nullopt, 1}),
                     PassCosts{5, 6, 4, std::nullopt, 1})
                .makespan,
            82);
  EXPECT_EQ(evaluate(make_schedule("zb-auto", 3, 6, memory_of(3), kMore), kMore).makespan, 232);
  EXPECT_EQ(evaluate(make_schedule("zb-auto", 3, 5, memory_of(3)), kEven).makespan, 17);
}

// Sizes and costs as a person might give them, few enough to be quick: about 200 orders.
template <class Use>
void for_some_sizes(Use&& use) {
  for (const PassCosts& costs : {kEven, kMore})
    for (const int p : {1, 2, 3, 5})
      for (const int m : {1, 2, 5, 11}) {
        SCOPED_TRACE(fmt::format("p={} m={} F={} comm={}", p, m, costs.F, costs.comm));
        use(p, m, costs);
      }
}

TEST(Searched, WithinItsMemoryAndNoLongerThanHandMadeOrders) {
  for_some_sizes([](int p, int m, const PassCosts& costs) {
    for (const int memory : {1, p, 2 * p}) {
      const double found = checked(make_schedule("zb-auto", p, m, memory_of(memory), costs), costs, memory).makespan;
      for (const char* family : {"1f1b", "zb-h1", "zb-h2"}) {
        const ScheduleEvaluation known = evaluate(make_schedule(family, p, m), costs);
        if (held(known) <= memory) {
          EXPECT_LE(found, known.makespan * (1 + 1e-9)) << family << " " << memory;
        }
      }
    }
    for (const int memory : {2, p + 2, 2 * p}) {
      const double found = checked(make_schedule("v-auto", p, m, memory_of(memory), costs), costs, memory).makespan;
      for (const char* family : {"1f1b-v", "zb-v"}) {
        const ScheduleEvaluation known = evaluate(make_schedule(family, p, m), costs);
        if (held(known) <= memory) {
          EXPECT_LE(found, known.makespan * (1 + 1e-9)) << family << " " << memory;
        }
      }
    }
    checked(make_schedule("v-half", p, m, {}, costs), costs, p + 2);
    checked(make_schedule("v-min", p, m, {}, costs), costs, (2 * p + 2) / 3 + 2);
  });
}

TEST(Searched, LargeSizes) {
  checked(make_schedule("zb-auto", 16, 48, {}, kMore), kMore, 16);
  checked(make_schedule("v-half", 16, 48, {}, kSkewed), kSkewed, 18);
  checked(make_schedule("v-min", 15, 45, {}, kEven), kEven, 12);
  checked(make_schedule("zb-v-auto", 16, 1024, {}, kSkewed), kSkewed, 32);  // beyond what is searched whole
}

TEST(Searched, OddCosts) {
  for (const PassCosts& costs : {PassCosts{0, 1, 1, std::nullopt, 0}, PassCosts{1, 0, 0, std::nullopt, 0},
                                 PassCosts{0, 0, 0, std::nullopt, 0}, PassCosts{1, 2, 0, std::nullopt, 5},
                                 PassCosts{1e-6, 2e-6, 1.5e-6, std::nullopt, 1e-3}, PassCosts{1, 1, 20, std::nullopt, 0}}) {
    checked(make_schedule("zb-auto", 3, 7, {}, costs), costs, 3);
    checked(make_schedule("v-min", 3, 7, {}, costs), costs, 4);
  }
}

// Where orders reach their bounds: at even costs and memory 2P nothing is lost but the first forward's way to the last rank.
TEST(Searched, ClosedFormsAtEvenCosts) {
  for (const int p : {2, 4, 7}) {
    const int m = 3 * p;
    // Line: rank P-1 starts after P-1 forwards and then works 3 M without a break. V: the same with 6 M.
    EXPECT_EQ(evaluate(make_schedule("zb-auto", p, m, memory_of(2 * p)), kEven).makespan, p - 1 + 3 * m);
    EXPECT_EQ(evaluate(make_schedule("zb-v-auto", p, m), kEven).makespan, p - 1 + 6 * m);
  }
}

// Stages of different length: the search knows each. Equal ones given one by one change nothing; of uneven ones the order is
// within memory, above its bound, and no longer than the order made for the means.
TEST(Searched, StagesOfDifferentLength) {
  PassCosts listed = kMore;
  listed.stages.assign(4, {kMore.F, kMore.I, kMore.W});
  EXPECT_EQ(make_schedule("zb-auto", 4, 9, {}, listed).order, make_schedule("zb-auto", 4, 9, {}, kMore).order);
  for (const char* family : {"zb-auto", "zb-v-auto", "v-half", "v-min"})
    for (const int m : {5, 12}) {
      SCOPED_TRACE(fmt::format("{} m={}", family, m));
      const int stages = std::string(family) == "zb-auto" ? 4 : 8;
      PassCosts uneven{0, 0, 0, std::nullopt, 1};
      for (int s = 0; s < stages; ++s) {
        uneven.stages.push_back({8.0 + 3 * (s % 3), 9.0 + 5 * (s % 2), 6.0 + s});
        uneven.F += uneven.stages.back().F / stages;
        uneven.I += uneven.stages.back().I / stages;
        uneven.W += uneven.stages.back().W / stages;
      }
      PassCosts means = uneven;
      means.stages.clear();
      const Schedule known = make_schedule(family, 4, m, {}, uneven), blind = make_schedule(family, 4, m, {}, means);
      EXPECT_TRUE(check_schedule(known).empty());
      const ScheduleEvaluation found = evaluate(known, uneven);
      EXPECT_LE(held(found), held(evaluate(blind, means)));
      EXPECT_LE(found.makespan, evaluate(blind, uneven).makespan * (1 + 1e-9));
      EXPECT_GE(found.makespan, *known.lower_bound * (1 - 1e-9));
    }
}

TEST(Searched, CostsOfTheWrongNumberOfStages) {
  PassCosts costs;
  costs.stages.assign(3, {1, 1, 1});
  EXPECT_EQ(test::fault_of([&] { make_schedule("zb-auto", 4, 8, {}, costs); }),
            "error: costs are given for 3 stages, but the schedule has 4");
}

TEST(Searched, TheSameEveryTime) {
  EXPECT_EQ(make_schedule("v-half", 4, 9, {}, kMore).order, make_schedule("v-half", 4, 9, {}, kMore).order);
}

std::string error_of(std::string_view family, const ScheduleOptions& options) {
  return test::fault_of([&] { make_schedule(family, 4, 8, options); });
}

TEST(Searched, MemoryThatHoldsNothing) {
  EXPECT_EQ(error_of("zb-auto", memory_of(0)), "error: option 'memory' of a schedule must be at least 1, not 0");
  EXPECT_EQ(error_of("v-auto", memory_of(1)), "error: option 'memory' of a schedule must be at least 2, not 1");
  EXPECT_EQ(error_of("zb-v-auto", {{"memory", "2P"}}), "error: option 'memory' of a schedule must be a whole number, not '2P'");
}

TEST(Searched, NotesStateHowFarFromTheBest) {
  // Line of 2, M = 4, memory 2: rank 0 waits from 2 F to the first input gradient at F + F + I: 1; 3 M + 1 = 13.
  EXPECT_EQ(make_schedule("zb-auto", 2, 4).notes[0], "no order with 2 activations a rank has a shorter step than 13");
}

TEST(MemorySweep, FallsWithMemory) {
  for (const char* family : {"zb-auto", "v-auto"}) {
    const MemorySweep sweep = sweep_memory(family, 3, 9, kSkewed);
    ASSERT_EQ(sweep.points.front().memory, std::string(family) == "zb-auto" ? 1 : 2);
    ASSERT_EQ(sweep.points.back().memory, 9);
    for (std::size_t i = 0; i < sweep.points.size(); ++i) {
      const MemoryPoint& point = sweep.points[i];
      EXPECT_LE(point.held, point.memory);
      EXPECT_GE(point.makespan, point.lower_bound);
      EXPECT_GE(point.bubble_step, point.least_bubble() - 1e-12);
      if (i > 0) {
        EXPECT_LE(point.makespan, sweep.points[i - 1].makespan);
      }
    }
  }
}

// Memory 1, a line of 2, M = 2, even costs: a microbatch at a time. F F I I W is 5 for rank 0 from its F to its W's end, the
// second begins when the first's W ended: 10, and a bubble of 1 - 2 * 6 / 20.
TEST(MemorySweep, TextOfASmallOne) {
  EXPECT_EQ(to_text(sweep_memory("zb-auto", 2, 2, kEven)),
            "zb-auto: 2 ranks, 2 microbatches, F=1, I=1, W=1, comm=0\n"
            "  memory  held  makespan   bubble  no shorter    least\n"
            "       1     1        10  40.00 %          10  40.00 %\n"
            "       2     2         7  14.29 %           7  14.29 %\n"
            "             2         9  33.33 %                       1f1b\n"
            "             2         7  14.29 %                       zb-h1\n"
            "             2         7  14.29 %                       zb-h2\n"
            "memory: activations of one stage a rank may hold; held: at most in the order found; no shorter: bound of every\n"
            "order's makespan within this memory, and least the bubble it would have\n");
}

TEST(MemorySweep, PictureHasAPointForEachLimit) {
  const MemorySweep sweep = sweep_memory("zb-auto", 3, 6, kEven);
  const std::string picture = to_svg(sweep);
  std::size_t dots = 0;
  for (std::size_t at = picture.find("<circle"); at != std::string::npos; at = picture.find("<circle", at + 1)) ++dots;
  EXPECT_EQ(dots, sweep.points.size());
  EXPECT_THAT(picture, testing::HasSubstr(">zb-h1<"));
  EXPECT_THAT(picture, testing::HasSubstr("prefers-color-scheme: dark"));
  EXPECT_EQ(picture.substr(picture.size() - 7), "</svg>\n");
}

TEST(MemorySweep, OnlyOfSearchedFamilies) {
  EXPECT_EQ(test::fault_of([&] { sweep_memory("gpipe", 2, 4, kEven); }),
            "error: --memory-sweep is for families that are searched within a memory limit: zb-auto, zb-v-auto, v-half, "
            "v-min, v-auto, auto-memory; "
            "not for 'gpipe'");
}

}  // namespace
}  // namespace panpipe
