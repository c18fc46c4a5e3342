#include <gtest/gtest.h>

#include "costmodel/lowering/task_graph.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

// Two ranks, one microbatch, rank 1 asks for its backward before its forward.
TaskGraph backward_before_forward() {
  const Scenario scenario = test::scenario_of(2, 1, "gpipe");
  const test::TableCosts costs = test::chain_of(2, 1, 1, 1);
  Plan plan = make_plan(scenario, costs);
  std::swap(plan.schedule.order[1][0], plan.schedule.order[1][1]);
  return lower(scenario, plan, costs);
}

TEST(Deadlock, DependenciesThatTheOrderBreaksAreInTheTasks) { EXPECT_FALSE(test::replay(backward_before_forward()).finished); }

TEST(Deadlock, NamesRanksActionsAndTheCycle) {
  const TaskGraph graph = backward_before_forward();
  Deadlock deadlock;
  deadlock.blocked = {test::find_task(graph, "0B0"), test::find_task(graph, "1B0")};
  deadlock.cycle = {test::find_task(graph, "1B0"), test::find_task(graph, "1F0")};
  EXPECT_EQ(to_text(deadlock, graph),
            "the schedule cannot finish:\n"
            "  rank 0 is blocked at 0B0, which needs 1B0 of rank 1\n"
            "  rank 1 is blocked at 1B0, which needs 1F0\n"
            "  the cycle:\n"
            "    1B0 on rank 1 needs 1F0 on rank 1\n"
            "    1F0 on rank 1 stands behind 1B0 on rank 1");
}

}  // namespace
}  // namespace panpipe
