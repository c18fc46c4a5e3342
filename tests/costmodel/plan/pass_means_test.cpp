// The costs that a searched schedule is made for.
#include "costmodel/plan/pass_means.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/plan/plan.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::chain_of;
using test::scenario_of;

PassCosts means_of(const Scenario& scenario, const LoweringCosts& costs, int stages) {
  return mean_pass_costs(scenario.cluster, request_of(scenario), costs, 0, stages);
}

TEST(MeanPassCosts, AreTheModelsSumsOverItsStages) {
  // Four units of 2, 3 and 1 s over two stages: 4, 6 and 2 s. Neighbours share no work but a transfer.
  test::TableCosts costs = chain_of(4, 2, 3, 1);
  costs.latency = Duration(0.5);
  const PassCosts means = means_of(scenario_of(2, 4, "zb-auto"), costs, 2);
  EXPECT_EQ(means.F, 4);
  EXPECT_EQ(means.I, 6);
  EXPECT_EQ(means.W, 2);
  EXPECT_EQ(means.comm, costs.transfer(0, 1, Bytes(8)).time.base());
  EXPECT_FALSE(means.B.has_value());
}

TEST(MeanPassCosts, OfOneRankHaveNoTransfer) {
  EXPECT_EQ(means_of(scenario_of(1, 4, "zb-auto"), chain_of(2, 1, 1, 1), 1).comm, 0);
}

TEST(MeanPassCosts, AreEvenWhereNothingIsTimed) {
  const PassCosts means = means_of(scenario_of(2, 4, "zb-auto"), chain_of(4, 0, 0, 0), 2);
  EXPECT_EQ(means.F, 1);
  EXPECT_EQ(means.I, 1);
  EXPECT_EQ(means.W, 1);
}

// 3 s of F, 5 of I, 1 of W per stage and memory 3: the plan's order is the one for these costs, which loses less than the order
// for even costs.
TEST(MakePlan, SearchesForTheCostsOfTheModel) {
  Scenario scenario = scenario_of(3, 6, "zb-auto");
  const Plan plan = make_plan(scenario, chain_of(3, 3, 5, 1));
  const PassCosts costs{3, 5, 1, std::nullopt, 0};
  EXPECT_EQ(plan.schedule.order, make_schedule("zb-auto", 3, 6, {}, costs).order);
  EXPECT_LE(evaluate(plan.schedule, costs).makespan, evaluate(make_schedule("zb-auto", 3, 6), costs).makespan);
}

// Units of 1, 2, 3 and 4 s forward, cut before the last: 6 and 4 s. The search of a plan gets these.
TEST(PassMeans, AreThoseOfTheCuts) {
  test::TableCosts costs = chain_of(4, 1, 1, 1);
  for (int u = 0; u < 4; ++u) costs.table.units[u].forward = test::pass_of(u + 1);
  const Scenario scenario = scenario_of(2, 4, "zb-auto");
  PassCosts means = means_of(scenario, costs, 2);
  EXPECT_EQ(means.F, 5);
  add_stage_costs(request_of(scenario), costs, 0, {3}, means);
  ASSERT_EQ(means.stages.size(), 2U);
  EXPECT_EQ(means.stages[0].F, 6);
  EXPECT_EQ(means.stages[1].F, 4);
  EXPECT_EQ(means.stages[0].W, 3);
  EXPECT_EQ(means.stages[1].I, 1);
}

}  // namespace
}  // namespace panpipe
