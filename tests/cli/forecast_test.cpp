// Forecasts of runs under way, with the program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// A log of Megatron-LM with `count` of 1,000 steps.
std::string log_of(int count, const std::function<double(int)>& milliseconds) {
  std::string text;
  for (int i = 1; i <= count; ++i)
    text +=
        fmt::format(" iteration {:8}/    1000 | consumed samples: {} | elapsed time per iteration (ms): {:.1f} | lm loss: 2 |\n",
                    i, 8 * i, milliseconds(i));
  return text;
}

Json forecast(const std::string& log, const std::string& options = "") {
  const std::string file = temporary_folder() + "/train.log";
  write_file(file, log);
  const Outcome run = panpipe("forecast " + file + " --json " + options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return Json::parse(run.out);
}

// 101 steps of 2 s: 899 are left, 1,798 s. Twelve equal parts leave no spread.
TEST(Forecast, WhatIsLeftIsTheStepsTime) {
  const Json f = forecast(log_of(101, [](int) { return 2000; }));
  EXPECT_EQ(f["steps_left"], 899);
  for (const char* q : {"p10", "p50", "p90"}) EXPECT_NEAR(f["left_s"][q], 1798, 1e-6);
  EXPECT_TRUE(f["alarms"].empty());
  EXPECT_TRUE(f["predicted_before_s"].is_null());
}

// Each fifth step takes 10 % longer, and no part has a longer median: the mean is 2.04 s.
TEST(Forecast, SlowStepsCountInTheMean) {
  const Json f = forecast(log_of(101, [](int i) { return i % 5 == 0 ? 2200 : 2000; }));
  EXPECT_NEAR(f["step_s"]["p50"], 2.04, 0.001);
  EXPECT_NEAR(f["median_step_s"], 2, 1e-9);
}

TEST(Forecast, ADriftIsAnAlarmAndNoiseIsNone) {
  const auto noise = [](int i) { return 2000.0 + 20 * ((i * 7919) % 11); };
  EXPECT_TRUE(forecast(log_of(240, noise))["alarms"].empty());
  const Json f = forecast(log_of(240, [&](int i) { return noise(i) * (i > 220 ? 1.1 : 1); }));
  ASSERT_EQ(f["alarms"].size(), 1U);
  EXPECT_THAT(f["alarms"][0].get<std::string>(), HasSubstr("the run drifts"));
}

// From 4 s to 4.8 s in 120 steps: the rest is counted at the end of the line, 4.8 s less half a part of ten steps.
TEST(Forecast, ASteadyDriftMovesTheRest) {
  const Json f = forecast(log_of(121, [](int i) { return 4000 * (1 + 0.2 * i / 121); }));
  ASSERT_EQ(f["alarms"].size(), 1U);
  EXPECT_THAT(f["alarms"][0].get<std::string>(), HasSubstr("the run drifts: +"));
  EXPECT_NEAR(f["step_s"]["p50"], 4.77, 0.03);
}

// The log has 1,000 steps and the scenario 4,000: a quarter of its money.
TEST(Forecast, TheLengthOfTheLogCounts) {
  const std::string scenario = temporary_folder() + "/job.yaml",
                    text =
                        "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt, layers: 24, hidden: 2048, "
                        "heads: 16, sequence: "
                        "1024, vocabulary: 50304}\nbatch: {micro: 4, microbatches: 4}\nparallel: {data: 8}\n";
  write_file(scenario, text + "run: {steps: 4000, price: 2 EUR}\n");
  const Json f = forecast(log_of(101, [](int) { return 500; }), "--scenario " + scenario);
  EXPECT_NEAR(f["cost"], 1000 * 0.5 * 8 * 2 / 3600, 0.001);
  EXPECT_NEAR(f["cost_left"]["p50"], 0.899 * f["cost"].get<double>(), 1e-6);
  ASSERT_EQ(f["notes"].size(), 1U);
}

// The job's own prediction: a log of ten times as long steps is beyond what is expected of it, and one as predicted is not.
// Money: tokens / (tokens of a step) steps at 2 EUR an hour and GPU.
TEST(Forecast, IsComparedWithTheJobsPrediction) {
  const std::string scenario = temporary_folder() + "/job.yaml";
  write_file(
      scenario,
      "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt, layers: 24, hidden: 2048, heads: 16, sequence: "
      "1024, vocabulary: 50304}\nbatch: {micro: 4, microbatches: 4}\nparallel: {data: 8}\ntrainer: megatron-core\n"
      "run: {steps: 1000, price: 2 EUR}\n");
  const Outcome estimate = panpipe("estimate " + scenario + " --json");
  ASSERT_EQ(estimate.exit_code, 0) << estimate.err;
  const double predicted = Json::parse(estimate.out)["metrics"]["step_time_s"];
  const Json same = forecast(log_of(101, [&](int) { return 1000 * predicted; }), "--scenario " + scenario);
  EXPECT_TRUE(same["alarms"].empty()) << same["alarms"];
  const double before = same["predicted_before_s"]["p90"].get<double>() / same["predicted_before_s"]["p10"].get<double>();
  const double after = same["predicted_after_s"]["p90"].get<double>() / same["predicted_after_s"]["p10"].get<double>();
  EXPECT_LT(after, before);
  EXPECT_NEAR(same["cost"], 1000 * predicted * 8 * 2 / 3600, 0.001 * same["cost"].get<double>());
  EXPECT_NEAR(same["cost_left"]["p50"], 0.899 * same["cost"].get<double>(), 1e-6);
  const Json slow = forecast(log_of(101, [&](int) { return 10000 * predicted; }), "--scenario " + scenario);
  ASSERT_EQ(slow["alarms"].size(), 1U);
  EXPECT_THAT(slow["alarms"][0].get<std::string>(), HasSubstr("slower than 99.9 % of such jobs"));
  EXPECT_TRUE(slow["predicted_after_s"].is_null());  // as evidence it would be left out
  EXPECT_THAT(slow["alarms"][0].get<std::string>(), HasSubstr("outside all that was ever measured"));
}

std::string job_of(const std::string& trainer) {
  return write_file(
      temporary_folder() + "/job.yaml",
      "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt, layers: 24, hidden: 2048, heads: 16, "
      "sequence: 1024, vocabulary: 50304}\nbatch: {micro: 4, microbatches: 4}\nparallel: {data: 8}\nrun: {steps: "
      "1000, price: 2 EUR}\ntrainer: " +
          trainer + "\n");
}

// As evidence leaves it out, so it is not compared; the money is that of the same GPUs. Of other sizes it is another's.
TEST(Forecast, ALogOfAnotherJobIsNotCompared) {
  const std::string log = log_of(101, [](int) { return 500; });
  const Json trainer = forecast(log, "--scenario " + job_of("torchtitan"));
  EXPECT_TRUE(trainer["predicted_before_s"].is_null());
  EXPECT_NEAR(trainer["cost"], 1000 * 0.5 * 8 * 2 / 3600, 0.001);
  EXPECT_THAT(trainer["open"][0]["reason"].get<std::string>(), HasSubstr("Megatron-LM wrote it"));
  std::string other = log;
  for (std::size_t at = 0; (at = other.find("| lm loss", at)) != std::string::npos; at += 40)
    other.insert(at, "| global batch size: 7 ");
  const Json batch = forecast(other, "--scenario " + job_of("megatron-core"));
  EXPECT_TRUE(batch["predicted_before_s"].is_null() && batch["cost"].is_null()) << batch;
  EXPECT_EQ(batch["open"][0]["reason"], "it states 7 samples a step, and this scenario has 128");
}

// One step states nothing of how steps scatter: other runs do.
TEST(Forecast, ALogOfOneStepHasAnInterval) {
  const Json f = forecast(log_of(1, [](int) { return 2000; }));
  EXPECT_LT(f["step_s"]["p10"], 1.99);
  EXPECT_NEAR(f["step_s"]["p50"], 2, 1e-9);
  EXPECT_GT(f["step_s"]["p90"], 2.01);
  EXPECT_THAT(f["notes"][0].get<std::string>(), HasSubstr("one step counts"));
}

TEST(Forecast, SaysWhichRunOfTheLogAndThatItIsOver) {
  const std::string log = log_of(60, [](int) { return 2000; });
  const Json f = forecast(log + log);
  EXPECT_THAT(f["notes"][0].get<std::string>(), HasSubstr("the log holds 2 runs, and this is number 2, steps 1 to 60"));
  const std::string file = write_file(temporary_folder() + "/train.log", log);
  EXPECT_THAT(answer_of("forecast " + file + " --steps 40"), HasSubstr("at step 60, past the 40 that the run has by --steps"));
}

// The last line is of 10:00:20, and 980 steps of 2 s are left: 32 min 40 s.
TEST(Forecast, TheLogsStampsDateTheEnd) {
  std::string log;
  for (int i = 1; i <= 20; ++i)
    log += fmt::format(" [2026-03-02 10:00:{:02}] iteration {}/ 1000 | elapsed time per iteration (ms): 2000.0 | lm loss: 2 |\n",
                       i, i);
  const Json f = forecast(log);
  EXPECT_EQ(f["end"], "2026-03-02T10:33:00");
  EXPECT_EQ(f["end_by"], "log");
  EXPECT_EQ(forecast(log_of(20, [](int) { return 2000; }))["end_by"], "now");
}

TEST(Forecast, AsksForTheLengthOfTheRun) {
  const std::string file = temporary_folder() + "/train.log";
  write_file(
      file,
      "{\"a\": 1}\niteration 1 | elapsed time per iteration (ms): 5.0 |\niteration 2 | elapsed time per iteration (ms): 5.0 |\n");
  const Outcome run = panpipe("forecast " + file);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("how many steps the run will have is not known"));
  EXPECT_THAT(run.err, HasSubstr("--steps N"));
  EXPECT_EQ(panpipe("forecast " + file + " --steps 10").exit_code, 0);
}

}  // namespace
}  // namespace panpipe::test
