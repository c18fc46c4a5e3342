// Steps without a flush, from a scenario to figures: the period, the first step, memory, exchanges.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/timeline/step_metrics.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe::test {
namespace {

// Stages of 1 + 1 + 1 ms whose update takes 1 ms: 100 elements.
TableCosts even_costs(int stages) {
  TableCosts costs = chain_of(stages, 1e-3, 1e-3, 1e-3, 1000);
  costs.optimizer_per_element = 1e-5;
  return costs;
}

Metrics figures_of(const Scenario& scenario, const LoweringCosts& costs) {
  const TaskGraph graph = lowered(scenario, costs);
  const Metrics figures = metrics(estimate(graph));
  const Metrics without_spans = step_metrics(graph, estimate_times(graph, true), TimelineKind::Estimated);
  EXPECT_EQ(figures.step_time_s, without_spans.step_time_s);
  EXPECT_EQ(figures.first_step_s, without_spans.first_step_s);
  EXPECT_NEAR(figures.bubble_step, without_spans.bubble_step, 1e-12);
  EXPECT_NEAR(figures.compute_s, without_spans.compute_s, 1e-12);
  return figures;
}

TEST(RollingSteps, APeriodIsTheWorkOfARank) {
  const int p = 4, m = 8;
  const Metrics with_flush = figures_of(scenario_of(p, m, "1f1b"), even_costs(p));
  EXPECT_NEAR(with_flush.step_time_s, (m + p - 1) * 3e-3 + 1e-3, 1e-12);
  EXPECT_EQ(with_flush.period_s, 0);
  const Metrics figures = figures_of(scenario_of(p, m, "pipedream-2bw"), even_costs(p));
  // 8 microbatches of 3 ms and an update of 1 ms: no rank waits. Rank 0 is the last to begin its updates: 7 more microbatches of
  // 3 ms behind the first backward's end after 4 forwards of 1 ms and 4 backwards of 2 ms; its update.
  EXPECT_NEAR(figures.period_s, m * 3e-3 + 1e-3, 1e-12);
  EXPECT_EQ(figures.step_time_s, figures.period_s);
  EXPECT_NEAR(figures.first_step_s, 12e-3 + (m - 1) * 3e-3 + 1e-3, 1e-12);
  EXPECT_NEAR(figures.compute_s, 25e-3, 1e-12);
  EXPECT_NEAR(figures.bubble_step, 0, 1e-9);
  EXPECT_NEAR(figures.samples_per_s, m / 25e-3, 1e-6);
}

TEST(RollingSteps, TheSlowestStageSetsThePeriod) {
  TableCosts costs = even_costs(4);
  costs.table.units[2].forward = pass_of(2e-3);
  const Metrics figures = figures_of(scenario_of(4, 8, "pipedream-2bw"), costs);
  EXPECT_NEAR(figures.period_s, 8 * 4e-3 + 1e-3, 1e-12);
  // Three ranks work 25 of 33 ms.
  EXPECT_NEAR(figures.bubble_step, 1 - (3 * 25.0 + 33) / (4 * 33), 1e-9);
}

TEST(RollingSteps, TwoVersionsOfTheWeights) {
  const auto parts = [](const std::string& family) {
    const TaskGraph graph = lowered(scenario_of(2, 4, family), even_costs(2));
    std::int64_t parameters = 0, others = 0;
    for (const MemoryPart& part : graph.memory[0].parts)
      (part.use == MemoryUse::Parameters ? parameters : others) += part.bytes.base();
    return std::pair(parameters, others);
  };
  const auto [one, rest] = parts("1f1b");
  EXPECT_EQ(one, 400);  // 100 elements of fp32
  EXPECT_EQ(parts("pipedream-2bw"), std::pair(2 * one, rest));
}

// The sum over replicas ends a step: 2 ms behind the last backward. What follows ZeRO 1's update is read two steps later.
TEST(RollingSteps, ReplicasSumOncePerStep) {
  TableCosts costs = even_costs(2);
  costs.collective_time = millis(2);
  const Metrics figures = figures_of(scenario_of(2, 4, "pipedream-2bw", 1, 2), costs);
  EXPECT_NEAR(figures.period_s, 4 * 3e-3 + 2e-3 + 1e-3, 1e-12);
  Scenario sharded = scenario_of(2, 4, "pipedream-2bw", 1, 2);
  sharded.degrees.zero = 1;
  EXPECT_NEAR(figures_of(sharded, costs).period_s, 15e-3, 1e-3);
  sharded.degrees.zero = 2;
  EXPECT_THROW(lowered(sharded, costs), InputError);
}

TEST(RollingSteps, PostValidationSavesWhatZeroBubbleShifts) {
  Scenario scenario = scenario_of(4, 8, "zb-h2");
  const Metrics with_flush = figures_of(scenario, even_costs(4));
  scenario.schedule.options["post_validation"] = "true";
  const Metrics figures = figures_of(scenario, even_costs(4));
  // Every rank works 8 x 3 + 1 ms and waits for none once it has begun.
  EXPECT_NEAR(figures.period_s, 25e-3, 1e-12);
  EXPECT_GT(with_flush.step_time_s, 27e-3);
}

}  // namespace
}  // namespace panpipe::test
