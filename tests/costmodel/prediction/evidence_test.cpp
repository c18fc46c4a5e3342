// The shipped file of evidence, what a prediction states of its interval, and what was compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/prediction/support.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

StepTraits traits_of(const std::string& device, const std::string& framework, const std::string& parallel) {
  StepTraits traits;
  traits.device = device;
  traits.framework = framework;
  traits.precision = "16 bit";
  traits.parallel = parallel;
  traits.schedule = "none";
  return traits;
}

std::string message_of(const std::string& text) {
  return test::diagnostic_of([&] { parse_evidence(text, "steps.json"); }).message;
}

TEST(Evidence, QuantilesAreLinearBetweenTheMiddlesOfWeights) {
  // Three equal weights: their middles are at 1/6, 1/2, 5/6, so that 0.8 is 2 + (0.8 - 0.5) / (1/3).
  EXPECT_NEAR(weighted_quantile({{3, 1}, {1, 1}, {2, 1}}, 0.8), 2.9, 1e-12);
  // Weights 3 and 1: middles at 3/8 and 7/8; 0.1 + 0.4 x (0.8 - 0.375) / 0.5.
  EXPECT_NEAR(weighted_quantile({{0.1, 3}, {0.5, 1}}, 0.8), 0.44, 1e-12);
  EXPECT_EQ(weighted_quantile({{0.1, 3}, {0.5, 1}}, 0.1), 0.1);   // below the first middle
  EXPECT_EQ(weighted_quantile({{0.1, 3}, {0.5, 1}}, 0.99), 0.5);  // above the last
  EXPECT_EQ(weighted_quantile({}, 0.8), 0);
}

TEST(Evidence, TenValuesStandForMany) {
  EXPECT_THAT(representatives({3, 1, 2}), ElementsAre(1, 2, 3));
  std::vector<double> many;
  for (int i = 0; i < 100; ++i) many.push_back(i);
  // The middle of value i is at (i + 0.5) / 100, so that 5 % is half way between 4 and 5.
  EXPECT_THAT(representatives(many), ElementsAre(4.5, 14.5, 24.5, 34.5, 44.5, 54.5, 64.5, 74.5, 84.5, 94.5));
}

EvidenceTable small_table() {
  EvidenceTable table;
  table.prior = shipped_evidence().prior;
  table.runs = {{"one", traits_of("A100-SXM", "megatron", "tensor"), 10, 0.1, -0.2}};
  table.plans = {{"one", 3, {0.01, 0.02, 0.05}}};
  return table;
}

TEST(Evidence, AFileIsReadAsItWasWritten) {
  const std::string text = to_json(small_table());
  EXPECT_EQ(to_json(parse_evidence(text, "steps.json")), text);
}

TEST(Evidence, AFaultInTheFileIsNamed) {
  EXPECT_EQ(message_of("{}"), "steps.json: this is no document of schema 'panpipe-evidence/2'");
  EXPECT_THAT(message_of(R"({"schema": "panpipe-evidence/2"})"), HasSubstr("steps.json: this evidence is broken: "));
  EvidenceTable table = small_table();
  table.plans.front().apart = {0.2, 0.1};
  EXPECT_EQ(message_of(to_json(table)), "steps.json: plans[0].apart: the values are not in ascending order");
  table.plans.front() = {"one", 1, {0.1, 0.2}};
  EXPECT_EQ(message_of(to_json(table)),
            "steps.json: plans[0].apart: 2 values for 1 of them; 1 to 10 are expected, and no more than there are");
  table = small_table();
  table.runs.front().runs = 0;
  EXPECT_EQ(message_of(to_json(table)), "steps.json: runs[0].runs: from 1");
  table = small_table();
  table.prior.widening = {{0, {0}}};
  EXPECT_EQ(message_of(to_json(table)), "steps.json: prior: widening: factors are above 0");
}

// Its form, not its figures: `make accuracy` writes those anew.
TEST(Evidence, TheShippedFileHasRunsOfManySources) {
  const EvidenceTable& table = shipped_evidence();
  std::set<std::string> sources;
  for (const ComparedRuns& group : table.runs) {
    sources.insert(group.source);
    EXPECT_FALSE(group.traits.device.empty() || group.traits.framework.empty() || group.traits.parallel.empty()) << group.source;
    EXPECT_LE(group.mean_error, std::abs(group.worst_error) + 1e-9) << group.source;
  }
  EXPECT_GE(sources.size(), 20U);
  EXPECT_GE(table.prior.sources, 20);
  EXPECT_FALSE(table.plans.empty());
  EXPECT_GT(table.tie(), 0);
}

TEST(Evidence, AStepReportsHowSureItIs) {
  Evidence evidence;
  evidence.limits = {"half of it: host", "a third of it: network"};
  EXPECT_EQ(sureness_text(1.8, 2, 2.25, evidence),
            "80 % of runs are expected from 1.8 s to 2.25 s, half above 2 s; half of it: host; a third of it: network");
  EXPECT_EQ(sureness_text(0, 0, 0, evidence), "");  // given costs, or a measurement
}

TEST(Evidence, AChipIsItsNameWithoutTheSizeOfItsMemory) {
  EXPECT_EQ(chip_of("A100-80G-SXM"), "A100-SXM");
  EXPECT_EQ(chip_of("A100-40G-SXM"), "A100-SXM");
  EXPECT_EQ(chip_of("V100-SXM2-32GB"), "V100-SXM2");
  EXPECT_EQ(chip_of("H20"), "H20");
}

constexpr const char* kScenario = R"(
panpipe: 1
cluster: clusters/dgx-a100-80g.yaml
workload: {model: gpt2-large}
batch: {micro: 2, microbatches: 4}
parallel: {pipeline: 2, tensor: 2, data: 2}
precision: bf16
framework: megatron
)";

TEST(Evidence, APredictionStatesItsIntervalAndWhatItIsMadeOf) {
  const Experiment experiment(parse_scenario(kScenario, "s", data_directory()));
  const Prediction prediction = predict(experiment, experiment.plan(""));
  EXPECT_EQ(prediction.traits.device, "A100-SXM");
  EXPECT_EQ(prediction.traits.framework, "megatron");
  EXPECT_EQ(prediction.traits.precision, "16 bit");
  EXPECT_EQ(prediction.traits.parallel, "tensor + pipeline + data");
  EXPECT_EQ(prediction.traits.schedule, "1f1b");
  const Metrics& figures = prediction.metrics;
  EXPECT_LT(figures.step_time_p10_s, figures.step_time_p50_s);
  EXPECT_LT(figures.step_time_p50_s, figures.step_time_p90_s);
  // Nothing is missing in this class: the median is the prediction, and the interval is as wide to both sides in the logarithm.
  EXPECT_NEAR(figures.step_time_p50_s, figures.step_time_s, 1e-5 * figures.step_time_s);
  EXPECT_NEAR(figures.step_time_p10_s * figures.step_time_p90_s, figures.step_time_s * figures.step_time_s,
              1e-5 * figures.step_time_s * figures.step_time_s);
  EXPECT_EQ(figures.evidence.of_class, "dense, NVLink");
  EXPECT_THAT(figures.evidence.limits, Not(IsEmpty()));
  EXPECT_THAT(figures.evidence.pieces, IsEmpty());
}

std::string class_with(const std::vector<std::string>& changes) {
  const Experiment experiment(parse_scenario(kScenario, "s", data_directory(), changes));
  return predict(experiment, experiment.plan("")).metrics.evidence.of_class;
}

TEST(Evidence, StepsAreOfOneClass) {
  EXPECT_EQ(class_with({"parallel={pipeline: 1, data: 1}"}), "one GPU");
  EXPECT_EQ(class_with({"cluster=clusters/h100x8.yaml", "precision=fp8"}), "8 bits");
  EXPECT_EQ(class_with({"cluster=clusters/rtx3090x8.yaml"}), "PCIe");
  EXPECT_EQ(class_with({"workload={model: gpt2, lora: {rank: 8, targets: all-linear}}", "parallel={pipeline: 1, data: 8}"}),
            "adapters");
  EXPECT_EQ(class_with({"offload={optimizer: cpu}", "parallel={pipeline: 1, data: 8, zero: 2}"}), "offload");
  const std::string mixtral = "workload={config: workloads/mixtral-8x7b.json, sequence: 1024}",
                    ranks = "parallel={pipeline: 1, data: 8}";
  EXPECT_EQ(class_with({mixtral, ranks, "framework=megatron-core"}), "experts");
  EXPECT_EQ(class_with({mixtral, ranks, "framework=eager-sdpa"}), "experts, uncounted");
}

// A class in which a term is missing leans to longer steps.
TEST(Evidence, WhereATermIsMissingTheIntervalLeansToLongerSteps) {
  const Experiment experiment(parse_scenario(kScenario, "s", data_directory(), {"cluster=clusters/rtx3090x8.yaml"}));
  const Metrics figures = predict(experiment, experiment.plan("")).metrics;
  EXPECT_GT(figures.step_time_p90_s / figures.step_time_s, 1.1 * figures.step_time_s / figures.step_time_p10_s);
}

TEST(Evidence, ShardedWeightsAreAnotherKindOfData) {
  const auto parallel = [](const std::string& keys) {
    const Experiment experiment(parse_scenario(kScenario, "s", data_directory(), {"parallel=" + keys}));
    return predict(experiment, experiment.plan("")).traits.parallel;
  };
  EXPECT_EQ(parallel("{data: 8, zero: 3}"), "sharded data");
  EXPECT_EQ(parallel("{data: 8, zero: 1}"), "data");
  EXPECT_EQ(parallel("{pipeline: 1, tensor: 1, data: 1}"), "one device");
}

TEST(Support, ListsWhatWasComparedAndWhatNever) {
  const Scenario scenario = parse_scenario(kScenario, "s", data_directory());
  EvidenceTable table;
  table.runs = {{"one", traits_of("A100-SXM", "megatron", "tensor"), 3, 0.1, -0.2},
                {"two", traits_of("A100-SXM", "other", "data"), 1, 0.25, 0.25}};
  const Support support = support_of(scenario, traits_of("A100-SXM", "megatron", "pipeline"), table);
  ASSERT_EQ(support.parts.at(1).what, "device");
  EXPECT_EQ(support.parts.at(1).runs, 4);
  EXPECT_EQ(support.parts.at(1).sources, 2);
  EXPECT_NEAR(support.parts.at(1).mean_error, (3 * 0.1 + 0.25) / 4, 1e-12);
  EXPECT_NEAR(support.parts.at(1).worst_error, 0.25, 1e-12);
  EXPECT_THAT(support.never_compared, ElementsAre("parallelism pipeline", "all of these together"));
  ASSERT_EQ(support.devices.size(), 1U);
  EXPECT_EQ(support.devices.front().calibration, "a100-80g-sxm");
  EXPECT_GE(support.devices.front().numbers.size(), 12U);
}

TEST(Support, ANumberIsFittedMeasuredOrInferredByWhatItsSourceStates) {
  EXPECT_EQ(origin_of_number("least squares over 522 measured runs (see fit); start: the count of bytes"), NumberOrigin::Fitted);
  EXPECT_EQ(origin_of_number("least squares over 522 measured runs (see fit); these runs say little about it: near its start"),
            NumberOrigin::Inferred);
  EXPECT_EQ(origin_of_number("the A100's fitted value, not measured on this device"), NumberOrigin::Inferred);
  EXPECT_EQ(origin_of_number("ring all-reduce on 8 H200, same fabric: 367.6 of 450 GB/s (NCCL issues)"), NumberOrigin::Measured);
}

}  // namespace
}  // namespace panpipe
