// Host offload as a choice of the search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "planner/candidate.hpp"
#include "planner/planner.hpp"
#include "tests/fault.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// 6.7e9 parameters take 16 to 20 bytes each with Adam: 27 to 34 GB on each of four cards of 24 GiB.
Scenario four_4090(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: {file: clusters/rtx4090x8.yaml, devices_per_node: 4, wiring: {sockets: {groups: [[0, 1], [2, 3]]}}}\n"
      "workload: {model: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 32, ffn: 11008, vocabulary: 32000, sequence: "
      "1024}\n"
      "batch: {micro: 1, microbatches: 8}\nprecision: bf16\nframework: eager\nschedule: 1f1b\n"
      "parallel: {tensor: 1, virtual_stages: 1}\nrecompute: full\n" +
          more,
      "four-4090.yaml", ".", overrides);
}

constexpr const char* kOpen = "offload: {optimizer: auto, parameters: auto}\n";
Scenario open_4090(const std::vector<std::string>& overrides) { return four_4090(kOpen, overrides); }

Answer answer_of(const Scenario& scenario, int threads = 1) {
  SearchOptions options;
  options.threads = threads;
  return search(Experiment(scenario), options);
}

TEST(OffloadSearch, FindsThePlanThatFitsOnlyWithOffload) {
  EXPECT_THAT(answer_of(four_4090("")).candidates, IsEmpty());
  const Answer answer = answer_of(four_4090(kOpen));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  EXPECT_THAT(answer.candidates.front().summary, HasSubstr("in the host's memory"));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("without offload: ")));
  for (const Candidate& candidate : answer.candidates) {
    EXPECT_THAT(candidate.settings, Contains(Pair("offload.optimizer", "cpu")));
    testing::expect_again(candidate, open_4090);
  }
}

TEST(OffloadSearch, TheThreadsDoNotChangeTheAnswer) {
  EXPECT_EQ(to_json(answer_of(four_4090(kOpen))), to_json(answer_of(four_4090(kOpen), 3)));
}

// With room the devices keep all: the copies and the host's Adam only take time.
TEST(OffloadSearch, NothingLeavesDevicesWithRoom) {
  const std::vector<std::string> small = {"workload.layers=2"};
  const Answer open = answer_of(four_4090(kOpen, small)), none = answer_of(four_4090("", small));
  ASSERT_FALSE(open.candidates.empty());
  EXPECT_THAT(open.candidates.front().settings, Contains(Pair("offload.optimizer", "none")));
  EXPECT_THAT(open.candidates.front().settings, Contains(Pair("offload.parameters", "none")));
  EXPECT_EQ(open.candidates.front().summary, none.candidates.front().summary);
  EXPECT_EQ(open.candidates.front().metrics, none.candidates.front().metrics);
}

// The devices need 20.9 GiB, and 18.6 GiB where activations are parked: 80 % of 24 GiB are 19.2 GiB.
TEST(OffloadSearch, ActivationsMayLeave) {
  const std::vector<std::string> wide = {
      "parallel={pipeline: 4, tensor: 1, data: 1}", "workload.layers=8", "recompute=none",
      "batch={micro: 2, microbatches: 16}",         "usable=80 %",       "partition=[5, 9, 13]"};
  ASSERT_THAT(answer_of(four_4090("", wide)).candidates, IsEmpty());
  const Answer answer = answer_of(four_4090("offload: {activations: auto}\n", wide));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  const Candidate& best = answer.candidates.front();
  EXPECT_THAT(best.settings,
              Contains(::testing::AnyOf(Pair("offload.activations", "full"), Pair("offload.activations", "selective"))));
  testing::expect_again(
      best, [](const auto& set) { return four_4090("", set); }, wide);
}

// Copies that others slow down leave later: a plan that fits on idle links alone is no answer.
TEST(OffloadSearch, ActivationsThatLeaveTooLateDoNotFit) {
  SearchOptions options;
  options.simulate = [](const TaskGraph& graph, const Cluster&) {
    Timeline late = estimate(graph);
    for (DeviceTimeline& device : late.devices) device.peak = device.limit * 2;
    return late;
  };
  const std::vector<std::string> wide = {
      "parallel={pipeline: 4, tensor: 1, data: 1}", "workload.layers=8", "recompute=none",
      "batch={micro: 2, microbatches: 16}",         "usable=80 %",       "partition=[5, 9, 13]"};
  const Answer answer = search(Experiment(four_4090("offload: {activations: auto}\n", wide)), options);
  EXPECT_THAT(answer.candidates, IsEmpty());
  EXPECT_THAT(answer.reason, HasSubstr("activations in the host's memory (full): none of "));
}

// Of a node whose cards are small; the answer can be written down and estimated again.
TEST(OffloadSearch, WeightsMayComeForATurn) {
  const std::vector<std::string> open = {"schedule=auto", "recompute=auto", "batch={micro: auto, microbatches: 32}"};
  const Answer answer = answer_of(four_4090(kOpen, open));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  EXPECT_THAT(answer.notes, Contains(HasSubstr("which come for the turn of a stage: the best is pipeline 4")));
  int streamed = 0;
  for (const Candidate& candidate : answer.candidates) {
    if (candidate.schedule != "roundpipe") continue;
    ++streamed;
    testing::expect_again(candidate, open_4090, open);
  }
  EXPECT_GT(streamed, 0);
}

// 6.7e9 parameters on one card of 24 GiB: no other plan fits.
TEST(OffloadSearch, OneCardTrainsWhatItsHostHolds) {
  const std::vector<std::string> one = {"schedule=auto", "recompute=auto", "batch={micro: auto, microbatches: 8}",
                                        "cluster={device: devices/rtx-4090.yaml, nodes: 1, devices_per_node: 1}"};
  const Answer answer = answer_of(four_4090(kOpen, one));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  for (const Candidate& candidate : answer.candidates) {
    EXPECT_EQ(candidate.schedule, "roundpipe");
    EXPECT_LT(*figure_named(candidate.metrics, "memory_share"), 1) << candidate.summary;
  }
}

// nanotron keeps no state in the host's memory, and torchtitan none but all of it.
TEST(OffloadSearch, TrainersAreAsked) {
  const Answer nanotron = answer_of(four_4090(kOpen + std::string("trainer: nanotron\n"), {"recompute=auto"}));
  EXPECT_THAT(nanotron.candidates, IsEmpty());
  const Answer torchtitan = answer_of(four_4090(kOpen + std::string("trainer: torchtitan\n"), {"recompute=auto"}));
  ASSERT_FALSE(torchtitan.candidates.empty()) << torchtitan.reason;
  for (const Candidate& candidate : torchtitan.candidates) {
    EXPECT_THAT(candidate.settings, Contains(Pair("offload.optimizer", "cpu")));
    EXPECT_THAT(candidate.settings, Contains(Pair("offload.parameters", "cpu")));
    EXPECT_THAT(candidate.settings, Contains(Pair("parallel.zero", "3")));
  }
}

// 6.74e9 parameters with masters and moments of 12 bytes and gradients of 4 or 2 take 94 to 108 GB of the one host.
TEST(OffloadSearch, TheHostHasALimit) {
  const Answer enough = answer_of(four_4090(kOpen, {"cluster.host_memory=128 GiB"}));
  EXPECT_FALSE(enough.candidates.empty()) << enough.reason;
  const Answer little = answer_of(four_4090(kOpen, {"cluster.host_memory=64 GiB"}));
  EXPECT_THAT(little.candidates, IsEmpty());
  EXPECT_THAT(little.reason, HasSubstr("more than the 64.00 GiB that the cluster states"));
  const std::vector<std::string> stated = {"cluster.host_memory=64 GiB", "offload={optimizer: cpu}",
                                           "parallel={pipeline: 4, data: 1, tensor: 1}"};
  EXPECT_THAT(test::fault_of<NoAnswer>([&] { Experiment(four_4090("", stated)).plan(""); }),
              HasSubstr("optimizer in the host's memory: node 0 needs "));
}

TEST(OffloadSearch, OtherMethodsRefuseIt) {
  SearchOptions options;
  options.method = Method::Pfeife;
  const Experiment experiment(four_4090(kOpen));
  EXPECT_THAT(test::fault_of([&] { search(experiment, options); }), HasSubstr("the method pfeife does not search offload"));
}

}  // namespace
}  // namespace panpipe::planner
