// Devices whose rates no run was compared with: named, and with wider intervals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/index.hpp"
#include "costmodel/prediction/plan_cautions.hpp"
#include "costmodel/prediction/prediction.hpp"

namespace panpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string scenario_on(const std::string& cluster) {
  return "panpipe: 1\ncluster: " + cluster + R"(
workload: {model: gpt2-large}
batch: {micro: 2, microbatches: 4}
parallel: {tensor: 4}
precision: bf16
)";
}

Prediction predicted(const std::string& cluster) {
  const Experiment experiment(parse_scenario(scenario_on(cluster), "s", "."));
  return predict(experiment, experiment.plan(""));
}

std::vector<std::string> named(const std::string& cluster) {
  return unmeasured(parse_scenario(scenario_on(cluster), "s", ".").cluster);
}

TEST(Unmeasured, DevicesAreNamedWithTheReason) {
  EXPECT_THAT(named("h100x8"), IsEmpty());
  EXPECT_THAT(named("gb200-nvl72"), ElementsAre(HasSubstr("GB200: not measured on this device: the B200's calibration")));
  EXPECT_THAT(named("{file: clusters/h100x8.yaml, device: {file: devices/h100-sxm.yaml, clock: 90 %}}"),
              ElementsAre("H100-SXM at 90 % of its clock: a rule from three RTX 3090"));
  // A slow device is of a type of its own, and is named once.
  EXPECT_THAT(named("{file: clusters/gb200-nvl72.yaml, slow: [{device: 0, factor: 0.9}]}"), ElementsAre(HasSubstr("GB200")));
}

TEST(Unmeasured, LayersAreNamed) {
  const auto cautions = [](const std::string& config) {
    const Experiment experiment(
        parse_scenario("panpipe: 1\ncluster: h100x8\nworkload: {config: " + config + ", sequence: 512, layers: 4}\n" +
                           "batch: {micro: 1, microbatches: 4}\nparallel: {pipeline: 2, data: 4}\nprecision: bf16\n",
                       "s", "."));
    return plan_cautions(experiment.scenario, experiment.plan(""));
  };
  EXPECT_THAT(cautions("workloads/llama-3-8b.json"), IsEmpty());
  EXPECT_THAT(cautions("workloads/qwen3-next-80b-a3b.json"),
              ElementsAre(HasSubstr("no measured run with linear-attention or state-space layers was compared")));
  EXPECT_THAT(cautions("workloads/deepseek-v3.2.json"), ElementsAre(HasSubstr("no measured run with attention to chosen keys")));
}

// A recipe that no measured step had is named, and so are packed samples and rollouts.
TEST(Unmeasured, RecipesAndPostTrainingAreNamed) {
  const auto cautions = [](const std::string& lines) {
    const Experiment experiment(parse_scenario("panpipe: 1\ncluster: b200x8\nworkload: {model: gpt2-large}\n" + lines, "s", "."));
    return plan_cautions(experiment.scenario, experiment.plan(""));
  };
  const std::string batch = "batch: {micro: 2, microbatches: 4}\n";
  EXPECT_THAT(cautions("precision: mxfp8\n" + batch), IsEmpty());
  EXPECT_THAT(cautions("precision: nvfp4\n" + batch), ElementsAre(HasSubstr("the evidence has no measured run with NVFP4")));
  EXPECT_THAT(cautions("precision: fp8\nframework: {fp8_scaling: rows}\n" + batch),
              ElementsAre(HasSubstr("the evidence has no measured run with FP8 with scales of rows")));
  EXPECT_THAT(cautions("batch: {micro: 2, microbatches: 4, packed: {lengths: [128, 512]}}\n"),
              ElementsAre(HasSubstr("no measured run with packed samples was compared")));
  EXPECT_THAT(cautions("rollout: {time: 3 s}\n" + batch), ElementsAre(HasSubstr("rollouts take what the scenario states")));
}

// A clock that is all but the data sheet's changes no time, and doubles what the chip's own work adds to the interval.
TEST(Unmeasured, IntervalsWiden) {
  const auto at_clock = [](const std::string& clock) {
    return predicted("{file: clusters/h100x8.yaml, device: {file: devices/h100-sxm.yaml, clock: " + clock + "}}");
  };
  const Prediction known = at_clock("100 %"), rule = at_clock("99.999999 %");
  EXPECT_NEAR(rule.metrics.step_time_s, known.metrics.step_time_s, 1e-6 * known.metrics.step_time_s);
  for (const Direction direction : {Direction::Products, Direction::MemoryTraffic, Direction::Attention})
    EXPECT_NEAR(rule.traits.sensitivity[at(direction)], 2 * known.traits.sensitivity[at(direction)], 1e-6) << at(direction);
  for (const Direction direction : {Direction::Host, Direction::Node, Direction::Everything})
    EXPECT_NEAR(rule.traits.sensitivity[at(direction)], known.traits.sensitivity[at(direction)], 1e-6) << at(direction);
}

}  // namespace
}  // namespace panpipe
