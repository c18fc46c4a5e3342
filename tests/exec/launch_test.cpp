// Starting ranks: the variables of the environment, what the options mean, and how processes are looked after (here: shells).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "exec/launch/fits_host.hpp"
#include "exec/launch/host.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/run_options.hpp"
#include "exec/launch/visible_gpus.hpp"
#include "exec/launch/world.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/texts.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

auto value_in(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::optional<World> world_of(const Variables& variables) { return world_of_environment(value_in(variables)); }

using test::fault_of;

TEST(World, NobodyStartedUs) { EXPECT_FALSE(world_of({})); }

TEST(World, Torchrun) {
  const auto world = world_of({{"RANK", "3"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "1234"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 3);
  EXPECT_EQ(world->size, 8);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->local_size, 2);
  EXPECT_TRUE(world->local_reported);
  EXPECT_EQ(world->master_address, "10.0.0.1");
  EXPECT_EQ(world->master_port, 1234);
  EXPECT_EQ(world->launcher, "torchrun");
  EXPECT_FALSE(world->store_elsewhere);
}

TEST(World, TorchrunsAgentKeepsTheStoreAndCountsAttempts) {
  const auto world = world_of({{"RANK", "0"},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "localhost"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_TRUE(world->store_elsewhere);
  EXPECT_EQ(world->store_prefix, "attempt_2");
  EXPECT_EQ(world->master_port, 29500);
}

TEST(World, Slurm) {
  Variables variables{{"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "5"},
                      {"SLURM_STEP_NUM_TASKS", "8"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                      {"SLURM_STEP_NODELIST", "gpu[07-08]"}};
  const auto world = world_of(variables);
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 5);
  EXPECT_EQ(world->local_size, 4);
  EXPECT_EQ(world->master_address, "gpu07");
  EXPECT_EQ(world->launcher, "srun");
  variables.erase("SLURM_STEP_ID");  // a batch script is no step: panpipe run starts the ranks there
  EXPECT_FALSE(world_of(variables));
}

// Two nodes of four tasks, one of two, one of one.
TEST(World, SlurmsNodesMayHoldDifferentNumbersOfTasks) {
  Variables variables{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "5"},           {"SLURM_STEP_NUM_TASKS", "11"},
                      {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "gpu1"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2),2,1"}};
  const std::vector<int> tasks = {4, 4, 2, 1};
  for (int node = 0; node < 4; ++node) {
    variables["SLURM_NODEID"] = std::to_string(node);
    EXPECT_EQ(world_of(variables)->local_size, tasks[node]) << node;
  }
  variables["SLURM_NODEID"] = "4";
  EXPECT_FALSE(world_of(variables)->local_reported) << "the list ends before: the ranks find it out";
}

TEST(World, WhereTheLocalNumberIsNotStatedTheRanksFindIt) {
  EXPECT_FALSE(world_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}})->local_reported);
  EXPECT_FALSE(world_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "head"}})->local_reported);
  EXPECT_TRUE(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}})->local_reported) << "alone";
}

TEST(World, AnIpv6MasterMayStandInBrackets) {
  const auto master = [](const std::string& address) {
    return world_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", address}})->master_address;
  };
  EXPECT_EQ(master("[::1]"), "::1");
  EXPECT_EQ(master("::1"), "::1");
  EXPECT_EQ(master("[]"), "[]") << "nothing is no address: the ranks say so";
}

TEST(World, FirstHostOfSlurmsLists) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("node[03-05,9],login"), "node03");
  EXPECT_EQ(first_host("login,node[03-05]"), "login");
}

TEST(World, Mpi) {
  const auto open = world_of({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(open->launcher, "mpirun");
  EXPECT_EQ(open->master_address, "127.0.0.1");
  const auto mpich = world_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MASTER_ADDR", "head"}});
  EXPECT_EQ(mpich->master_address, "head");
  EXPECT_EQ(mpich->size, 4);
  EXPECT_FALSE(world_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));  // one task: an ordinary program
}

TEST(World, WhatCannotBeIsRefusedByName) {
  const std::vector<std::pair<Variables, std::string>> cases = {
      {{{"RANK", "1"}},
       "environment: RANK is set and WORLD_SIZE is not: torchrun sets both; unset them to start the ranks with panpipe run"},
      {{{"WORLD_SIZE", "2"}},
       "environment: WORLD_SIZE is set and RANK is not: torchrun sets both; unset them to start the ranks with panpipe run"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "environment: RANK=2 but WORLD_SIZE=2: ranks are 0 to 1"},
      {{{"RANK", "one"}, {"WORLD_SIZE", "2"}}, "environment: RANK must be a whole number of at least 0, not 'one'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "environment: WORLD_SIZE must be a whole number of at least 1, not '0'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_PORT", "123456"}},
       "environment: MASTER_PORT=123456 is no port: 1 to 65535"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       "environment: MASTER_ADDR is not set: with ranks on several hosts every rank needs the address of rank 0's host (2 of 4 "
       "ranks "
       "are on this one)"}};
  for (const auto& [variables, message] : cases) {
    const Variables& given = variables;
    EXPECT_EQ(fault_of([&] { world_of(given); }), "error: " + message);
  }
}

RunRequest parsed(std::vector<std::string> words) {
  RunRequest request;
  CLI::App app;
  add_run_options(app, request);
  std::reverse(words.begin(), words.end());
  app.parse(words);
  return request;
}

TEST(RunOptions, EveryOptionSurvivesTheWayToTheRanks) {
  std::vector<std::string> words = test::parts_of(
      "FILE --set batch.micro=4 --set ORDER --plan p.yaml --steps 7 --warmup 2 --transport gloo --device cpu --threads 3 -o out "
      "--json --timeline --dump-gradients g.safetensors --metrics m.jsonl --checkpoint ck --checkpoint-every 5 --resume auto "
      "--deadline 2.5 --allow-overcommit --no-progress");
  words[0] = "a b.yaml", words[4] = "schedule={name: gpipe}";
  EXPECT_EQ(to_arguments(parsed(words)), words);
  EXPECT_EQ(to_arguments(parsed({"x.yaml"})), std::vector<std::string>{"x.yaml"});
  EXPECT_EQ(parsed({"x.yaml"}).deadline_s, 10);
}

TEST(RunOptions, WhatCannotBeIsRefusedWithTheRemedy) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--steps", "0"}, "--steps must be at least 1, not 0"},
      {{"--warmup", "-1"}, "--warmup must be at least 0, not -1"},
      {{"--threads", "-2"}, "--threads must be at least 0, not -2"},
      {{"--checkpoint", "c", "--checkpoint-every", "-1"}, "--checkpoint-every must be at least 0, not -1"},
      {{"--transport", "glo"}, "--transport is local, gloo, nccl, not 'glo', did you mean 'gloo'?"},
      {{"--device", "gpu"}, "--device is cpu, cuda, not 'gpu', did you mean 'cpu'?"},
      {{"--deadline", "0"}, "--deadline is between 0.1 and 86400 seconds, not 0"},
      {{"--deadline", "inf"}, "--deadline is between 0.1 and 86400 seconds, not inf"},
      {{"--transport", "nccl", "--device", "cpu"}, "--transport nccl moves tensors between GPUs: it goes with --device cuda"},
      {{"--checkpoint-every", "2"}, "--checkpoint-every needs --checkpoint DIR"},
      {{"--resume", "auto"}, "--resume auto looks for the newest checkpoint in the folder of --checkpoint, which is not given"},
      {{"--resume", "nowhere/step-3"}, "--resume: there is no folder nowhere/step-3"},
      {{"-o", "CMakeLists.txt"}, "-o: CMakeLists.txt is a file, not a folder"},
      {{"--checkpoint", "CMakeLists.txt"}, "--checkpoint: CMakeLists.txt is a file, not a folder"},
      {{"--dump-gradients", "."},
       "cannot write .: it is a folder, not a file\n  help: choose another file with --dump-gradients"},
      {{"--metrics", "nowhere/"}, "cannot write 'nowhere/': this names no file\n  help: choose another file with --metrics"}};
  for (auto [words, message] : cases) {
    words.insert(words.begin(), "x.yaml");
    const std::vector<std::string> given = words;
    EXPECT_EQ(fault_of([&] { check_run_options(parsed(given)); }), "error: " + message);
  }
}

// --- ranks on processors ---

// --- GPUs ---

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

struct Ran {
  int code = 0;
  std::string err;
};

// Runs a shell script as every rank; it knows $RANK.
Ran run_script(const std::string& script, int ranks = 2, double deadline_s = 0.5) {
  testing::internal::CaptureStderr();
  const int code = run_ranks({"/bin/sh", "-c", script}, ranks, deadline_s);
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(RunRanks, EveryRankKnowsItsPlaceAndSpeaksWithItsNumber) {
  testing::internal::CaptureStdout();
  const Ran ran = run_script(
      "echo place $RANK $LOCAL_RANK of $WORLD_SIZE $LOCAL_WORLD_SIZE at $MASTER_ADDR ${PANPIPE_MASTER_SOCKET:+holds}", 3);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "place 0 0 of 3 3 at 127.0.0.1 holds\n");  // rank 0's output is ours
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("[rank 1] place 1 1 of 3 3 at 127.0.0.1\n"));
  EXPECT_THAT(ran.err, HasSubstr("[rank 2] place 2 2 of 3 3 at 127.0.0.1\n"));
  EXPECT_THAT(ran.err, testing::Not(HasSubstr("[rank 0]")));
}

TEST(RunRanks, AnErrorThatAllRanksShareIsReportedOnce) {
  const Ran ran = run_script("printf '\\036x.yaml:1:2: error: wrong\\n\\036  at batch\\n' >&2; exit 2", 4);
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err, "x.yaml:1:2: error: wrong\n  at batch\n");
}

TEST(RunRanks, DifferentErrorsAreReportedByRankTheFirstFirst) {
  const Ran ran = run_script(
      "if [ $RANK = 0 ]; then sleep 0.2; printf '\\036lost rank 1\\n' >&2; exit 1; fi; "
      "printf '\\036no memory\\n' >&2; exit 3");
  EXPECT_EQ(ran.code, 3) << "the code of the failure that explains the other";
  EXPECT_EQ(ran.err, "[rank 1] no memory\n[rank 0] lost rank 1\n");
}

TEST(RunRanks, AKilledRankIsNamedAndTheOthersGetTheDeadline) {
  const Ran ran =
      run_script("if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 0.3; printf '\\0360B3: rank 1 is lost\\n' >&2; exit 1");
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "panpipe: rank 1 was killed by signal 9 (Killed)\n[rank 0] 0B3: rank 1 is lost\n");
}

TEST(RunRanks, ARankThatDoesNotEndAfterAFailureIsKilled) {
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = run_script("if [ $RANK = 1 ]; then exit 70; fi; kill -STOP $$");
  EXPECT_EQ(ran.code, 70);
  EXPECT_EQ(ran.err,
            "panpipe: rank 1 ended with exit code 70\n"
            "panpipe: rank 0 did not end within 0.5 s after the failure and was killed\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(RunRanks, AProgramThatCannotBeStartedIsAMachineError) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_ranks({"/nowhere/panpipe-exec"}, 2, 0.5), 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "panpipe: this machine cannot: cannot start /nowhere/panpipe-exec: No such file or directory\n");
}

// A launcher in a process of its own, to be interrupted or killed. Its ranks write their process numbers into files.
struct Launcher {
  test::TemporaryFolder own;
  std::filesystem::path folder = own.path();
  pid_t process = -1;
  explicit Launcher(const std::string& script, OnInterrupt on_interrupt = OnInterrupt::EndStep) {
    process = fork();
    if (process != 0) return;
    dup2(open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    _exit(run_ranks(
        {"/bin/sh", "-c", "cd " + folder.string() + "; echo $$ > rank$RANK.part; mv rank$RANK.part rank$RANK; " + script}, 2, 1.0,
        on_interrupt));
  }
  pid_t rank(int number) const {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(10ms)) {
      pid_t found = 0;
      if (std::ifstream(folder / ("rank" + std::to_string(number))) >> found) return found;
    }
    ADD_FAILURE() << "rank " << number << " did not start";
    return -1;
  }
  void wait_until_ready() const {
    while (!std::filesystem::exists(folder / "ready0") || !std::filesystem::exists(folder / "ready1"))
      std::this_thread::sleep_for(10ms);
  }
  int end() const {
    int status = 0;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string err() const { return test::read_file(folder / "err"); }
};

bool gone(pid_t process) {
  for (int i = 0; i < 300; ++i, std::this_thread::sleep_for(10ms)) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string number, name, state;
    if (!(file >> number >> name >> state) || state == "Z") return true;
  }
  return false;
}

TEST(RunRanks, CtrlCIsPassedOnOnceAndTheRanksEndAsTheyLike) {
  const Launcher launcher(
      "trap 'echo writing the checkpoint >&2; exit 0' INT; touch ready$RANK; while true; do sleep 0.05; done");
  launcher.wait_until_ready();
  kill(launcher.process, SIGINT);
  EXPECT_EQ(launcher.end(), 0);
  EXPECT_THAT(launcher.err(),
              HasSubstr("panpipe: stopping: the ranks end their step and write a checkpoint where one is asked for; "
                        "once more ends them now\n"));
  EXPECT_THAT(launcher.err(), HasSubstr("[rank 0] writing the checkpoint\n"));
  EXPECT_THAT(launcher.err(), HasSubstr("[rank 1] writing the checkpoint\n"));
}

TEST(RunRanks, ASecondCtrlCEndsThemAtOnce) {
  const Launcher launcher("trap '' INT; touch ready$RANK; while true; do sleep 0.05; done");
  const pid_t first = launcher.rank(0), second = launcher.rank(1);
  std::this_thread::sleep_for(200ms);
  kill(launcher.process, SIGINT);
  std::this_thread::sleep_for(200ms);
  kill(launcher.process, SIGINT);
  EXPECT_EQ(launcher.end(), 130);
  EXPECT_TRUE(gone(first));
  EXPECT_TRUE(gone(second));
}

TEST(RunRanks, WhereCtrlCEndsAtOnceOnlyTheFirstRankHearsItAndTheOthersAreEndedWithIt) {
  const Launcher launcher("trap 'exit 130' TERM; touch ready$RANK; while [ $RANK = 0 ]; do sleep 0.05; done; kill -STOP $$",
                          OnInterrupt::EndNow);
  const pid_t second = launcher.rank(1);
  launcher.wait_until_ready();
  kill(launcher.process, SIGINT);
  EXPECT_EQ(launcher.end(), 130);
  EXPECT_EQ(launcher.err(), "panpipe: stopped as asked: no profile was written\n");
  EXPECT_TRUE(gone(second));
}

TEST(RunRanks, AFirstRankThatHadEverythingMayEndInOrder) {
  const Launcher launcher(
      "trap 'echo written >&2; touch done; exit 0' TERM; touch ready$RANK; while [ ! -e done ]; do sleep 0.05; done",
      OnInterrupt::EndNow);
  launcher.wait_until_ready();
  kill(launcher.process, SIGINT);
  EXPECT_EQ(launcher.end(), 0);
  EXPECT_EQ(launcher.err(), "[rank 0] written\n");
}

TEST(RunRanks, NoRankOutlivesAKilledLauncher) {
  const Launcher launcher("while true; do sleep 0.05; done");
  const pid_t first = launcher.rank(0), second = launcher.rank(1);
  kill(launcher.process, SIGKILL);
  EXPECT_EQ(launcher.end(), -SIGKILL);
  EXPECT_TRUE(gone(first));
  EXPECT_TRUE(gone(second));
}

}  // namespace
}  // namespace panpipe::exec
