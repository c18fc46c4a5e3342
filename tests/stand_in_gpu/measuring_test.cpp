// Measured steps on a GPU: whose time is whose, and that none is left out. Slow work here is slow in its stream alone, as a
// kernel; the host goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

using testing::Each;
using testing::Ge;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kOptions = "--steps 3 --warmup 1 --timeline ";

Trained measured(const std::string& scenario, const std::string& slow) {
  Trained run = train_on_stand_in(scenario_file(scenario), kOptions, {{"STAND_IN_SLOW", slow}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run;
}

std::vector<nlohmann::json> spans(const Trained& run, const std::string& lane, const std::string& action = "") {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& span : run.result.at("timeline"))
    if (span.at("lane") == lane && span.at("action").get<std::string>().find(action) != std::string::npos) found.push_back(span);
  return found;
}

std::vector<double> seconds_of(const std::vector<nlohmann::json>& spans) {
  std::vector<double> seconds;
  for (const nlohmann::json& span : spans) seconds.push_back(span.at("end_s").get<double>() - span.at("start_s").get<double>());
  return seconds;
}

std::vector<double> step_times(const Trained& run) {
  std::vector<double> seconds;
  for (const nlohmann::json& step : run.result.at("repetitions")) seconds.push_back(step.at("step_time_s"));
  return seconds;
}

// The time of the step before is not in a step: its first pass starts with it.
double first_start(const Trained& run) {
  double first = 1e9;
  for (const nlohmann::json& span : spans(run, "compute")) first = std::min(first, span.at("start_s").get<double>());
  return first;
}

// One call a step, 200 ms: so much at least in every step, and in the span of the optimizer on both ranks.
TEST(Measuring, AStepHoldsTheOptimizersTime) {
  const Trained run = measured(small_gpt({1, 2}, "optimizer: adam"), "optimizer:200");
  EXPECT_THAT(step_times(run), Each(Ge(0.2)));
  const std::vector<double> updates = seconds_of(spans(run, "compute", "OPT"));
  EXPECT_EQ(updates.size(), 2u);
  EXPECT_THAT(updates, Each(Ge(0.2)));
  EXPECT_LT(first_start(run), 0.2);
}

TEST(Measuring, AStepHoldsTheSumsOfGradients) {
  const Trained run = measured(small_gpt({1, 2}, "optimizer: adam"), "allreduce:200");
  EXPECT_THAT(step_times(run), Each(Ge(0.2)));
  const std::vector<double> sums = seconds_of(spans(run, "data"));
  EXPECT_THAT(sums, Not(IsEmpty()));
  EXPECT_THAT(sums, Each(Ge(0.2)));
  // The only bucket is whole when the last backward is over: nothing computes meanwhile.
  EXPECT_GE(run.result.at("metrics").at("exposed_communication_s").get<double>(), 0.1);
  EXPECT_LT(first_start(run), 0.2);
}

// Two stages, four microbatches, gpipe. A pass has two or three normalisations, 134 or 201 ms. Of the transfers of 100 ms only
// that of the first activation and that of the last gradient are waited for: 200 ms of 800.
TEST(Measuring, ATransferDuringAPassCostsNothingAndHasItsOwnTime) {
  const std::string scenario = small_gpt({2}, "schedule: gpipe");
  const Trained quick = measured(scenario, "native_layer_norm:67"), slow = measured(scenario, "native_layer_norm:67,send:100");
  const auto least = [](const Trained& run) { return std::ranges::min(step_times(run)); };
  // (4 + 4) passes of 201 ms on the last stage, the first and the last of 134 ms on the first
  EXPECT_GE(least(quick), 1.876);
  EXPECT_GE(least(slow), least(quick) + 0.1);
  EXPECT_LT(least(slow), least(quick) + 0.5);
  const std::vector<double> without = seconds_of(spans(quick, "receive")), with = seconds_of(spans(slow, "receive"));
  ASSERT_EQ(without.size(), 8u);
  ASSERT_EQ(with.size(), 8u);
  EXPECT_LT(std::ranges::max(without), 0.1);
  EXPECT_THAT(with, Each(Ge(0.1)));
  // Both ends of a transfer are one.
  EXPECT_EQ(seconds_of(spans(slow, "send")).size(), 8u);
  EXPECT_THAT(seconds_of(spans(slow, "send")), Each(Ge(0.1)));
}

// The wait for a sum inside a pass is the pass's, by the device: its host does not wait.
TEST(Measuring, SumsOfTensorParallelRanksHaveTheirTime) {
  const Trained run = measured(small_gpt({1, 1, 2}), "allreduce:20");
  const std::vector<nlohmann::json> sums = spans(run, "tensor");
  EXPECT_THAT(sums, Not(IsEmpty()));
  EXPECT_THAT(seconds_of(sums), Each(Ge(0.02)));
  for (const nlohmann::json& pass : spans(run, "compute", "F")) EXPECT_GE(pass.value("waiting_s", 0.0), 0.02) << pass;
}

}  // namespace
}  // namespace panpipe::test
