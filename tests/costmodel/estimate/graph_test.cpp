// Task graphs with what schedules of plain passes do not have: sends that are waited for, groups, collectives over ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/estimate/compile.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/estimate/replay.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "tests/costmodel/estimate/pipeline_graph.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using testing::GraphBuilder;

std::vector<double> values(const std::vector<Ticks>& ticks) {
  std::vector<double> out;
  for (const Ticks t : ticks) out.push_back(t.base());
  return out;
}

Task collective(int rank, int flow) {
  Task task;
  task.kind = TaskKind::Collective;
  task.lane = Lane::Data;
  task.rank = rank;
  task.action.kind = ActionKind::ReduceGrad;
  task.action.stage = rank;
  task.flow = flow;
  return task;
}

TEST(Graph, TheNextTaskWaitsForSendsWhereAsked) {
  for (const bool waits : {false, true}) {
    GraphBuilder g(2);
    const int p10 = g.program(10), fast = g.link(0, 1, 1, 2), slow = g.link(0, 1, 2, 5);
    const int first = g.pass(0, ActionKind::F, 0, 0, p10), second = g.pass(0, ActionKind::F, 0, 1, p10);
    const int a = g.pass(1, ActionKind::F, 1, 0, p10), b = g.pass(1, ActionKind::F, 2, 0, p10);
    g.sends(first, a, fast);
    g.sends(first, b, slow);
    g.task(first).waits_for_sends = waits;
    const TaskTimes times = estimate_times(g.build());
    // The sends arrive at 13 and 17.
    EXPECT_EQ(times.task_start[second], Ticks(waits ? 17 : 10));
    EXPECT_THAT(values(times.task_start), ::testing::ElementsAre(0, waits ? 17 : 10, 13, 23));
    EXPECT_THAT(values(times.transfer_start), ::testing::ElementsAre(10, 10));
    EXPECT_THAT(values(times.transfer_end), ::testing::ElementsAre(13, 17));
  }
}

TEST(Graph, AGroupStartsAndDeliversAsOne) {
  GraphBuilder g(2);
  const int p10 = g.program(10), p4 = g.program(4), link = g.link(0, 1, 0, 1), back = g.link(1, 0, 0, 3);
  const int f0 = g.pass(0, ActionKind::F, 0, 0, p4);
  const int f1 = g.pass(0, ActionKind::F, 0, 1, p4), b0 = g.pass(0, ActionKind::B, 0, 0, p10);
  const int r0 = g.pass(1, ActionKind::F, 1, 0, p4), rb = g.pass(1, ActionKind::B, 1, 0, p10),
            r1 = g.pass(1, ActionKind::F, 1, 1, p4);
  g.group(f1, 2);
  g.sends(f0, r0, link);
  g.sends(f1, r1, link);
  g.sends(rb, b0, back, true);
  const TaskTimes times = estimate_times(g.build());
  // r0 5..9, rb 9..19, arrives 22. The group (0F1;0B0) starts at 22 although 0F1 has its input; it ends at 22 + 4 + 10, and only
  // then 0F1 is sent: r1 starts at 37.
  EXPECT_THAT(values(times.task_start), ::testing::ElementsAre(0, 22, 26, 5, 9, 37));
  EXPECT_THAT(values(times.task_end), ::testing::ElementsAre(4, 26, 36, 9, 19, 41));
  EXPECT_THAT(values(times.transfer_start), ::testing::ElementsAre(4, 36, 19));
}

TEST(Graph, CollectivesOverRanksStartTogether) {
  GraphBuilder g(2);
  const int p10 = g.program(10), p25 = g.program(25), shared = g.flow(1, 4, mib(1)), own = g.flow(0, 7, mib(1));
  g.graph().cross_rank_flows.push_back({shared, {0, 1}});
  const int a = g.pass(0, ActionKind::B, 0, 0, p10), ca = g.add(collective(0, shared)), oa = g.add(collective(0, own));
  const int b = g.pass(1, ActionKind::B, 1, 0, p25), ob = g.add(collective(1, own)), cb = g.add(collective(1, shared));
  g.needs(ca, a);
  g.needs(oa, a);
  g.needs(ob, b);
  g.needs(cb, b);
  const TaskTimes times = estimate_times(g.build());
  // Rank 1's lane: its own from 25 to 32; so the shared one starts at 32 on both and ends at 37. Rank 0's own comes after it.
  EXPECT_THAT(values(times.task_start), ::testing::ElementsAre(0, 32, 37, 0, 25, 32));
  EXPECT_THAT(values(times.task_end), ::testing::ElementsAre(10, 37, 44, 25, 32, 37));
}

TEST(Graph, AFlowUsedTwicePairsTheFirstWithTheFirst) {
  GraphBuilder g(2);
  const int p10 = g.program(10), p25 = g.program(25), shared = g.flow(0, 5, mib(1));
  g.graph().cross_rank_flows.push_back({shared, {0, 1}});
  const int a0 = g.pass(0, ActionKind::B, 0, 0, p10), a1 = g.pass(0, ActionKind::B, 0, 1, p10);
  const int ca0 = g.add(collective(0, shared)), ca1 = g.add(collective(0, shared));
  const int b0 = g.pass(1, ActionKind::B, 1, 0, p25), b1 = g.pass(1, ActionKind::B, 1, 1, p25);
  const int cb0 = g.add(collective(1, shared)), cb1 = g.add(collective(1, shared));
  g.needs(ca0, a0), g.needs(ca1, a1), g.needs(cb0, b0), g.needs(cb1, b1);
  const TaskTimes times = estimate_times(g.build());
  EXPECT_THAT(values(times.task_start), ::testing::ElementsAre(0, 10, 25, 50, 0, 25, 25, 50));
}

// A random step: passes with inputs from earlier ones (so that it can finish), groups, waited-for sends, shared collectives.
TaskGraph random_graph(std::mt19937& random, int ranks, int passes) {
  GraphBuilder g(ranks);
  const auto roll = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<int> programs, links;
  for (int i = 0; i < 5; ++i) programs.push_back(g.program(roll(50)));
  for (int i = 0; i < 4; ++i) links.push_back(g.link(0, 1, roll(5), roll(20)));
  const int shared = g.flow(roll(5), roll(30), mib(1));
  g.graph().cross_rank_flows.push_back({shared, {0, 1}});
  std::vector<std::vector<int>> tasks(ranks);
  std::vector<int> round;  // a virtual time of each task: inputs come from earlier rounds only
  for (int r = 0; r < ranks; ++r) {
    int members_left = 0, first = 0;
    for (int i = 0; i < passes; ++i) {
      const int t = g.pass(r, ActionKind::F, r, i, programs[roll(5)]);
      tasks[r].push_back(t);
      round.push_back(members_left > 0 ? round.back() : i);
      if (members_left > 0) {
        if (--members_left == 0) g.group(first, t - first + 1);
      } else if (i + 3 <= passes && roll(5) == 0) {
        members_left = 1 + roll(2);
        first = t;
      }
      g.task(t).waits_for_sends = roll(4) == 0;
    }
    if (r < 2) {
      const int c = g.add(collective(r, shared));
      round.push_back(passes);
      g.needs(c, tasks[r][roll(passes)]);
    }
  }
  const int total = static_cast<int>(round.size());
  for (int k = 0; k < 3 * passes; ++k) {
    const int from = roll(total), to = roll(total);
    // A group's outputs exist when its last member ends: two rounds later at most.
    if (round[from] + 3 > round[to]) continue;
    if (g.task(from).lane != Lane::Compute || g.task(to).lane != Lane::Compute) continue;
    if (g.task(from).rank == g.task(to).rank) {
      g.needs(to, from);
    } else {
      g.sends(from, to, links[roll(4)]);
    }
  }
  return g.build();
}

TEST(Graph, RandomGraphsEqualTheDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const TaskGraph graph = random_graph(random, 2 + round % 3, 4 + round % 9);
    const TaskTimes times = estimate_times(graph);
    ASSERT_EQ(values(times.task_end), testing::naive_ends(graph)) << "round " << round;
    const CompiledGraph compiled = compile(graph);
    std::vector<double> ends(compiled.structure.tasks + 1);
    ASSERT_EQ(step_end(times).base(), replay(compiled.structure, compiled.costs.data(), compiled.delays.data(), ends.data()));
  }
}

TEST(Graph, SchedulesCompileToWhatTheFastBuilderGives) {
  std::mt19937 random(12);
  for (const char* family : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1"}) {
    const PipelineOrder order = pack(make_schedule(family, 4, 8));
    const testing::Tables tables = testing::random_tables(order.stages, random);
    const TaskGraph graph = testing::graph_of(order, tables);
    Structure s;
    ASSERT_TRUE(StructureBuilder().build(order, s));
    const CompiledGraph compiled = compile(graph);
    if (order.stages == 4) {
      EXPECT_EQ(compiled.structure.tasks, s.tasks) << family;  // no joins needed
    }
    const TaskTimes times = estimate_times(graph);
    EXPECT_EQ(values(times.task_end), testing::naive_ends(graph));
  }
}

// Numbering the ranks the other way round changes the order in which everything is evaluated, and no time.
TEST(Graph, TimesDoNotDependOnTheOrderOfRanks) {
  std::mt19937 random(13);
  PipelineOrder order = pack(make_schedule("1f1b", 4, 8));
  const testing::Tables tables = testing::random_tables(4, random);
  const TaskTimes forward = estimate_times(testing::graph_of(order, tables));
  PipelineOrder turned = order;
  turned.actions.clear();
  turned.rank_begin = {0};
  for (int r = 3; r >= 0; --r) {
    turned.stage_to_rank[3 - r] = r;
    const auto at = order.actions.begin();
    const auto i = static_cast<std::size_t>(r);
    turned.actions.insert(turned.actions.end(), at + order.rank_begin[i], at + order.rank_begin[i + 1]);
    turned.rank_begin.push_back(static_cast<std::uint32_t>(turned.actions.size()));
  }
  const TaskTimes backward = estimate_times(testing::graph_of(turned, tables));
  for (std::size_t r = 0; r < 4; ++r) {
    const std::size_t size = order.rank_begin[r + 1] - order.rank_begin[r];
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(forward.task_start[order.rank_begin[r] + i], backward.task_start[turned.rank_begin[3 - r] + i]);
    }
  }
}

std::string deadlock_text(const TaskGraph& graph) {
  return test::fault_of<NoAnswer>([&] { estimate_times(graph); });
}

TEST(Graph, ADeadlockIsExplainedInFull) {
  PipelineOrder order = pack(make_schedule("1f1b", 2, 2));
  // Rank 0: 0F0 0B0 0F1 0B1; rank 1: 1F1 1F0 1B0 1B1.
  order.actions = {pack(Pass::F, 0, 0), pack(Pass::B, 0, 0), pack(Pass::F, 0, 1), pack(Pass::B, 0, 1),
                   pack(Pass::F, 1, 1), pack(Pass::F, 1, 0), pack(Pass::B, 1, 0), pack(Pass::B, 1, 1)};
  EXPECT_EQ(deadlock_text(testing::graph_of(order, testing::even_tables(2, 1, 1, 1, 0))),
            "the schedule cannot finish:\n"
            "  rank 0 is blocked at 0B0, which needs 0F0, 1B0 of rank 1\n"
            "  rank 1 is blocked at 1F1, which needs 0F1 of rank 0\n"
            "  the cycle:\n"
            "    0B0 on rank 0 needs 1B0 on rank 1\n"
            "    1B0 on rank 1 stands behind 1F1 on rank 1\n"
            "    1F1 on rank 1 needs 0F1 on rank 0\n"
            "    0F1 on rank 0 stands behind 0B0 on rank 0");
}

TEST(Graph, CollectivesInOppositeOrderAreADeadlock) {
  GraphBuilder g(2);
  const int x = g.flow(0, 5, mib(1)), y = g.flow(0, 5, mib(1)), p = g.program(1);
  g.graph().cross_rank_flows = {{x, {0, 1}}, {y, {0, 1}}};
  const int a = g.pass(0, ActionKind::B, 0, 0, p);
  g.add(collective(0, x));
  g.add(collective(0, y));
  g.pass(1, ActionKind::B, 1, 0, p);
  g.add(collective(1, y));
  g.add(collective(1, x));
  g.task(a);
  const std::string text = deadlock_text(g.build());
  EXPECT_THAT(text, ::testing::HasSubstr("the schedule cannot finish"));
  EXPECT_THAT(text, ::testing::HasSubstr("the cycle"));
}

}  // namespace
}  // namespace panpipe
