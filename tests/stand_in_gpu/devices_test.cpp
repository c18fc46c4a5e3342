// Which rank runs on which GPU, however the ranks were started, and the messages where that cannot be; the connections over NCCL.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/cli/program.hpp"
#include "tests/exec/ports.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kRanks = 4;

std::string scenario() { return scenario_file(small_gpt({kRanks}, "", kRanks)); }

// `panpipe run` once per rank, as a launcher starts it: every rank gets the settings of its number.
std::vector<Trained> train_as_launched(const std::string& scenario, const std::string& options,
                                       const std::function<Settings(int rank)>& settings) {
  const std::string metrics = temporary_folder() + "/metrics.jsonl";
  const std::string port = std::to_string(unused_port());
  std::vector<Started> started;
  for (int rank = 0; rank < kRanks; ++rank) {
    Settings all = settings(rank);
    all.insert({{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}});
    started.push_back(start_on_stand_in(
        fmt::format("run {} --steps 2 --threads 1 --no-progress --deadline 60 --metrics {} {}", scenario, metrics, options),
        all));
  }
  std::vector<Trained> ended(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) static_cast<Ended&>(ended[rank]) = started[rank].end();
  if (std::filesystem::exists(metrics)) {
    std::istringstream text(read_file(metrics));
    for (std::string line; std::getline(text, line);) ended[0].metrics.push_back(nlohmann::json::parse(line));
  }
  return ended;
}

Settings by_hand(int rank) { return {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(kRanks)}}; }

// As srun starts tasks of one host, each with the GPU that `gpu` names.
Settings by_srun(int rank, int gpu) {
  return {{"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_STEP_NUM_TASKS", std::to_string(kRanks)},
          {"SLURM_LOCALID", std::to_string(rank)},
          {"SLURM_STEP_TASKS_PER_NODE", std::to_string(kRanks)},
          {"CUDA_VISIBLE_DEVICES", std::to_string(gpu)}};
}

// Hosts to which ranks are dealt in another order give ranks local numbers that are not their numbers in the world.
TEST(DeviceOfARank, IsThatOfItsLocalNumber) {
  const std::string file = scenario();
  const std::vector<Trained> ended = train_as_launched(file, "--transport nccl --device cuda", [](int rank) {
    Settings settings = by_hand(rank);
    settings.insert({{"LOCAL_RANK", std::to_string(kRanks - 1 - rank)}, {"LOCAL_WORLD_SIZE", std::to_string(kRanks)}});
    return settings;
  });
  expect_same_training(ended[0], train_on_cpu(file, "--steps 2"));
}

TEST(DeviceOfARank, IsFoundWhereTheLocalNumberIsNotStated) {
  const std::string file = scenario();
  const std::vector<Trained> ended = train_as_launched(file, "--transport nccl --device cuda", by_hand);
  expect_same_training(ended[0], train_on_cpu(file, "--steps 2"));
}

// Without --transport and --device: each task sees one of eight GPUs, as device 0.
TEST(DeviceOfARank, IsTheOneThatSrunShowsEachTask) {
  const std::string file = scenario(), counts = temporary_folder() + "/counts.jsonl";
  const std::vector<Trained> ended = train_as_launched(file, "", [&](int rank) {
    Settings settings = by_srun(rank, 7 - rank);
    settings["STAND_IN_COUNTS"] = counts;
    return settings;
  });
  expect_same_training(ended[0], train_on_cpu(file, "--steps 2"));
  EXPECT_THAT(ended[0].err, Not(HasSubstr("on the CPU")));
  EXPECT_THAT(read_file(counts), HasSubstr("\"ncclSend\": ")) << "it ran over NCCL";
}

TEST(DeviceOfARank, TwoRanksOnOneGpuAreRefusedOverNccl) {
  const std::vector<Trained> ended =
      train_as_launched(scenario(), "--transport nccl", [](int rank) { return by_srun(rank, rank == 3 ? 1 : rank); });
  for (const Trained& rank : ended) EXPECT_EQ(rank.exit_code, 3) << rank.err;
  EXPECT_THAT(ended[3].err, testing::ContainsRegex(
                                "--transport nccl needs a GPU for every rank: ranks 1, 3 share GPU 0000:02:00.0 of host [^ ]+\\. "
                                "Start as many ranks on a host as it has GPUs, show each another one "
                                "\\(CUDA_VISIBLE_DEVICES\\), or share with --transport gloo"));
}

TEST(DeviceOfARank, GpusThatAreLeftAloneAreReportedWithTheRemedy) {
  const std::string run = "run " + scenario() + " --steps 1 --threads 1 --no-progress --deadline 60";
  const Ended few = on_stand_in(run, {{"STAND_IN_GPUS", "2"}});
  EXPECT_EQ(few.exit_code, 0) << few.err;
  EXPECT_THAT(few.err, HasSubstr("panpipe: 2 GPUs here for 4 ranks: 4 ranks run on the CPU"));
  EXPECT_THAT(few.err,
              HasSubstr("Ranks run on GPUs where each has its own: start as many ranks as GPUs, or let ranks share them with "
                        "--device cuda --transport gloo"));
  const Ended gloo = on_stand_in(run + " --transport gloo", {{"STAND_IN_GPUS", "8"}});
  EXPECT_THAT(gloo.err, HasSubstr("--transport gloo leaves GPUs alone: --device cuda uses them"));
  EXPECT_THAT(on_stand_in(run + " --device cpu", {}).err, Not(HasSubstr("GPU"))) << "it was asked for";
}

// Ranks that are threads hand their tensors over: the receiver copies them between devices while the sender goes on.
TEST(LocalTransport, CopiesBetweenGpusWhatTheSenderHasLetGo) {
  const std::string file = scenario();
  const Trained cpu = train_on_cpu(file, "--steps 3");
  for (int turn = 0; turn < 5; ++turn) {
    SCOPED_TRACE(turn);
    expect_same_training(
        train_on_stand_in(file, "--steps 3 --transport local", {{"STAND_IN_GPUS", "4"}, {"STAND_IN_JITTER_US", "300"}}), cpu);
  }
}

// Two seconds of each connection's making are not in the time of the first step, which takes some ten milliseconds.
TEST(Connections, AreMadeBeforeTheFirstStepsClock) {
  const Trained trained = train_on_stand_in(scenario_file(small_gpt({2})), "--steps 1", {{"STAND_IN_SLOW", "ncclCommInit:2000"}});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  ASSERT_EQ(trained.metrics.size(), 1u);
  EXPECT_LT(trained.metrics[0].at("step_time_s").get<double>(), 2.0);
  // Two ranks: an activation one way and its gradient back, and the sum of the embedding's two gradients (it is tied).
  ASSERT_EQ(trained.counts.size(), 2u);
  for (const auto& [rank, counts] : trained.counts) {
    EXPECT_EQ(counts.at("ncclCommInitRankConfig"), 3) << rank;
    EXPECT_EQ(counts.at("bounded_communicators"), 2) << "of multiprocessors, rank " << rank;
  }
}

// Every transfer takes 5 ms longer: so does what the profile holds, once for each of a round trip's two ways.
TEST(LinkProfile, OverNcclIsTimedByTheDevice) {
  const std::string file = temporary_folder() + "/profile.yaml";
  const Ended ended =
      on_stand_in(fmt::format("profile {} --transport nccl --device cuda --ranks 2 --only-transfers --repetitions 5 -o {}",
                              scenario_file(small_gpt({2})), file),
                  {{"STAND_IN_SLOW", "send:5,allreduce:5"}, {"STAND_IN_JITTER_US", "0"}});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  const std::string profile = read_file(file);
  // "table: [[0 B, 20.1 ms], ...": no entry is below the delay, in whatever unit.
  EXPECT_THAT(profile, Not(testing::ContainsRegex("B, [0-9.]+ us\\]"))) << profile;
  EXPECT_THAT(profile, testing::ContainsRegex("\\[1 KiB, ([5-9]|[1-9][0-9])\\.[0-9]+ ms\\]")) << profile;
}

TEST(Driver, OneThatIsTooOldIsNamedWithTheRemedy) {
  const Ended ended =
      on_stand_in("run " + scenario() + " --steps 1 --transport nccl --deadline 60", {{"STAND_IN_DRIVER", "550.54.15"}});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(
      ended.err,
      "panpipe: this machine cannot: --transport nccl needs an NVIDIA GPU for every rank, and this machine has none to use: the "
      "NVIDIA driver supports CUDA up to 12.4, and this torch package is built with CUDA 13.0: install a driver of at least 580, "
      "or a torch package that is built with CUDA 12: PANPIPE_TORCH_INDEX=URL tools/setup with an index of such packages, then "
      "make build (docs/installing.md); use --transport gloo\n");
}

TEST(Nccl, AnEarlierLibraryThanTheHeadersIsRefused) {
  const Ended ended =
      on_stand_in("run " + scenario() + " --steps 1 --transport nccl --deadline 60", {{"STAND_IN_NCCL", "22105"}});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.err,
              testing::ContainsRegex("panpipe: this machine cannot: the NCCL transport was compiled with headers of NCCL "
                                     "2\\.[0-9]+\\.[0-9]+, and the library that is loaded is NCCL 2.21.5: compile Panpipe"));
}

}  // namespace
}  // namespace panpipe::test
