// The figures of a row's step, which no timeline is made for, are those of its timeline.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/estimated_step.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "costmodel/timeline/step_time.hpp"

namespace panpipe {
namespace {

constexpr const char* kScenario = R"(
panpipe: 1
cluster: clusters/dgx-a100-80g.yaml
workload: {model: gpt2-large}
batch: {micro: 2, microbatches: 4}
parallel: {pipeline: 2, tensor: 2, data: 2}
precision: bf16
framework: megatron
)";

const std::vector<std::vector<std::string>> kCases = {
    {},
    {"schedule=zb-h1"},
    {"schedule=interleaved-1f1b", "parallel={pipeline: 2, tensor: 2, data: 2, virtual_stages: 2}"},
    {"schedule=stp", "batch.microbatches=8", "parallel={pipeline: 2, tensor: 4}"},
    {"parallel={pipeline: 1, data: 8, zero: 3}"},
    {"parallel={pipeline: 4, tensor: 2, sequence_parallel: true}", "recompute=full"},
    {"framework=megatron-core", "parallel={pipeline: 2, tensor: 2, data: 2, zero: 1}"}};

// From the spans: of steps in a row as the windows state it, else the longest span of a device's computing.
double period_of(const Timeline& timeline) {
  if (const auto rolled = rolled_steps(timeline)) return rolled->period();
  std::map<std::int32_t, Interval> of_device;
  for (const Span& span : timeline.spans) {
    if (span.lane != Lane::Compute) continue;
    Interval& whole = of_device.try_emplace(span.device, Interval{span.start.base(), span.end.base()}).first->second;
    whole = {std::min(whole.start, span.start.base()), std::max(whole.end, span.end.base())};
  }
  double longest = 0;
  for (const auto& [device, span] : of_device) longest = std::max(longest, span.end - span.start);
  return longest;
}

// Bit by bit: both add the same times in the same order. Where passes run side by side with collectives, or give their outputs
// early (a braid, several stages a rank), times come from their steps; else from their durations.
TEST(StepFigures, AndThoseOfAnEstimatedStepAreThoseOfTheTimeline) {
  for (const std::vector<std::string>& changes : kCases) {
    SCOPED_TRACE(changes.empty() ? "as it is" : changes.front());
    const Experiment experiment(parse_scenario(kScenario, "s", data_directory(), changes));
    const Plan plan = experiment.plan("");
    const TaskGraph graph = lower(experiment.scenario, plan, experiment.model);
    const Prediction whole = predict(graph, experiment.scenario, plan);
    const StepFigures figures = step_figures(graph, experiment.scenario, plan);
    EXPECT_EQ(figures.step_time_s, whole.metrics.step_time_s);
    EXPECT_DOUBLE_EQ(figures.step_period_s, period_of(whole.timeline));
    EXPECT_EQ(figures.peak_memory_bytes, whole.metrics.peak_memory_bytes);
    EXPECT_EQ(figures.traits.sensitivity, whole.traits.sensitivity);
    EXPECT_TRUE(figures.traits.same_block(whole.traits));
    const std::int32_t device = graph.device(busiest_rank(graph), 0, 0);
    const auto busiest = std::find_if(whole.metrics.per_device.begin(), whole.metrics.per_device.end(),
                                      [&](const DeviceMetrics& row) { return row.device == device; });
    ASSERT_NE(busiest, whole.metrics.per_device.end());
    EXPECT_EQ(figures.exposed_communication_s, busiest->exposed_communication_s);
    const StepTerms terms = terms_of(graph, figures.exposed_communication_s, figures.step_time_s);
    EXPECT_EQ(terms.communication, whole.terms.communication);
    EXPECT_EQ(terms.idle, whole.terms.idle);
    // Every figure of the table, of the step and of each device: without spans, and with collectives of whole passes noted once
    // per program.
    const EstimatedStep step = estimated_step(graph, experiment.scenario, plan);
    ASSERT_EQ(step.metrics.per_device.size(), whole.metrics.per_device.size());
    for (const Metric& metric : metric_table()) {
      SCOPED_TRACE(metric.name);
      EXPECT_EQ(metric.of_step(step.metrics), metric.of_step(whole.metrics));
      for (std::size_t d = 0; metric.per_device() && d < whole.metrics.per_device.size(); ++d)
        EXPECT_EQ(metric.of_device(step.metrics.per_device[d]), metric.of_device(whole.metrics.per_device[d])) << d;
    }
    EXPECT_EQ(step.metrics.evidence.limits, whole.metrics.evidence.limits);
    EXPECT_EQ(make_timeline(graph, step.times, TimelineKind::Estimated).spans.size(), whole.timeline.spans.size());
  }
}

}  // namespace
}  // namespace panpipe
