// Microbatches of unequal length: their passes, hand-overs, memory and replicas.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.hpp"
#include "schedule/schedule.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::scenario_of;

// Every length has a table of its own; its site is its number.
class LengthTables : public test::TableCosts {
 public:
  std::vector<WorkloadCost> tables;

  int site_of(const Cluster&, const PassGroups&, int length) const override { return length; }
  const WorkloadCost& workload(int site) const override { return tables[static_cast<std::size_t>(site)]; }
  int tokens_per_sample(int length) const override { return 4 - 3 * length; }
  Flops model_flops(int length) const override { return Flops(length == 0 ? 100 : 10); }
};

// Two units. Long microbatches take 2, 2 and 2 s in F, I and W, keep 1000 bytes and hand over 64; short ones take 1, 1 and 1 s,
// keep 250 and hand over 16.
LengthTables long_and_short(int units = 2) {
  LengthTables costs;
  costs.tables = {test::chain_of(units, 2, 2, 2, 1000, 64).table, test::chain_of(units, 1, 1, 1, 250, 16).table};
  return costs;
}

// Of 4 tokens ("L") and of 1 ("s"). Both are shapes of the scenario, used or not.
Scenario with_lengths(Scenario scenario, const std::string& lengths) {
  scenario.lengths.shapes = {{{4}}, {{1}}};
  for (const char length : lengths) scenario.lengths.of.push_back(length == 'L' ? 0 : 1);
  return scenario;
}

// Seconds.
double step(const TaskGraph& graph) { return test::replay(graph).makespan / 1e12; }

double step_of(const std::string& lengths, const std::string& schedule = "1f1b") {
  const auto count = static_cast<int>(lengths.size());
  return step(test::lowered(with_lengths(scenario_of(2, count, schedule), lengths), long_and_short()));
}

// 1F1B on two ranks: rank 0 runs F0 F1 B0 F2 B1 B2, rank 1 F0 B0 F1 B1 F2 B2. A long F takes 2 s and a long B 4 s, a short one
// half.
//   L s s   rank 0: F0 0-2, F1 2-3, B0 8-12, F2 12-13, B1 13-15, B2 16-18; rank 1: F0 2-4, B0 4-8, F1 8-9, B1 9-11, F2 13-14, B2
//   14-16 s s L   rank 0: F0 0-1, F1 1-2, B0 4-6, F2 6-8, B1 8-10, B2 14-18; rank 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7, F2 8-10, B2
//   10-14 s L s   rank 0: F0 0-1, F1 1-3, B0 4-6, F2 6-7, B1 10-14, B2 14-16; rank 1: F0 1-2, B0 2-4, F1 4-6, B1 6-10, F2 10-11,
//   B2 11-13
TEST(Lengths, TheOrderDecidesTheStep) {
  EXPECT_NEAR(step_of("Lss"), 18, 1e-9);
  EXPECT_NEAR(step_of("ssL"), 18, 1e-9);
  EXPECT_NEAR(step_of("sLs"), 16, 1e-9);
  // Two microbatches: rank 0 F0 0-2, F1 2-3, B0 8-12, B1 12-14; rank 1 F0 2-4, B0 4-8, F1 8-9, B1 9-11.
  EXPECT_NEAR(step_of("Ls"), 14, 1e-9);
}

TEST(Lengths, PassesTakeAndHandOverTheirOwn) {
  const TaskGraph graph = test::lowered(with_lengths(scenario_of(2, 3, "1f1b"), "sLs"), long_and_short());
  const auto task = [&](const std::string& action) { return graph.tasks[test::find_task(graph, action)]; };
  EXPECT_EQ(task("0F0").take, Bytes(250));
  EXPECT_EQ(task("0F1").take, Bytes(1000));
  EXPECT_EQ(task("1B1").give, Bytes(1000));
  EXPECT_EQ(task("0F0").program, task("0F2").program);
  EXPECT_NE(task("0F0").program, task("0F1").program);
  for (const Transfer& transfer : graph.transfers)
    EXPECT_EQ(graph.links[transfer.link].cost.bytes, Bytes(transfer.microbatch == 1 ? 64 : 16)) << transfer.microbatch;
  // 4 + 1 + 1 tokens; 100 + 10 + 10 operations.
  EXPECT_EQ(graph.tokens_per_step, 6);
  EXPECT_EQ(graph.model_flops_per_step, Flops(120));
  EXPECT_EQ(graph.samples_per_step, 3);
}

// Two replicas, one with a long microbatch: they differ, and the step is the slower one's (14 s, as above); with the list of one
// replica both have the same.
TEST(Lengths, ReplicasHaveTheirOwnOrTheSame) {
  const Scenario scenario = scenario_of(2, 2, "1f1b", 1, 2);
  const TaskGraph own = test::lowered(with_lengths(scenario, "ssLs"), long_and_short());
  EXPECT_EQ(own.replicas, 2);
  EXPECT_NEAR(step(own), 14, 1e-9);
  EXPECT_EQ(own.tokens_per_step, 7);
  const TaskGraph same = test::lowered(with_lengths(scenario, "Ls"), long_and_short());
  EXPECT_EQ(same.replicas, 1);
  EXPECT_EQ(same.tokens_per_step, 10);
}

// The second forward path of a bidirectional pipeline has the second half of the step's microbatches.
TEST(Lengths, EachForwardPathHasItsPartOfTheStep) {
  const TaskGraph graph = test::lowered(with_lengths(scenario_of(2, 4, "dualpipe"), "LLss"), long_and_short());
  int passes = 0;
  for (const Task& task : graph.tasks)
    if (task.kind == TaskKind::Pass && task.action.kind == ActionKind::F) {
      const bool second = task.action.stage >= 2;
      EXPECT_EQ(task.group_size == 1 ? task.take : Bytes(second ? 250 : 1000), Bytes(second ? 250 : 1000))
          << to_text(task.action);
      ++passes;
    }
  EXPECT_EQ(passes, 8);
}

TEST(Lengths, WhatOnlyEqualMicrobatchesCanHaveIsRefused) {
  Scenario sliced = with_lengths(scenario_of(2, 2, "seq-1f1b"), "Ls");
  sliced.schedule.options["sequence_splits"] = "2";
  EXPECT_THROW(test::lowered(sliced, long_and_short()), InputError);
  Scenario joined = with_lengths(scenario_of(2, 2, "1f1b"), "Ls");
  joined.framework.joins_pipeline_outputs = true;
  EXPECT_THROW(test::lowered(joined, long_and_short()), InputError);
  EXPECT_THROW(test::lowered(with_lengths(scenario_of(2, 3, "1f1b"), "Ls"), long_and_short()), InputError);
}

// In a given order of passes no pass that takes longer makes the step shorter: a step with some long microbatches lies between
// those with none and with all.
TEST(Lengths, AStepLiesBetweenAllShortAndAllLong) {
  std::mt19937 random(7);
  for (const char* family : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-v", "dualpipe-v", "chimera", "hanayo"}) {
    const bool vee = std::string(family) != "gpipe" && std::string(family) != "1f1b" && std::string(family) != "zb-h1" &&
                     std::string(family) != "chimera";
    const Scenario scenario = scenario_of(2, 8, family, vee ? 2 : 1);
    const LengthTables costs = long_and_short(4);
    const auto of = [&](const std::string& lengths) { return step(test::lowered(with_lengths(scenario, lengths), costs)); };
    const double least = of("ssssssss"), most = of("LLLLLLLL");
    EXPECT_NEAR(most, 2 * least, 1e-9) << family;
    for (int round = 0; round < 8; ++round) {
      std::string lengths;
      for (int m = 0; m < 8; ++m) lengths += random() % 2 == 0 ? 'L' : 's';
      const double between = of(lengths);
      EXPECT_GE(between, least - 1e-9) << family << " " << lengths;
      EXPECT_LE(between, most + 1e-9) << family << " " << lengths;
    }
  }
}

TEST(Lengths, ShapesAreDistinctAndTheLongestFirst) {
  const MicrobatchLengths lengths = lengths_of({{{3}}, {{1, 2}}, {{5}}, {{3}}});
  ASSERT_EQ(lengths.shapes.size(), 3U);
  EXPECT_EQ(lengths.shapes[0].tokens(), 5);
  EXPECT_EQ(lengths.shapes[1].squares(), 9);  // one sample of 3 tokens
  EXPECT_EQ(lengths.shapes[2].squares(), 5);  // 1 and 2
  EXPECT_EQ(lengths.of, (std::vector<int>{1, 2, 0, 1}));
}

}  // namespace
}  // namespace panpipe
