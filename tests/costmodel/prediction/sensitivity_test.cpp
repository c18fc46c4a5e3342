// The derivatives of a step's time are those that changed numbers give, and add up.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "costmodel/prediction/prediction.hpp"

namespace panpipe {
namespace {

constexpr const char* kScenario = R"(
panpipe: 1
cluster: clusters/dgx-a100-80g.yaml
workload: {model: gpt2-large}
batch: {micro: 2, microbatches: 4}
parallel: {pipeline: 2, tensor: 2, data: 2}
precision: bf16
framework: megatron-core
)";

const std::vector<std::vector<std::string>> kCases = {
    {},
    {"schedule=zb-h1"},
    {"schedule=interleaved-1f1b", "parallel={pipeline: 2, tensor: 2, data: 2, virtual_stages: 2}"},
    {"parallel={pipeline: 1, data: 8, zero: 3}", "batch.micro=8"},
    {"parallel={pipeline: 4, tensor: 2, sequence_parallel: true}", "recompute=full"},
    {"parallel={pipeline: 1, tensor: 4, data: 2}", "batch.micro=8"},
    {"parallel={pipeline: 1, data: 1}", "batch.micro=8", "framework=eager"},
    {"workload={model: gpt, layers: 4, hidden: 256, heads: 4, sequence: 128}", "parallel={pipeline: 1, data: 1}"},
    {"cluster={file: clusters/dgx-a100-80g.yaml, nodes: 4}", "parallel={pipeline: 1, data: 32}", "batch.micro=4",
     "framework=torchtitan"}};

Scenario scenario_of(const std::vector<std::string>& changes) {
  return parse_scenario(kScenario, "s", data_directory(), changes);
}

StepFigures figures_with(const std::vector<std::string>& changes, const std::function<void(Calibration&)>& change) {
  Scenario scenario = scenario_of(changes);
  std::vector<Calibration> calibrations;
  for (const DeviceType& type : scenario.cluster.types) change(calibrations.emplace_back(calibration_for(type)));
  scenario.framework.launch = Duration(0);  // the device's own, which a case changes
  const Experiment experiment(std::move(scenario), std::move(calibrations));
  const Plan plan = experiment.plan("");
  return step_figures(lower(experiment.scenario, plan, experiment.model), experiment.scenario, plan);
}

double of(const StepFigures& figures, Direction direction) { return figures.traits.sensitivity[at(direction)]; }

TEST(Sensitivity, SharesOfTheCriticalPathAddUp) {
  for (const auto& changes : kCases) {
    SCOPED_TRACE(changes.empty() ? "as it is" : changes.front());
    const StepFigures figures = figures_with(changes, [](Calibration&) {});
    const Sensitivity& s = figures.traits.sensitivity;
    EXPECT_EQ(of(figures, Direction::Everything), 1);
    EXPECT_NEAR(std::accumulate(s.begin() + 1, s.begin() + 7, 0.0), 1, 1e-9);
    for (const double share : s) EXPECT_GE(share, 0);
  }
}

// A step with times of one cause longer by 0.5 %: ln of the ratio of the steps over ln 1.005. The path changes with the times,
// and gaps of kernels count as the host's, so that a few hundredths lie between.
TEST(Sensitivity, IsTheDerivativeThatChangedNumbersGive) {
  constexpr double kLonger = 1.005, kNear = 0.04;
  struct Change {
    Direction direction;
    std::function<void(Calibration&)> apply;
  };
  const std::vector<Change> kChanges = {{Direction::Products,
                                         [](Calibration& c) {
                                           c.gemm_efficiency /= kLonger;
                                           c.unaligned_gemm_efficiency /= kLonger;
                                         }},
                                        {Direction::MemoryTraffic, [](Calibration& c) { c.memory_efficiency /= kLonger; }},
                                        {Direction::Host, [](Calibration& c) {
                                           c.launch = c.launch * kLonger;
                                           c.step = c.step * kLonger;
                                         }}};
  for (const auto& changes : kCases) {
    SCOPED_TRACE(changes.empty() ? "as it is" : changes.front());
    const StepFigures before = figures_with(changes, [](Calibration&) {});
    for (const Change& change : kChanges) {
      const double after = figures_with(changes, change.apply).step_time_s;
      EXPECT_NEAR(of(before, change.direction), std::log(after / before.step_time_s) / std::log(kLonger), kNear)
          << name_of(change.direction);
    }
  }
}

TEST(Sensitivity, OneDeviceHasNoLinksAndNothingToExpose) {
  const StepFigures alone = figures_with({"parallel={pipeline: 1, data: 1}", "batch.micro=8"}, [](Calibration&) {});
  for (const Direction direction : {Direction::Node, Direction::Network, Direction::Exposure}) EXPECT_EQ(of(alone, direction), 0);
  EXPECT_GT(of(alone, Direction::Products), 0.3);
}

// 4 layers of width 256 and 128 tokens: the device waits for launches. Without hiding them the step is their sum with the
// device's time, which is little.
TEST(Sensitivity, TheHostPacesASmallModel) {
  const StepFigures small =
      figures_with({"workload={model: gpt, layers: 4, hidden: 256, heads: 4, sequence: 128}", "parallel={pipeline: 1, data: 1}"},
                   [](Calibration&) {});
  EXPECT_GT(of(small, Direction::Host), 0.6);
  EXPECT_LT(of(small, Direction::Synchronisation), 0.35);
  EXPECT_GT(of(small, Direction::Synchronisation), 0);
}

// Replicas over four nodes exchange gradients between nodes; those of one node inside it.
TEST(Sensitivity, CollectivesCountWhereTheyRun) {
  const std::vector<std::string> late = {"parallel={pipeline: 1, data: 8}", "framework=eager",
                                         "batch={micro: 1, microbatches: 1}"};
  const StepFigures inside = figures_with(late, [](Calibration&) {});
  EXPECT_EQ(of(inside, Direction::Network), 0);
  EXPECT_GT(of(inside, Direction::Node) + of(inside, Direction::Exposure), 0);
  const StepFigures across =
      figures_with({"cluster={file: clusters/dgx-a100-80g.yaml, nodes: 4}", "parallel={pipeline: 1, data: 32}", "framework=eager",
                    "batch={micro: 1, microbatches: 1}"},
                   [](Calibration&) {});
  EXPECT_EQ(of(across, Direction::Node), 0);
  EXPECT_GT(of(across, Direction::Network) + of(across, Direction::Exposure), 0);
}

}  // namespace
}  // namespace panpipe
