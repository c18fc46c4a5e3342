// ZeRO in groups smaller than all replicas, as a choice of the search.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "planner/candidate.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// 128 replicas on 16 nodes: rings over all of them take a step of latency for each rank.
Scenario sixteen_nodes(const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: {file: clusters/h100x8.yaml, nodes: 16}\n"
      "workload: {model: gpt, layers: 8, hidden: 2048, heads: 16, vocabulary: 32000, sequence: 1024}\n"
      "batch: {micro: 1, microbatches: 1}\n"
      "precision: bf16\nframework: torchtitan\nschedule: 1f1b\nrecompute: none\n"
      "parallel: {pipeline: 1, tensor: 1, data: 128, zero: 2, virtual_stages: 1}\n",
      "sixteen-nodes.yaml", ".", overrides);
}

Answer answer_of(const std::vector<std::string>& overrides = {}) {
  return search(Experiment(sixteen_nodes(overrides)), SearchOptions{});
}

double step_with(int shard) {
  const Experiment experiment(sixteen_nodes({fmt::format("parallel.shard={}", shard)}));
  return metrics(estimate(answered(experiment.scenario, experiment.plan(""), experiment.model))).step_time_s;
}

// Groups are whole nodes: of 8 to 128 replicas.
TEST(ShardGroups, TheBestOfWholeNodesIsFound) {
  const Answer answer = answer_of();
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  const Candidate& best = answer.candidates.front();
  double least = step_with(8);
  for (const int shard : {16, 32, 64, 128}) least = std::min(least, step_with(shard));
  EXPECT_LT(least, 0.99 * step_with(128));
  EXPECT_EQ(*figure_named(best.metrics, "step_time_s"), least);
  EXPECT_EQ(step_with(best.plan->shard), least);
  EXPECT_THAT(best.summary, HasSubstr(fmt::format("ZeRO 2 in groups of {}", best.plan->shard)));
  EXPECT_THAT(best.settings, Contains(Pair("parallel.shard", std::to_string(best.plan->shard))));
}

TEST(ShardGroups, AreTriedWhereTheScenarioAndTheTrainerLeaveThem) {
  const auto group = [](const std::vector<std::string>& overrides) {
    return answer_of(overrides).candidates.front().plan->shard;
  };
  EXPECT_GT(group({"parallel.shard=auto"}), 0);
  EXPECT_EQ(group({"parallel.shard=64"}), 64);
  EXPECT_GT(group({"trainer=torchtitan"}), 0);
  EXPECT_EQ(group({"trainer=llm-foundry"}), 0);
  EXPECT_EQ(group({"parallel.zero=0"}), 0);
  EXPECT_EQ(group({"cluster.nodes=1", "parallel.data=8"}), 0);
}

}  // namespace
}  // namespace panpipe::planner
