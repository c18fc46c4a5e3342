// What a host has for ranks: GPUs, drivers, memory, cores, and what is reported before they start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "exec/launch/fits_host.hpp"
#include "exec/launch/host.hpp"
#include "exec/launch/visible_gpus.hpp"
#include "tests/exec/variables.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/texts.hpp"

namespace panpipe::exec {
namespace {

using testing::HasSubstr;

// Like the root of a file system.
using Root = test::TemporaryFolder;

int gpus_of(const Root& root, const Variables& variables = {}) { return visible_gpus(value_in(variables), root.path().string()); }

TEST(Gpus, AreTheDeviceNodesThatCudaVisibleDevicesDoesNotHide) {
  const Root root;
  EXPECT_EQ(gpus_of(root), 0);
  for (const char* node : {"dev/nvidia0", "dev/nvidia1", "dev/nvidia10", "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia"})
    root.write(node, "");
  EXPECT_EQ(gpus_of(root), 3);
  EXPECT_EQ(gpus_of(root, {{"CUDA_VISIBLE_DEVICES", "1,0"}}), 2);
  EXPECT_EQ(gpus_of(root, {{"CUDA_VISIBLE_DEVICES", "GPU-8a1"}}), 1);
  EXPECT_EQ(gpus_of(root, {{"CUDA_VISIBLE_DEVICES", ""}}), 0);
  EXPECT_EQ(gpus_of(root, {{"CUDA_VISIBLE_DEVICES", "-1"}}), 0);
}

// The library there is one that knows two devices (wsl_driver.cpp).
TEST(Gpus, UnderWsl2AreCountedByTheDriversLibrary) {
  const Root root;
  std::filesystem::create_directories(root.path() / "usr/lib/wsl/lib");
  std::filesystem::copy_file(PANPIPE_WSL_DRIVER, root.path() / "usr/lib/wsl/lib/libcuda.so.1");
  EXPECT_EQ(gpus_of(root), 0) << "without the node it is not WSL2";
  root.write("dev/dxg", "");
  EXPECT_EQ(gpus_of(root), 2);
}

TEST(Gpus, EachRankHasItsOwnWhereThereAreEnoughOrALauncherShowsOneEach) {
  const Variables one{{"CUDA_VISIBLE_DEVICES", "0"}}, two{{"CUDA_VISIBLE_DEVICES", "0,1"}};
  const auto enough = [](int visible, int ranks, const char* launcher, const Variables& variables) {
    std::optional<World> world;
    if (*launcher) world.emplace().launcher = launcher;
    return gpu_for_each_rank(visible, ranks, world, value_in(variables));
  };
  EXPECT_TRUE(enough(8, 8, "", {}));
  EXPECT_FALSE(enough(7, 8, "", {}));
  EXPECT_TRUE(enough(1, 8, "srun", one));
  EXPECT_TRUE(enough(1, 8, "mpirun", one));
  EXPECT_FALSE(enough(1, 8, "srun", {})) << "all tasks see the one GPU of the host";
  EXPECT_FALSE(enough(2, 8, "srun", two));
  EXPECT_FALSE(enough(1, 8, "torchrun", one)) << "its processes share one environment";
  EXPECT_FALSE(enough(1, 8, "", one)) << "so do those of panpipe run";
}

TEST(Gpus, ADriverServesTheReleasesOfItsMajorNumberAndEarlierOnes) {
  const DriverFit fit = driver_fit("535.129.03", "12.2", "13.0");
  EXPECT_EQ(fit.problem, "the NVIDIA driver 535.129.03 supports CUDA up to 12.2, and this torch package is built with CUDA 13.0");
  EXPECT_EQ(
      fit.remedy,
      "install a driver of at least 580, or a torch package that is built with CUDA 12: PANPIPE_TORCH_INDEX=URL tools/setup with "
      "an index of such packages, then make build (docs/installing.md)");
  EXPECT_EQ(driver_fit("535.129.03", "12.2", "12.6").problem, "") << "minor releases serve one another";
  EXPECT_EQ(driver_fit("580.65.06", "13.0", "12.6").problem, "");
  EXPECT_EQ(driver_fit("", "", "13.0").problem, "") << "not known";
  EXPECT_EQ(cuda_of_torch("2.11.0+cu130"), "13.0");
  EXPECT_EQ(cuda_of_torch("2.11.0+cu126"), "12.6");
  EXPECT_EQ(cuda_of_torch("2.11.0+cpu"), "");
  EXPECT_EQ(cuda_of_torch("2.11.0"), "");
  EXPECT_EQ(cuda_release(12040), "12.4");
  EXPECT_EQ(cuda_release(0), "");
}

TEST(Gpus, TheDriversVersionIsTheKernelModules) {
  const Root root;
  EXPECT_EQ(driver_version(root.path().string()), "");
  root.write("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
             "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
  EXPECT_EQ(driver_version(root.path().string()), "535.129.03");
}

TEST(Gpus, SharedMemoryThatIsTooSmallForNcclIsReported) {
  EXPECT_EQ(
      small_shared_memory(std::int64_t{64} << 20),
      "/dev/shm holds 64 MiB: ranks of one host may need up to 1 GiB there, because NCCL goes through it where GPUs have no "
      "direct connection. Start the container with --shm-size=1g");
  EXPECT_EQ(small_shared_memory(std::int64_t{1} << 30), "");
  EXPECT_EQ(small_shared_memory(0), "") << "not known";
}

// A folder like /sys/fs/cgroup.
class Groups : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const { folder_.write(file, text); }
  const test::TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path();
};

TEST_F(Groups, TheTightestOfAGroupAndThoseAboveItCounts) {
  write("jobs/memory.max", "3000000000\n");
  write("jobs/cpu.max", "max 100000\n");
  write("jobs/mine/memory.max", "max\n");
  write("jobs/mine/cpu.max", "150000 100000\n");
  write("jobs/other/memory.max", "1000\n");
  const GroupLimits limits = group_limits("0::/jobs/mine\n", root_);
  EXPECT_EQ(limits.memory, 3000000000);
  EXPECT_EQ(limits.cores, 1.5);
  EXPECT_EQ(group_limits("0::/jobs\n", root_).cores, std::nullopt);
}

TEST_F(Groups, InsideAContainerTheMountIsTheGroup) {
  write("memory.max", "2147483648\n");
  EXPECT_EQ(group_limits("0::/system.slice/docker-77.scope\n", root_).memory, 2147483648);
  EXPECT_EQ(group_limits("0::/\n", root_).memory, 2147483648);
  EXPECT_EQ(group_limits("", root_).memory, std::nullopt);
}

TEST_F(Groups, VersionOneHasAFolderForEachController) {
  write("memory/job/memory.limit_in_bytes", "4096000\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");  // what it writes for no limit
  write("cpu/job/cpu.cfs_quota_us", "400000\n");
  write("cpu/job/cpu.cfs_period_us", "100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  const std::string membership = "11:cpuset:/job\n4:cpu,cpuacct:/job\n2:memory:/job\n";
  EXPECT_EQ(group_limits(membership, root_).memory, 4096000);
  EXPECT_EQ(group_limits(membership, root_).cores, 4.0);
  EXPECT_EQ(group_limits("2:memory:/\n", root_).memory, std::nullopt);
}

TEST(Host, AProcessMayUseFewerCoresThanThereAre) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(host_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

HostUse eight_ranks() {
  HostUse use;
  use.scenario = "gpt2.yaml";
  use.purpose = "run";
  use.ranks = 8;
  use.need.assign(8, std::int64_t{1} << 30);
  use.need[3] = std::int64_t{3} << 30;
  use.for_gpus = true;
  use.cores = 2;
  use.memory = std::int64_t{23} << 30;
  return use;
}

std::string cannot(const HostUse& use) {
  try {
    return "accepted: " + reported_before_start(use, false);
  } catch (const MachineError& error) {
    return error.what();
  }
}

// 8 + 2 GiB of the model and eight processes of 100 MiB.
TEST(BeforeStart, WithoutGpusItReportsWhatStartsAndWhatThatNeeds) {
  HostUse use = eight_ranks();
  const std::string turns = ". There are more ranks than cores: they take turns, so a step takes correspondingly longer";
  EXPECT_EQ(reported_before_start(use, false),
            "no GPU here: 8 ranks run on the CPU, 2 cores; they need about 10.8 GiB of 23.0 GiB" + turns);
  use.gpus = 2, use.cores = 16;
  EXPECT_EQ(
      reported_before_start(use, false),
      "2 GPUs here for 8 ranks: 8 ranks run on the CPU, 16 cores; they need about 10.8 GiB of 23.0 GiB. Ranks run on GPUs where "
      "each has its own: start as many ranks as GPUs, or let ranks share them with --device cuda --transport gloo");
  use.gpus = 8, use.gloo_asked = true;
  EXPECT_EQ(
      reported_before_start(use, false),
      "8 GPUs here for 8 ranks: 8 ranks run on the CPU, 16 cores; they need about 10.8 GiB of 23.0 GiB. --transport gloo leaves "
      "GPUs alone: --device cuda uses them");
  use.for_gpus = use.gloo_asked = false;
  EXPECT_EQ(reported_before_start(use, false), "") << "processors were asked for, and there are enough";
  use.threads = 3;
  EXPECT_EQ(reported_before_start(use, false),
            "8 ranks of 3 threads run on the CPU, 16 cores; they need about 10.8 GiB of 23.0 GiB" + turns);
  use = eight_ranks();
  use.ranks = 1, use.need.resize(1), use.one_process = true;
  EXPECT_EQ(reported_before_start(use, false),
            "no GPU here: 1 rank runs on the CPU, 2 cores; it needs about 1.1 GiB of 23.0 GiB");
  use = eight_ranks();
  use.one_process = true, use.need.clear();
  EXPECT_EQ(reported_before_start(use, false), "no GPU here: 8 ranks, threads of one process, run on the CPU, 2 cores" + turns);
}

// Half of two cores is a load of 1.
TEST(BeforeStart, OtherWorkOnTheCoresIsReported) {
  EXPECT_EQ(reported_load(0.9, 2, "run"), "");
  EXPECT_EQ(reported_load(1, 2, "run"),
            "this machine is busy: a load of 1.0 on 2 cores; what this run measures takes longer than on a quiet one");
  EXPECT_EQ(reported_load(8.12, 1, "profile"),
            "this machine is busy: a load of 8.1 on 1 core; what this profile measures takes longer than on a quiet one");
}

// Threads that spin count as soon as Linux's average of a minute has risen: not before, and never more than run now.
TEST(Host, ItsLoadIsAtMostWhatRunsNow) {
  const double load = host_load();
  std::ifstream file("/proc/loadavg");
  double minute = 0;
  ASSERT_TRUE(file >> minute);
  EXPECT_GE(load, 0);
  EXPECT_LE(load, minute + 1) << "the average may be renewed in between";
}

TEST(BeforeStart, WhatMemoryDoesNotHoldIsRefusedUnlessAskedFor) {
  HostUse use = eight_ranks();
  use.memory = std::int64_t{21} << 29;
  EXPECT_EQ(
      cannot(use),
      "gpt2.yaml: no GPU here: 8 ranks run on the CPU, 2 cores; they need about 10.8 GiB (an estimate; the largest rank 3.0 "
      "GiB), and "
      "this host has 10.5 GiB. Choose fewer layers, a smaller model or fewer ranks with --set, a machine with more memory or "
      "GPUs, or --allow-overcommit to run all the same");
  EXPECT_THAT(reported_before_start(use, true), HasSubstr("they need about 10.8 GiB of 10.5 GiB"));
  use.for_gpus = false, use.cores = 16, use.purpose = "profile";
  EXPECT_EQ(cannot(use),
            "gpt2.yaml: 8 ranks run on the CPU, 16 cores; they need about 10.8 GiB (an estimate; the largest rank 3.0 GiB), and "
            "this host "
            "has 10.5 GiB. Choose fewer layers, a smaller model or fewer ranks with --set, a machine with more memory, or "
            "--allow-overcommit to profile all the same");
  use.one_process = true;
  EXPECT_THAT(cannot(use), HasSubstr("accepted")) << "threads of one process: 10.1 GiB";
}

// By hand: a plan's parameters with gradients and Adam's two moments in fp32, 16 bytes each, and no GPU's context.
TEST(BeforeStart, ARankNeedsItsStateAndActivations) {
  const std::string text =
      "panpipe: 1\ncluster: {file: clusters/rtx3090x8.yaml}\n"
      "workload: {model: gpt, layers: 8, hidden: 1024, heads: 16, vocabulary: 1024, sequence: 8, tied_embedding: false}\n"
      "batch: {micro: 1, microbatches: 8}\nparallel: {pipeline: 4, data: 2}\nschedule: 1f1b\n";
  const Experiment experiment(parse_scenario(text, "x.yaml", "../scenarios"));
  const std::vector<std::int64_t> need = run_memory(experiment, experiment.plan(""));
  ASSERT_EQ(need.size(), 8u);
  const double layer = 12.0 * 1024 * 1024 * 16;  // a stage has two, or one and an end of the model
  for (const std::int64_t rank : need) {
    EXPECT_GT(rank, layer);
    EXPECT_LT(rank, 2.6 * layer);
  }
  EXPECT_EQ(need[2], need[3]) << "copies of a rank";
  ProfileRequest request;
  const double all = 8 * layer, one = profile_memory(experiment, request);
  EXPECT_GT(one, all);
  EXPECT_LT(one, 1.2 * all);
  request.window = "1 MiB";
  EXPECT_LT(profile_memory(experiment, request), one / 3) << "a unit at a time";
}

}  // namespace
}  // namespace panpipe::exec
