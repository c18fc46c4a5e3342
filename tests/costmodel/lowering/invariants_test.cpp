// Invariants of every lowered plan, over families and sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using test::chain_of;
using test::scenario_of;

struct Case {
  std::string family;
  int ranks, microbatches, stages_per_rank;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int microbatches : {1, 2, 4, 8, 16}) {
      for (const char* family : {"gpipe", "1f1b", "zb-h1", "pfeife"}) all.push_back({family, ranks, microbatches, 1});
      if (microbatches % ranks == 0) all.push_back({"interleaved-1f1b", ranks, microbatches, 2});
      all.push_back({"looped-bfs", ranks, microbatches, 2});
    }
  }
  return all;
}

TaskGraph lower_case(const Case& c) {
  test::TableCosts costs = chain_of(c.ranks * c.stages_per_rank, 1e-3, 1e-3, 1e-3, 100);
  const Scenario scenario = scenario_of(c.ranks, c.microbatches, c.family, c.stages_per_rank);
  return test::lowered(scenario, costs);
}

bool exists(const Case& c) {
  try {
    make_schedule(
        c.family, c.ranks, c.microbatches,
        c.stages_per_rank > 1 ? ScheduleOptions{{"stages_per_rank", std::to_string(c.stages_per_rank)}} : ScheduleOptions{});
    return true;
  } catch (const InputError&) {
    return false;
  }
}

void expect_indices_in_range(const TaskGraph& graph) {
  const auto tasks = static_cast<std::int32_t>(graph.tasks.size());
  ASSERT_EQ(graph.rank_begin.size(), static_cast<std::size_t>(graph.ranks) + 1);
  EXPECT_EQ(graph.rank_begin.back(), tasks);
  for (std::int32_t t = 0; t < tasks; ++t) {
    const Task& task = graph.tasks[t];
    EXPECT_GE(t, graph.rank_begin[task.rank]);
    EXPECT_LT(t, graph.rank_begin[static_cast<std::size_t>(task.rank) + 1]);
    ASSERT_LE(static_cast<std::size_t>(task.first_input + task.inputs), graph.inputs.size());
    if (task.kind == TaskKind::Pass) {
      ASSERT_GE(task.program, 0);
      ASSERT_LT(static_cast<std::size_t>(task.program), graph.programs.size());
    }
    for (std::int32_t k = 0; k < task.inputs; ++k) {
      const Input& input = graph.inputs[task.first_input + k];
      ASSERT_GE(input.task, 0);
      ASSERT_LT(input.task, tasks);
      if (input.transfer < 0) continue;
      const Transfer& transfer = graph.transfers[input.transfer];
      EXPECT_EQ(transfer.consumer, t);
      EXPECT_EQ(transfer.producer, input.task);
      const TransferLink& link = graph.links[transfer.link];
      EXPECT_EQ(link.from_rank, graph.tasks[transfer.producer].rank);
      EXPECT_EQ(link.to_rank, task.rank);
    }
  }
}

TEST(Lowering, IndicesHoldEveryTaskFinishesAndMemoryIsGivenBack) {
  for (const Case& c : cases()) {
    if (!exists(c)) continue;
    SCOPED_TRACE(c.family + " " + std::to_string(c.ranks) + " ranks, " + std::to_string(c.microbatches) + " microbatches");
    const TaskGraph graph = lower_case(c);
    expect_indices_in_range(graph);
    EXPECT_TRUE(test::replay(graph).finished);
    std::vector<std::int64_t> left(c.ranks, 0);
    for (const Task& task : graph.tasks) left[task.rank] += task.take.base() - task.give.base();
    for (const std::int64_t bytes : left) EXPECT_EQ(bytes, 0);
    // Each microbatch crosses every border between ranks once each way.
    const int stages = c.ranks * c.stages_per_rank;
    const int borders = c.ranks == 1 ? 0 : stages - 1;
    EXPECT_EQ(graph.transfers.size(), static_cast<std::size_t>(2 * borders * c.microbatches));
  }
}

// Equal stages of F 1 ms, B 2 ms, free transfers: 1F1B and GPipe take (m + p - 1)(F + B); the interleaved schedule
// (m + (p - 1)/v)(F + B) of a rank's whole work, here v stages of F + B each.
TEST(Lowering, MakespansOfClosedForms) {
  for (const int p : {2, 4, 8}) {
    for (const int m : {8, 16, 32}) {
      for (const char* family : {"gpipe", "1f1b"})
        EXPECT_NEAR(test::replay(lower_case({family, p, m, 1})).makespan, (m + p - 1) * 3e9, 1e-3) << family << p << m;
      EXPECT_NEAR(test::replay(lower_case({"interleaved-1f1b", p, m, 2})).makespan, (2 * m + p - 1) * 3e9, 1e-3) << p << m;
    }
  }
}

// Units 0 -> 1 -> 2 -> 3 on four ranks, and 0 -> 2, 0 -> 3 besides: the tensor goes from rank 0 straight to each consuming
// rank, once, however often it is read there.
TEST(Transfers, SkipEdgesGoStraightToEachConsumingStage) {
  test::TableCosts costs = chain_of(5, 1, 1, 1);
  costs.table.edges.push_back({0, 2, 100, Bytes(16), true});
  costs.table.edges.push_back({0, 3, 100, Bytes(16), true});
  costs.table.edges.push_back({0, 4, 100, Bytes(16), true});  // unit 4 is on stage 3, like unit 3
  costs.table.edges.push_back({0, 4, 101, Bytes(4), false});  // another tensor, without a gradient
  Scenario scenario = scenario_of(4, 1, "gpipe");
  scenario.partition = {"1", "2", "3"};
  const TaskGraph graph = test::lowered(scenario, costs);
  std::set<std::tuple<int, int, long long>> links;
  for (const TransferLink& link : graph.links) links.insert({link.from_rank, link.to_rank, link.cost.bytes.base()});
  const std::set<std::tuple<int, int, long long>> expected = {{0, 1, 8}, {1, 0, 8},  {1, 2, 8},  {2, 1, 8},  {2, 3, 8},
                                                              {3, 2, 8}, {0, 2, 16}, {2, 0, 16}, {0, 3, 20}, {3, 0, 16}};
  EXPECT_EQ(links, expected);
  EXPECT_EQ(graph.transfers.size(), 10u);
  // 0B0 waits for the gradients of stages 1, 2 and 3.
  EXPECT_EQ(graph.tasks[test::find_task(graph, "0B0")].inputs, 3);
}

// Stages 0 and 2 on rank 0 (looped): their edge 0 -> 2 is no transfer.
TEST(Transfers, InsideARankNothingIsSent) {
  test::TableCosts costs = chain_of(4, 1, 1, 1);
  costs.table.edges.push_back({0, 2, 100, Bytes(16), true});
  const Scenario scenario = scenario_of(2, 2, "looped-bfs", 2);
  const TaskGraph graph = test::lowered(scenario, costs);
  EXPECT_EQ(graph.links.size(), 6u);
  const Task& consumer = graph.tasks[test::find_task(graph, "2F0")];
  ASSERT_EQ(consumer.inputs, 2);
  const Input& plain = graph.inputs[consumer.first_input];
  EXPECT_EQ(plain.task, test::find_task(graph, "0F0"));
  EXPECT_EQ(plain.transfer, -1);
}

TEST(Transfers, SendersWaitWhereTheFrameworkBlocks) {
  test::TableCosts costs = chain_of(2, 1, 1, 1);
  Scenario scenario = scenario_of(2, 1, "gpipe");
  const auto waiting = [&] {
    const TaskGraph graph = test::lowered(scenario, costs);
    return std::count_if(graph.tasks.begin(), graph.tasks.end(), [](const Task& task) { return task.waits_for_sends; });
  };
  EXPECT_EQ(waiting(), 0);  // measured layers: transfers are free for both ends
  costs.is_measured = false;
  EXPECT_EQ(waiting(), 2);  // 0F0 and 1B0 send
  scenario.framework.blocking_transfers = false;
  EXPECT_EQ(waiting(), 0);
}

TEST(Lowering, FullBackwardsCannotBeSplit) {
  test::TableCosts costs = chain_of(2, 1, 2, 0);
  costs.table.split_backward = false;
  const Scenario scenario = scenario_of(2, 4, "zb-h1");
  EXPECT_EQ(test::diagnostic_of([&] { test::lowered(scenario, costs); }).message,
            "schedule 'zb-h1' runs input gradients and weight gradients apart, but the layers give only `backward`; give "
            "`input_gradient` and `weight_gradient`, or choose a schedule with full backwards");
}

TEST(Lowering, GroupsAreWovenUnlessAtomic) {
  const test::TableCosts costs = chain_of(4, 1, 1, 1);
  Scenario scenario = scenario_of(2, 4, "interleaved-1f1b", 2);
  scenario.schedule.options["combined"] = "true";
  const Plan plan = make_plan(scenario, costs);
  for (const Braid braid : {Braid::Split, Braid::Atomic}) {
    scenario.schedule.braid = braid;
    const TaskGraph graph = lower(scenario, plan, costs);
    int groups = 0;
    for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
      if (graph.tasks[t].group_size != 2) continue;
      ++groups;
      EXPECT_EQ(graph.tasks[t].program, graph.tasks[t + 1].program);
      EXPECT_EQ(graph.programs[graph.tasks[t].program].atomic, braid == Braid::Atomic);
      EXPECT_EQ(graph.tasks[t + 1].group_size, 0);
    }
    EXPECT_GT(groups, 0);
  }
}

TEST(Lowering, TotalsForMetrics) {
  Scenario scenario = scenario_of(2, 4, "1f1b", 1, 3);
  scenario.degrees.micro = 5;
  const test::TableCosts costs = chain_of(2, 1, 1, 1);
  EXPECT_EQ(test::lowered(scenario, costs).samples_per_step, 5 * 4 * 3);
}

}  // namespace
}  // namespace panpipe
