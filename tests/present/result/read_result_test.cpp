// What is read back of a result that was written.
#include "present/result/read_result.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/timeline/metric_table.hpp"
#include "present/result/result.hpp"

namespace panpipe::present {
namespace {

// Whose copy a device is stands in the document.
TEST(ResultDocument, SaysWhoseCopyADeviceIs) {
  Timeline timeline;
  for (int d = 0; d < 4; ++d) {
    DeviceTimeline device;
    device.device = d;
    device.rank = d % 2;  // devices 2 and 3 are replicas of 0 and 1
    device.same_as = d < 2 ? -1 : d - 2;
    device.peak = gib(device.rank + 1);
    timeline.devices.push_back(device);
  }
  Span span;
  span.lane = Lane::Compute;
  span.action = {ActionKind::F, GroupKind::None, 1, -1, 0, 0};
  for (int d = 0; d < 2; ++d) {
    span.device = span.action.stage = d;
    span.end = seconds(d + 1);  // rank 1 computes twice as long
    timeline.spans.push_back(span);
  }
  timeline.step_time = seconds(2);
  const Metrics figures = metrics(timeline);
  const ResultDocument again = parse_result(to_result_json(timeline, figures, {}, true), "a.json");
  ASSERT_EQ(again.timeline.devices.size(), 4u);
  for (int d = 0; d < 4; ++d) EXPECT_EQ(again.timeline.devices[d].same_as, d < 2 ? -1 : d - 2);
  const Metrics read_back = metrics(again.timeline);
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(read_back.per_device[d].compute_s, figures.per_device[d].compute_s) << d;
    EXPECT_EQ(read_back.per_device[d].compute_s, d % 2 + 1.0) << d;
  }
}

// Figures that all differ, so that none can stand in another's place.
Metrics distinct_figures() {
  Metrics figures;
  figures.step_time_s = 1.25;
  figures.compute_s = 0.75;
  figures.exposed_communication_s = 0.1;
  figures.bubble_step = 0.2;
  figures.bubble_span = 0.3;
  figures.peak_memory_bytes = 1001;
  figures.memory_limit_bytes = 2002;
  figures.memory_share = 0.5;
  figures.fits = false;
  figures.model_flops = 3e12;
  figures.mfu = 0.4;
  figures.samples_per_s = 12.8;
  figures.step_time_p10_s = 1.0625;
  figures.step_time_p50_s = 1.3125;
  figures.step_time_p90_s = 1.4375;
  figures.contention_s = 0.0625;
  figures.step_time_min_s = 1.125;
  figures.step_time_max_s = 1.5;
  RlStep& rl = figures.rl.emplace();
  rl.period_s = 61.5;
  rl.rollout_s = 40.5;
  rl.idle_rollout = 0.125;
  rl.idle_training = 0.0625;
  RunCost& run = figures.run.emplace();
  run.steps = 1003;
  run.time_s = 1e6;
  run.gpu_hours = 17.5;
  run.goodput = 0.875;
  run.checkpoint_s = 12.5;
  run.checkpoint_interval_s = 1800.5;
  run.mtbf_s = 7e5;
  run.time_p10_s = 9e5;
  run.time_p90_s = 2e6;
  run.cost = 99.5;
  figures.period_s = 1.2;
  figures.first_step_s = 2.2;
  figures.staleness = 1;
  run.cost_p10 = 89.5;
  run.cost_p90 = 199.5;
  run.currency = "EUR";
  run.energy_kwh = 1234.5;
  run.carbon_kg = 77.5;
  figures.per_device = {{0, 0, 1.25, 0.7, 0.15, 0.25, 0.35, 1001, 2002, false},
                        {1, 1, 1.2, 0.8, 0.05, 0.15, 0.31, 900, 2003, true}};
  return figures;
}

// The table of metrics is the one list: what it gives a document is what a reader gets back, to the last bit, and no more.
TEST(ResultDocument, EveryMetricIsReadBackAsItWasWritten) {
  const Metrics figures = distinct_figures();
  Timeline timeline;
  timeline.devices.resize(2);
  timeline.devices[1].device = timeline.devices[1].rank = 1;
  for (const TimelineKind kind : {TimelineKind::Estimated, TimelineKind::Simulated, TimelineKind::Measured}) {
    SCOPED_TRACE(name_of(kind));
    timeline.kind = kind;
    const ResultDocument again = parse_result(to_result_json(timeline, figures, {}, false), "a.json");
    std::vector<std::pair<std::string, double>> expected;
    for (const Metric& metric : metric_table())
      if (metric.is_in_result_of(kind)) expected.emplace_back(metric.name, metric.of_step(figures));
    EXPECT_EQ(again.metrics, expected);
    EXPECT_EQ(again.metrics.size(), kind == TimelineKind::Estimated ? 38U : kind == TimelineKind::Simulated ? 39U : 20U);
    EXPECT_EQ(again.currency, kind == TimelineKind::Measured ? "" : "EUR");
    ASSERT_EQ(again.per_device.size(), 2U);
    for (std::size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(again.per_device[d].device, figures.per_device[d].device);
      EXPECT_EQ(again.per_device[d].rank, figures.per_device[d].rank);
      for (const Metric& metric : metric_table()) {
        if (!metric.per_device()) continue;
        EXPECT_EQ(metric.of_device(again.per_device[d]), metric.of_device(figures.per_device[d])) << metric.name;
      }
    }
  }
}

// Without a run there is none of its figures, and of a run those alone that are known.
TEST(ResultDocument, FiguresOfARunAreThereWhereTheyAreKnown) {
  Metrics figures = distinct_figures();
  Timeline timeline;
  const auto names = [&] {
    std::vector<std::string> of_run;
    for (const auto& [name, value] : parse_result(to_result_json(timeline, figures, {}, false), "a.json").metrics)
      if (find_metric(name)->in == MetricIn::Runs) of_run.push_back(name);
    return of_run;
  };
  figures.per_device.clear();
  figures.rl.reset();
  figures.run.emplace();
  EXPECT_EQ(names(), (std::vector<std::string>{"run_steps", "run_time_s", "gpu_hours"}));
  figures.run->energy_kwh = 2;
  EXPECT_EQ(names(), (std::vector<std::string>{"run_steps", "run_time_s", "gpu_hours", "energy_kwh"}));
  figures.run.reset();
  EXPECT_EQ(names(), std::vector<std::string>());
}

// A figure that is added to a struct and not to the table would be in no document.
TEST(MetricTable, EveryMemberHasARow) {
  const std::vector<Metric>& table = metric_table();
  const auto rows = [&](auto&& counted) { return static_cast<std::size_t>(std::count_if(table.begin(), table.end(), counted)); };
  const auto kept = [](const Metric& metric) {
    return metric.name != "step_time_spread" && metric.in != MetricIn::Runs;  // follows from three others; of the run below
  };
  EXPECT_EQ(rows(kept), (sizeof(Metrics) - sizeof(Metrics::per_device) - sizeof(Metrics::evidence) - sizeof(Metrics::run) -
                         sizeof(Metrics::rl)) /
                            sizeof(double));
  EXPECT_EQ(rows([](const Metric& metric) { return metric.per_device(); }),
            (sizeof(DeviceMetrics) - 2 * sizeof(std::int32_t)) / sizeof(double));
  for (const Metric& metric : table) EXPECT_EQ(find_metric(metric.name), &metric) << metric.name;  // a name is there once
  EXPECT_EQ(find_metric("step_time"), nullptr);
}

}  // namespace
}  // namespace panpipe::present
