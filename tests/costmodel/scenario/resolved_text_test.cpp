// The text of a resolved scenario: origins of values, and that it loads again.
#include "costmodel/scenario/scenario.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/costmodel/scenario/small_scenario.hpp"

namespace panpipe {
namespace {

using Values = std::map<std::string, std::string>;
Values values_of(const Scenario& scenario) {
  Values values;
  for (const ResolvedValue& value : scenario.resolved) values[value.path] = value.value;
  return values;
}

// Loads what resolved_text prints, from another folder, and compares every value.
void expect_round_trip(const Scenario& scenario) {
  const std::string text = resolved_text(scenario);
  SCOPED_TRACE(text);
  const Scenario again = parse_scenario(text, "again.yaml", "/nowhere");
  Values before = values_of(scenario), after = values_of(again);
  // A reference to a file comes back as the path it was found under.
  for (const char* path :
       {"cluster", "cluster.file", "workload.layers", "workload.config", "schedule.csv", "schedule", "optimizer", "framework"})
    before.erase(path), after.erase(path);
  for (const auto& [path, value] : before) {
    ASSERT_TRUE(after.count(path)) << path << " is lost";
    EXPECT_EQ(after[path], value) << path;
  }
  EXPECT_EQ(again.cluster.size(), scenario.cluster.size());
  EXPECT_EQ(again.cluster.name, scenario.cluster.name);
  EXPECT_EQ(again.schedule.name, scenario.schedule.name);
  EXPECT_EQ(again.schedule.options, scenario.schedule.options);
  EXPECT_EQ(again.degrees.pipeline, scenario.degrees.pipeline);
  EXPECT_EQ(again.placement, scenario.placement);
  EXPECT_EQ(again.partition, scenario.partition);
  EXPECT_EQ(again.optimizer.name, scenario.optimizer.name);
  EXPECT_EQ(again.framework.name, scenario.framework.name);
  EXPECT_EQ(again.usable, scenario.usable);
  EXPECT_EQ(resolved_text(again).empty(), false);
}

TEST(ResolvedText, ShowsTheOriginOfEachValue) {
  const std::string text = resolved_text(parse("precision: bf16\n", {"batch.micro=4"}));
  for (const char* line : {"precision: bf16 +# folder/small.yaml:5\n", "  micro: 4 +# --set\n", "  tensor: 1 +# default\n",
                           "  pipeline: 8 +# derived: 8 devices / \\(tensor 1 x data 1\\)\n"})
    EXPECT_THAT(text, testing::ContainsRegex(line));
}

TEST(ResolvedText, LoadsAgainInPlace) {
  expect_round_trip(parse("parallel: {data: 2}\n", {"batch.global=32"}));
  expect_round_trip(parse());
  expect_round_trip(parse("partition: [block.3, \"a: b # c\"]\nplacement: [7, 6, 5, 4, 3, 2, 1, 0]\nusable: 50 %\n"));
  expect_round_trip(parse("schedule: {name: pfeife, loop_batch: 4}\nparallel: {data: 2}\n", {"optimizer.name=sgd"}));
  expect_round_trip(parse("schedule: interleaved-1f1b\n", {"cluster.link={table: [[0 B, 20 us], [64 MiB, 3195 us]]}"}));
}

// A run's absent keys are written with the origin of their defaults, and come back.
TEST(ResolvedText, ARunComesBackWithItsDefaults) {
  const Scenario scenario = parse_scenario(
      "panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {model: gpt2-large}\nbatch: {micro: 1, microbatches: 8}\n"
      "parallel: {pipeline: 8}\n"
      "run: {tokens: 300B, price: lambda, checkpoint: {bandwidth: 1 GB/s}, failures: {}, power: {}}\n",
      "a.yaml", "");
  ASSERT_TRUE(scenario.run && scenario.run->failures && scenario.run->power);
  EXPECT_EQ(scenario.run->amount, 3e11);
  EXPECT_EQ(scenario.run->failures->mtbf, Duration(50677 * 3600.0));
  EXPECT_EQ(scenario.run->failures->restart, Duration(600));
  EXPECT_EQ(scenario.run->power->gpu, std::vector<Power>{watts(700)});
  EXPECT_EQ(scenario.run->power->pue, 1.1);
  EXPECT_EQ(scenario.run->currency, "USD");
  EXPECT_EQ(origin_of(scenario, "run.failures.mtbf"),
            "default: Llama 3, 419 unexpected interruptions in 54 days on 16,384 H100 (arXiv 2407.21783)");
  expect_round_trip(scenario);
}

TEST(ResolvedText, EveryExampleLoadsAndLoadsAgain) {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data_directory() + "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    SCOPED_TRACE(entry.path().string());
    expect_round_trip(load_scenario(entry.path()));
    ++examples;
  }
  EXPECT_GE(examples, 3);
}

}  // namespace
}  // namespace panpipe
