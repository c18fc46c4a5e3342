// The host launches what a pass runs, whatever device and order: faster devices never make a step slower, wider models never
// faster, and no pass is over before it is launched.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {
namespace {

constexpr int kMicrobatches = 16;

struct Case {
  std::string schedule;
  std::string cluster = "dgx-a100-80g", framework = "megatron";
  int pipeline = 4, tensor = 1, stages_per_rank = 1;
  int hidden = 1024, heads = 16, sequence = 128, vocabulary = 8192;
  double peak = 1;  // times the data sheet's
  std::string extra{};
};

struct Step {
  double seconds = 0;
  double launches = 0;  // seconds that the host of an average rank launches
};

// The cuts are stated, so that they do not move with the costs: embedding, two units for each of two layers a stage, head.
Step step_of(const Case& c) {
  const int stages = c.pipeline * c.stages_per_rank;
  std::string cuts;
  for (int s = 1; s < stages; ++s) cuts += fmt::format("{}{}", s > 1 ? ", " : "", 4 * s + 1);
  Scenario scenario = parse_scenario(
      fmt::format(R"(panpipe: 1
cluster: {{file: clusters/{}.yaml}}
workload: {{model: gpt, layers: {}, hidden: {}, heads: {}, sequence: {}, vocabulary: {}}}
batch: {{micro: 1, microbatches: {}}}
precision: fp16
parallel: {{pipeline: {}, tensor: {}{}}}
schedule: {}
framework: {}
partition: [{}]
{})",
                  c.cluster, 2 * stages, c.hidden, c.heads, c.sequence, c.vocabulary, kMicrobatches, c.pipeline, c.tensor,
                  c.schedule.starts_with("interleaved") ? fmt::format(", virtual_stages: {}", c.stages_per_rank) : "", c.schedule,
                  c.framework, cuts, c.extra),
      "test", ".");
  for (DeviceType& type : scenario.cluster.types)
    for (auto& [precision, rate] : type.peak) rate = rate * c.peak;
  const Workload workload = make_workload(scenario.workload, {.degrees = scenario.degrees, .precision = scenario.precision});
  const CostModel model(scenario, workload);
  Ticks last(0);
  for (const Ticks end : estimate_times(lower(scenario, make_plan(scenario, model), model)).task_end) last = std::max(last, end);
  HostWork host;
  for (const UnitCost& unit : model.workload(0).units) {
    host += unit.forward.host;
    host += unit.backward ? unit.backward->host : unit.input_gradient.host;
    if (!unit.backward) host += unit.weight_gradient.host;
  }
  const Duration launched = model.calibration(0).launch * host.launches + host.other;
  return {last.base() * 1e-12, launched.base() * kMicrobatches / c.pipeline};
}

const std::vector<Case> kSplitBackwards = {{.schedule = "zb-h1"},
                                           {.schedule = "zb-h2"},
                                           {.schedule = "interleaved-zero-bubble", .stages_per_rank = 2},
                                           {.schedule = "zb-v", .stages_per_rank = 2},
                                           {.schedule = "dualpipe-v", .stages_per_rank = 2},
                                           {.schedule = "stp", .pipeline = 2, .tensor = 4, .stages_per_rank = 2}};

TEST(Host, FasterDevicesAreNeverSlower) {
  for (Case c : kSplitBackwards)
    for (const std::string framework : {"megatron", "eager", "megatron-deepspeed"}) {
      c.framework = framework;
      double slowest = 1e9;
      for (const double peak : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 64.0}) {
        c.peak = peak;
        const double step = step_of(c).seconds;
        EXPECT_LE(step, slowest * (1 + 1e-9)) << c.schedule << ", " << framework << ", peak x " << peak;
        slowest = step;
      }
    }
}

const std::vector<Case> kWoven = {{.schedule = "stp", .pipeline = 1, .tensor = 8, .stages_per_rank = 2, .sequence = 512},
                                  {.schedule = "stp", .pipeline = 2, .tensor = 4, .stages_per_rank = 2},
                                  {.schedule = "stp", .cluster = "rtx3090x8", .pipeline = 1, .tensor = 4, .stages_per_rank = 2},
                                  {.schedule = "dualpipe-v", .pipeline = 2, .tensor = 4, .stages_per_rank = 2}};

// Weaving and trailing collectives hide communication, not launches.
TEST(Host, NoStepIsOverBeforeItIsLaunched) {
  for (const auto* cases : {&kSplitBackwards, &kWoven})
    for (Case c : *cases)
      for (const int hidden : {256, 512, 1024})
        for (const char* extra : {"", "trailing_collectives: overlapped\n"}) {
          c.hidden = hidden;
          c.extra = extra;
          const Step step = step_of(c);
          EXPECT_GE(step.seconds, step.launches) << c.schedule << " t " << c.tensor << ", hidden " << hidden << " " << extra;
          EXPECT_GE(step.launches, 0.3 * step.seconds) << "launches count here";
        }
}

TEST(Host, WiderModelsAreNeverFaster) {
  std::vector<Case> cases = kSplitBackwards;
  cases.insert(cases.end(), kWoven.begin(), kWoven.end());
  for (Case c : cases) {
    double fastest = 0;
    for (const int hidden : {256, 512, 1024, 2048, 4096, 8192}) {
      c.hidden = hidden;
      const double step = step_of(c).seconds;
      EXPECT_GE(step, fastest * (1 - 1e-9)) << c.schedule << ", hidden " << hidden;
      fastest = step;
    }
  }
}

}  // namespace
}  // namespace panpipe
