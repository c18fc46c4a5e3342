// Training over NCCL on the stand-in GPU equals training on the CPU in one process, for any delays of the streams.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>

#include "schedule/find_family.hpp"
#include "schedule/rolling.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

constexpr const char* kSteps = "--steps 2 ";
constexpr int kLayers = 4, kMicrobatches = 6;  // stp wants 3 P - 1 microbatches over P ranks

// One process of tests for several families: most of a run's time is the start of its ranks.
class EveryFamily : public testing::TestWithParam<int> {
 public:
  static constexpr int kGroups = 4;
};

TEST_P(EveryFamily, EqualsTheCpu) {
  const Trained cpu = train_on_cpu(scenario_file(small_gpt({1}, "", kLayers, kMicrobatches)), kSteps);
  int index = 0;
  for (const ScheduleFamily& family : schedule_families()) {
    if (index++ % kGroups != GetParam()) continue;
    if (is_stale_family(family.name)) continue;  // trains something else
    SCOPED_TRACE(family.name);
    const bool exchanges = has_option(family.name, "exchange");  // on CPUs alone
    const bool from_host = family.name == "weipipe";
    const std::string more = fmt::format("schedule: {{name: {}{}}}\n{}", family.name, exchanges ? ", exchange: off" : "",
                                         from_host ? "offload: {optimizer: cpu, parameters: cpu}\n" : "");
    expect_same_training(train_on_stand_in(scenario_file(small_gpt({2}, more, kLayers, kMicrobatches)), kSteps), cpu);
  }
}
INSTANTIATE_TEST_SUITE_P(Of, EveryFamily, testing::Range(0, EveryFamily::kGroups));

// Runs of more than a pipeline of two, and the schedules and options that go with it. The CPU's run has the same mesh: replicas
// divide the samples.
struct Case {
  const char* name;
  Ranks ranks;
  std::string more, options;
  double relative = kFp32;
};

void PrintTo(const Case& one, std::ostream* stream) { *stream << one.name; }

class Mesh : public testing::TestWithParam<Case> {};

TEST_P(Mesh, EqualsTheCpu) {
  const Case& one = GetParam();
  const std::string scenario = scenario_file(small_gpt(one.ranks, one.more, kLayers, kMicrobatches));
  const std::string options = kSteps + one.options;
  expect_same_training(train_on_stand_in(scenario, options), train_on_cpu(scenario, options), one.relative);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Mesh,
    testing::Values(
        Case{"FourStagesThatSendBothWays", {4}, "schedule: dualpipe\n", "--set batch.microbatches=8"},
        Case{"TwoReplicas", {1, 2}, "", ""}, Case{"FourReplicas", {1, 4}, "", ""}, Case{"TwoTensorRanks", {1, 1, 2}, "", ""},
        Case{"ReplicasOfTensorRanks", {1, 2, 2}, "", ""},
        Case{"ZeroOneWithClipping", {2, 2}, "training: {clip_gradients: 0.1}\n", "--set parallel.zero=1"},
        Case{"ZeroTwo", {2, 2}, "training: {clip_gradients: 0.1}\n", "--set parallel.zero=2"},
        Case{"ZeroThree", {2, 2}, "training: {clip_gradients: 0.1}\n", "--set parallel.zero=3"},
        Case{"ZeroThreeInShardGroups", {1, 4}, "recompute: full\n", "--set parallel.zero=3 --set parallel.shard=2"},
        Case{"SequenceParallel", {2, 1, 2}, "", "--set parallel.sequence_parallel=true"},
        Case{"WovenStp", {2, 1, 2}, "schedule: stp\n", ""}, Case{"RecomputeFull", {2}, "recompute: full\n", ""},
        Case{"RecomputeSelective", {2}, "recompute: selective\n", ""},
        Case{"Offload", {2}, "schedule: {name: 1f1b, offload: full}\n", ""},
        Case{"WeightsOnTheHost",
             {2},
             "schedule: {name: roundpipe, forward_slots: 1, backward_slots: 3}\noffload: {optimizer: cpu, parameters: cpu}\n",
             ""},
        Case{"SlicedSequences", {2}, "schedule: {name: seq-1f1b, sequence_splits: 4}\n", ""},
        Case{"Bf16", {2}, "precision: bf16\n", "", kBf16}, Case{"Fp16", {2}, "precision: fp16\n", "", kFp16}),
    [](const auto& one) { return one.param.name; });

// Threads that share a GPU share autograd's thread too: a rank's hook must not wait for a reduction that another rank's backward
// takes part in. Two buckets of 25 MiB: four layers of 12 x 512^2 fp32 values are 48 MiB.
TEST(SharedGpu, DividedGradientsOfThreadsEqualTheCpu) {
  std::string text = small_gpt({1, 2}, "", kLayers, 2);
  text.replace(text.find("hidden: 16"), 10, "hidden: 512");
  const std::string scenario = scenario_file(text), options = kSteps + std::string("--set parallel.zero=2");
  expect_same_training(train_on_stand_in(scenario, options + " --transport local --deadline 20", {{"STAND_IN_GPUS", "1"}}),
                       train_on_cpu(scenario, options), 1e-4);
}

}  // namespace
}  // namespace panpipe::test
