// How sure a prediction is: quantiles, what is alike, intervals, the shipped file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.hpp"
#include "costmodel/prediction/support.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Likeness kind_of(const std::string& device, const std::string& framework, const std::string& parallel) {
  return {device, framework, "16 bit", parallel, framework, "none", "formulas", false};
}

ComparedRuns group_of(const std::string& source, const Likeness& kind, int runs, double off) {
  return {source, kind, runs, {off}, off};
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

// Rungs: device, choices and split; choices and split; device and split; everything.
TEST(Evidence, TheNarrowestGroupOfEnoughSourcesMakesTheInterval) {
  const Likeness asked = kind_of("A100-SXM", "megatron", "tensor");
  EvidenceTable table;
  table.runs = {group_of("one", asked, 10, 0.1), group_of("two", asked, 10, -0.1),
                group_of("three", kind_of("H100-SXM", "megatron", "tensor"), 10, 0.3),
                group_of("four", kind_of("V100", "other", "data"), 10, 0.9)};
  const StepInterval all = table.interval(asked);
  EXPECT_EQ(to_text(all.evidence), "validated on 20 runs of 2 sources (A100-SXM, megatron, tensor)");
  // Every size is 0.1, and two sources widen by 1 + 1/2.
  EXPECT_NEAR(all.high, std::exp(0.15), 1e-12);
  EXPECT_NEAR(all.low, std::exp(-0.15), 1e-12);
  // Without one of the two: a single source is evidence, but no interval. With `three` the sizes are 0.1 and 0.3 with equal
  // weights, middles 1/4 and 3/4: 0.3, widened to 0.45.
  const StepInterval left_out = table.interval(asked, "two");
  EXPECT_EQ(to_text(left_out.evidence), "validated on 10 runs of 1 source (A100-SXM, megatron, tensor)");
  EXPECT_EQ(left_out.stands_on.like, "megatron, tensor, on other devices");
  EXPECT_NEAR(left_out.high, std::exp(0.45), 1e-12);
  table.widening = 2;
  EXPECT_NEAR(table.interval(asked, "two").high, std::exp(0.9), 1e-12);
}

TEST(Evidence, WhatIsNotAlikeIsReportedAndGetsTheIntervalOfEverything) {
  EvidenceTable table;
  table.runs = {group_of("one", kind_of("A100-SXM", "megatron", "tensor"), 10, 0.1),
                group_of("two", kind_of("A100-SXM", "megatron", "data"), 10, 0.2)};
  const StepInterval interval = table.interval(kind_of("A100-SXM", "megatron", "pipeline"));
  EXPECT_EQ(to_text(interval.evidence), "nothing alike was ever compared");
  EXPECT_EQ(interval.evidence.runs, 0);
  EXPECT_EQ(interval.stands_on.runs, 20);
  EXPECT_EQ(interval.stands_on.like, "everything");
  EXPECT_NEAR(interval.high, std::exp(0.2 * 1.5), 1e-12);
  // A host-bound step is not like one that is not, and measured units are not like formulas.
  Likeness host_bound = kind_of("A100-SXM", "megatron", "tensor");
  host_bound.host_bound = true;
  EXPECT_EQ(table.interval(host_bound).evidence.runs, 0);
  Likeness profiled = kind_of("A100-SXM", "megatron", "tensor");
  profiled.costs = "profile";
  EXPECT_EQ(table.interval(profiled).stands_on.runs, 0);
  EXPECT_EQ(table.interval(profiled).high, 1);
}

// Two sources of three runs are too few for an interval of their own.
TEST(Evidence, FewRunsGetAWiderGroup) {
  const Likeness asked = kind_of("A100-SXM", "megatron", "tensor");
  EvidenceTable table;
  table.runs = {group_of("one", asked, 3, 0.01), group_of("two", asked, 3, 0.01),
                group_of("three", kind_of("H100-SXM", "other", "data"), 30, 0.5)};
  const StepInterval interval = table.interval(asked);
  EXPECT_EQ(interval.evidence.runs, 6);
  EXPECT_EQ(interval.stands_on.runs, 36);
}

// Sizes 0.02 (3 pairs of one source) and 0.1 (one pair): weights 3 x 3^-0.5 and 1, middles 0.866/2.732 and 2.232/2.732;
// 0.02 + 0.08 x (0.8 - 0.31699) / (0.81699 - 0.31699).
TEST(Evidence, ATieIsWhatPairsOfPlansWereApart) {
  EvidenceTable table;
  table.plans = {{"one", 3, {0.02}}, {"two", 1, {0.1}}};
  EXPECT_NEAR(table.tie(), 0.02 + 0.08 * (0.8 - 0.316987) / 0.5, 1e-6);
  EXPECT_EQ(table.tie("two"), 0.02);
}

TEST(Evidence, ItsFileIsReadBack) {
  EvidenceTable table;
  table.widening = 1.25;
  table.runs = {group_of("one", kind_of("A100-SXM", "megatron", "tensor"), 10, 0.1)};
  table.runs.front().worst = -0.4;
  table.plans = {{"one", 3, {0.02, 0.03}}};
  const EvidenceTable again = parse_evidence(to_json(table), "steps.json");
  EXPECT_EQ(to_json(again), to_json(table));
  EXPECT_EQ(again.runs.front().worst, -0.4);
}

TEST(Evidence, AFaultInTheFileIsNamed) {
  EXPECT_EQ(message_of("{}"), "steps.json: this is no document of schema 'panpipe-evidence/1'");
  EvidenceTable table;
  table.runs = {group_of("one", kind_of("A100-SXM", "megatron", "tensor"), 10, 0.1)};
  table.runs.front().off = {0.2, 0.1};
  EXPECT_EQ(message_of(to_json(table)), "steps.json: runs[0].off: the values are not in ascending order");
  table.runs.front() = {"one", {}, 1, {0.1, 0.2}, 0.2};
  EXPECT_EQ(message_of(to_json(table)),
            "steps.json: runs[0].off: 2 values for 1 of them; 1 to 10 are expected, and no more than there are");
  table.runs.clear();
  table.widening = -1;
  EXPECT_EQ(message_of(to_json(table)), "steps.json: widening is a factor above 0");
  EXPECT_THAT(message_of(R"({"schema": "panpipe-evidence/1"})"), HasSubstr("steps.json: this evidence is broken: "));
}

// Its form, not its figures: `make accuracy` writes those anew.
TEST(Evidence, TheShippedFileHasRunsOfManySources) {
  const EvidenceTable& table = shipped_evidence();
  std::set<std::string> sources;
  for (const ComparedRuns& group : table.runs) {
    sources.insert(group.source);
    EXPECT_FALSE(group.kind.device.empty() || group.kind.framework.empty() || group.kind.parallel.empty()) << group.source;
    for (const double off : group.off) EXPECT_LE(std::abs(off), std::abs(group.worst) + 1e-9) << group.source;
  }
  EXPECT_GE(sources.size(), 5U);
  EXPECT_FALSE(table.plans.empty());
  EXPECT_GT(table.tie(), 0);
}

TEST(Evidence, AStepReportsHowSureItIs) {
  EXPECT_EQ(sureness_text(1.8, 2.25, {63, 2, "A100-SXM, megatron, pipeline"}),
            "80 % of runs are expected from 1.8 s to 2.25 s; validated on 63 runs of 2 sources (A100-SXM, megatron, pipeline)");
  EXPECT_EQ(sureness_text(1.8, 2.25, {0, 0, "nothing"}),
            "80 % of runs are expected from 1.8 s to 2.25 s; nothing alike was ever compared");
  EXPECT_EQ(sureness_text(0, 0, {0, 0, "nothing"}), "nothing alike was ever compared");  // given costs
  EXPECT_EQ(sureness_text(0, 0, {}), "");                                                // a measurement
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

TEST(Evidence, APredictionReportsWhatItIsLikeAndHowSureItIs) {
  const Experiment experiment(parse_scenario(kScenario, "s", data_directory()));
  const Prediction prediction = predict(experiment, experiment.plan(""));
  EXPECT_EQ(prediction.kind.device, "A100-SXM");
  EXPECT_EQ(prediction.kind.framework, "megatron");
  EXPECT_EQ(prediction.kind.choices, "fused kernels, attention with scores");
  EXPECT_EQ(prediction.kind.precision, "16 bit");
  EXPECT_EQ(prediction.kind.parallel, "tensor + pipeline + data");
  EXPECT_EQ(prediction.kind.schedule, "1f1b");
  EXPECT_EQ(prediction.kind.costs, "formulas");
  const Metrics& figures = prediction.metrics;
  EXPECT_LT(figures.step_time_p10_s, figures.step_time_s);
  EXPECT_GT(figures.step_time_p90_s, figures.step_time_s);
  // The interval is as wide to both sides, in the logarithm.
  EXPECT_NEAR(figures.step_time_p10_s * figures.step_time_p90_s, figures.step_time_s * figures.step_time_s,
              1e-9 * figures.step_time_s * figures.step_time_s);
}

// Choices count, not names: presets of eager frameworks describe their kernels by a factor, and a scenario may change one.
TEST(Evidence, FrameworksAreAlikeByTheirKernels) {
  const auto choices = [](const std::string& framework) {
    const Experiment experiment(parse_scenario(kScenario, "s", data_directory(), {"framework=" + framework}));
    return predict(experiment, experiment.plan("")).kind.choices;
  };
  EXPECT_EQ(choices("eager-sdpa"), "eager kernels, fused attention");
  EXPECT_EQ(choices("torch-compile"), "compiled kernels, fused attention");
  EXPECT_EQ(choices("{name: torch-compile, attention: unfused}"), "compiled kernels, attention with scores");
}

TEST(Evidence, ShardedWeightsAreAnotherKindOfData) {
  const auto parallel = [](const std::string& keys) {
    const Experiment experiment(parse_scenario(kScenario, "s", data_directory(), {"parallel=" + keys}));
    return predict(experiment, experiment.plan("")).kind.parallel;
  };
  EXPECT_EQ(parallel("{data: 8, zero: 3}"), "sharded data");
  EXPECT_EQ(parallel("{data: 8, zero: 1}"), "data");
  EXPECT_EQ(parallel("{pipeline: 1, tensor: 1, data: 1}"), "one device");
}

TEST(Support, ListsWhatWasComparedAndWhatNever) {
  const Scenario scenario = parse_scenario(kScenario, "s", data_directory());
  EvidenceTable table;
  // Measured 10 % above, and 20 % below, what was predicted: errors of -9.1 % and +25 %.
  table.runs = {group_of("one", kind_of("A100-SXM", "megatron", "tensor"), 3, std::log(1.1)),
                group_of("two", kind_of("A100-SXM", "other", "data"), 1, std::log(0.8))};
  const Support support = support_of(scenario, kind_of("A100-SXM", "megatron", "pipeline"), table);
  ASSERT_EQ(support.parts.front().what, "device");
  EXPECT_EQ(support.parts.front().runs, 4);
  EXPECT_EQ(support.parts.front().sources, 2);
  EXPECT_NEAR(support.parts.front().mean_error, (3 * (1 - 1 / 1.1) + 0.25) / 4, 1e-12);
  EXPECT_NEAR(support.parts.front().worst_error, 0.25, 1e-12);
  EXPECT_THAT(support.never_compared, ElementsAre("parallelism pipeline"));
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
