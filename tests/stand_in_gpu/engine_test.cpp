// A rank and its GPU: when the host waits for it, how much memory it takes, how many kernels it launches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

// Calls that stop the host, or kernels, of a rank's steps without the start and end of its process.
constexpr int kShort = 2, kLong = 6;
std::map<int, double> per_step(const std::string& scenario, const char* what, const std::string& options = "") {
  std::map<int, double> counts;
  for (const int steps : {kShort, kLong}) {
    const Trained run = train_on_stand_in(scenario, fmt::format("--steps {} {}", steps, options));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    for (const auto& [rank, calls] : run.counts)
      if (rank >= 0) counts[rank] += (steps == kLong ? 1.0 : -1.0) * calls.value(what, 0) / (kLong - kShort);
  }
  return counts;
}

// Data go to the device without the host's waiting, and losses are read when the step is over: the first rank and the last wait
// as often as one between them, for any number of microbatches. All wait for: the step's beginning and end, and the norm of the
// gradients for --metrics.
TEST(HostWaits, AreTheSameOnEveryRankAndForAnyNumberOfMicrobatches) {
  const auto few = per_step(scenario_file(small_gpt({3}, "", 3, 4)), "host_waits");
  const auto many = per_step(scenario_file(small_gpt({3}, "", 3, 12)), "host_waits");
  ASSERT_EQ(few.size(), 3u);
  for (const auto& [rank, waits] : few) {
    EXPECT_EQ(waits, few.at(1)) << "rank " << rank;
    EXPECT_EQ(many.at(rank), waits) << "rank " << rank;
    EXPECT_GT(waits, 0) << "nothing was counted";
  }
}

// Summing 2-byte gradients into fp32 takes two launches an action, where autograd's own sums of fp32 gradients take one per
// parameter: mixed precision launches no more kernels, though it also casts its masters.
TEST(Launches, OfMixedPrecisionAreNoMoreThanOfFp32) {
  const auto single = per_step(scenario_file(small_gpt({2}, "optimizer: adam\n", 4, 8)), "kernels");
  const auto mixed = per_step(scenario_file(small_gpt({2}, "optimizer: adam\nprecision: bf16\n", 4, 8)), "kernels");
  ASSERT_EQ(mixed.size(), 2u);
  for (const auto& [rank, kernels] : mixed) {
    EXPECT_LE(kernels, single.at(rank)) << "rank " << rank;
    EXPECT_GT(kernels, 0) << "nothing was counted";
  }
}

// LibTorch starts autograd's threads at the first backward: the engine that parks must be there by then, also where the order
// offloads nothing before it.
TEST(Offload, MayComeAfterTheFirstBackward) {
  const std::string order = temporary_folder() + "/late.csv";
  write_file(order, "0F0,0F1,0B0,0F2,0OFFLOAD2,0B1,0F3,0RELOAD2,0B2,0B3\n1F0,1B0,1F1,1OFFLOAD1,1RELOAD1,1B1,1F2,1B2,1F3,1B3\n");
  const std::string scenario = scenario_file(small_gpt({2}, "schedule: {csv: " + order + "}\n"));
  expect_same_training(train_on_stand_in(scenario, "--steps 3"), train_on_cpu(scenario, "--steps 3"));
}

// Four shards of a model whose parameters, gradients and moments fill most of 100 MiB each. Whole tensors are put together on the
// host, so the checkpoint needs none of the device's memory; and it can be resumed from.
TEST(Checkpoint, OfTensorParallelRanksFitsWhereTrainingFits) {
  const std::string scenario = scenario_file(
      "panpipe: 1\n"
      "cluster: {devices: 4, memory: 4 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}\n"
      "workload: {model: gpt, layers: 2, hidden: 768, heads: 8, sequence: 8, vocabulary: 512, tied_embedding: false}\n"
      "batch: {micro: 1, microbatches: 1}\n"
      "parallel: {pipeline: 1, data: 1, tensor: 4}\n"
      "optimizer: adam\n");
  const Settings small = {{"STAND_IN_MEMORY_MIB", "100"}};
  const Trained trained = train_on_stand_in(scenario, "--steps 2", small);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::string folder = temporary_folder();
  const Trained saved = train_on_stand_in(scenario, "--steps 2 --checkpoint " + folder, small);
  expect_same_training(saved, trained);
  const Trained resumed = train_on_stand_in(scenario, "--steps 3 --resume " + folder + "/step-000002", small);
  const Trained whole = train_on_stand_in(scenario, "--steps 3", small);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(resumed.metrics.back().at("loss"), whole.metrics.back().at("loss"));
}

}  // namespace
}  // namespace panpipe::test
