// The graph in which one replica stands for those that are equal, against the graph of all of them.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/idle_lowering.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/step_time.hpp"

namespace panpipe {
namespace {

// 16 devices: two nodes of one type, one of another, and one of the first type with other wiring.
const char* const kNodes = R"(panpipe: 1
cluster:
  groups:
  - {device: devices/a100-80g-sxm.yaml, nodes: 2, devices_per_node: 4, wiring: {switch: {bandwidth: 300 GB/s, latency: 2 us}}}
  - {device: devices/rtx-3090.yaml, nodes: 1, devices_per_node: 4, wiring: {pcie: {bandwidth: 25 GB/s}, host: {copy: 11.2 GB/s, both_ways: 16.6 GB/s, memory: 204.8 GB/s, latency: 15.2 us}}}
  - {device: devices/a100-80g-sxm.yaml, nodes: 1, devices_per_node: 4, wiring: {switch: {bandwidth: 30 GB/s, latency: 20 us}}}
  network: {nics_per_node: 1, bandwidth: 12.5 GB/s, latency: 5 us}
framework: eager
)";
const std::string kDense =
    "workload: {model: gpt, layers: 4, hidden: 512, heads: 8, vocabulary: 1024, sequence: 256}\nprecision: fp16\n";
const std::string kExperts = "workload: {config: workloads/qwen3-30b-a3b.json, sequence: 256}\nprecision: bf16\n";

struct Outcome {
  int ranks = 0;
  double step = 0;                                        // ticks
  std::set<std::pair<std::int64_t, std::int64_t>> peaks;  // and limits
};

Outcome outcome_of(const TaskGraph& graph) {
  const TaskTimes times = estimate_times(graph);
  Outcome outcome{graph.ranks, step_end(times).base(), {}};
  for (const DeviceTimeline& device : memory_of_ranks(graph, times))
    outcome.peaks.insert({device.peak.base(), device.limit.base()});
  return outcome;
}

struct Pair {
  Outcome all, one_of_equal;
};

Pair both(const std::string& yaml) {
  const Experiment experiment(parse_scenario(yaml, "test", "."));
  const Plan plan = experiment.plan("");
  const ModelCosts costs(experiment.model, plan);
  return {outcome_of(lower(experiment.scenario, plan, costs)),
          outcome_of(lower_for_idle_links(experiment.scenario, plan, costs))};
}

void expect_same(const Pair& pair, const std::string& yaml) {
  EXPECT_EQ(pair.all.step, pair.one_of_equal.step) << yaml;
  EXPECT_EQ(pair.all.peaks, pair.one_of_equal.peaks) << yaml;
  EXPECT_LE(pair.one_of_equal.ranks, pair.all.ranks);
}

std::string shuffled_placement(unsigned seed) {
  std::vector<int> devices(16);
  std::iota(devices.begin(), devices.end(), 0);
  std::mt19937 random(seed);
  // By hand: what std::shuffle draws differs between standard libraries.
  for (std::size_t i = devices.size() - 1; i > 0 && seed > 0; --i) std::swap(devices[i], devices[random() % (i + 1)]);
  return fmt::format("placement: [{}]\n", fmt::join(devices, ", "));
}

// Groups of two or four replicas hold different mixes of unlike replicas, so that like replicas wait for different ones.
TEST(EqualReplicas, HaveTheTimesOfAllInEveryKindOfGroup) {
  int smaller = 0;
  for (unsigned seed = 0; seed < 6; ++seed)
    for (const char* parallel :
         {"{pipeline: 1, data: 16}", "{pipeline: 2, data: 8, zero: 1}", "{pipeline: 1, data: 16, zero: 2, shard: 4}",
          "{pipeline: 2, data: 8, zero: 3, shard: 2}", "{pipeline: 1, tensor: 2, data: 8, zero: 3, shard: 4}"}) {
      const std::string yaml = kNodes + kDense + "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\nparallel: " + parallel +
                               "\n" + shuffled_placement(seed);
      const Pair pair = both(yaml);
      expect_same(pair, yaml);
      smaller += pair.one_of_equal.ranks < pair.all.ranks ? 1 : 0;
    }
  EXPECT_GT(smaller, 6);
}

TEST(EqualReplicas, HaveTheTimesOfAllAmongExperts) {
  for (const char* parallel : {"{pipeline: 1, data: 16, expert: 4, zero: 1}", "{pipeline: 2, data: 8, expert: 2, zero: 2}",
                               "{pipeline: 2, data: 8, expert: 8}"})
    for (const unsigned seed : {0U, 1U, 2U}) {
      const std::string yaml = kNodes + kExperts + "batch: {micro: 1, microbatches: 2}\nschedule: 1f1b\nparallel: " + parallel +
                               "\n" + shuffled_placement(seed);
      expect_same(both(yaml), yaml);
    }
}

// Whole nodes of four, replicas of one device: as many ranks as kinds of node (two of A100 are one kind), where all sum together.
TEST(EqualReplicas, AreAsManyAsTheyDiffer) {
  const Pair pair = both(kNodes + kDense + "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\nparallel: {data: 16}\n");
  EXPECT_EQ(pair.all.ranks, 16);
  EXPECT_LE(pair.one_of_equal.ranks, 3);
  EXPECT_GE(pair.one_of_equal.ranks, 2);
}

}  // namespace
}  // namespace panpipe
