// Ranks that meet: started one by one, by torchrun, Slurm or MPI, and those that cannot.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "tests/cli/program.hpp"
#include "tests/exec/ports.hpp"
#include "tests/exec/processes.hpp"

namespace panpipe::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// Ranks started one by one, as torchrun, srun and mpirun do.
std::map<std::string, std::string> place(int rank, int size, int port) {
  return {{"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", std::to_string(port)}};
}

TEST(Starting, RanksThatSomebodyElseStartedFindEachOther) {
  const int port = unused_port();
  Started first = start_panpipe(small_run("--json"), place(0, 2, port)),
          second = start_panpipe(small_run("--json"), place(1, 2, port));
  const Ended zero = first.end(), one = second.end();
  EXPECT_EQ(zero.exit_code, 0) << zero.err;
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(zero.out, HasSubstr("\"kind\": \"measured\""));
  EXPECT_EQ(one.out, "");
}

// Addresses at which somebody listens at a port, as Linux writes them: 127.0.0.1 is 0100007F.
std::vector<std::string> listeners(int port) {
  std::vector<std::string> found;
  const std::string at = fmt::format(":{:04X}", port);
  for (const char* kind : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(kind);
    std::string number, local, remote, state;
    for (std::string line; std::getline(file, line);)
      if (std::istringstream(line) >> number >> local >> remote >> state && state == "0A" && local.ends_with(at))
        found.push_back(local.substr(0, local.size() - at.size()));
  }
  return found;
}

TEST(Starting, AMasterOnTheLoopbackListensThereAlone) {
  const std::string of_ipv6 = "00000000000000000000000001000000";  // ::1, which localhost may be too
  for (const auto& [master, written] :
       {std::pair("127.0.0.1", "0100007F"), {"127.0.0.5", "0500007F"}, {"localhost", "0100007F"}}) {
    SCOPED_TRACE(master);
    const int port = unused_port();
    const auto at = [&, master = master](int rank) {
      auto environment = place(rank, 2, port);
      environment["MASTER_ADDR"] = master;
      return environment;
    };
    const std::string run = "run " + small_scenario() + " --deadline 30 --no-progress --threads 1 --json";
    Started first = start_panpipe(run, at(0));
    std::vector<std::string> found;
    for (int turn = 0; turn < 600 && found.empty(); ++turn, std::this_thread::sleep_for(50ms)) found = listeners(port);
    EXPECT_THAT(found, testing::ElementsAre(testing::AnyOf(written, of_ipv6)));
    Started second = start_panpipe(run, at(1));
    const Ended zero = first.end(), one = second.end();
    EXPECT_EQ(zero.exit_code, 0) << zero.err;
    EXPECT_EQ(one.exit_code, 0) << one.err;
  }
}

TEST(Starting, SlurmAndMpiStartRanksByTheirOwnVariables) {
  const std::vector<std::function<std::map<std::string, std::string>(std::string)>> launchers = {
      [](const std::string& rank) -> std::map<std::string, std::string> {
        return {{"SLURM_STEP_ID", "0"},
                {"SLURM_PROCID", rank},
                {"SLURM_STEP_NUM_TASKS", "2"},
                {"SLURM_LOCALID", rank},
                {"SLURM_STEP_TASKS_PER_NODE", "2"},
                {"SLURM_STEP_NODELIST", "localhost"}};
      },
      [](const std::string& rank) -> std::map<std::string, std::string> {
        return {{"OMPI_COMM_WORLD_RANK", rank},
                {"OMPI_COMM_WORLD_SIZE", "2"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
      }};
  for (const auto& launcher : launchers) {
    const std::string port = std::to_string(unused_port());
    std::vector<Started> ranks;
    for (const char* rank : {"0", "1"}) {
      auto environment = launcher(rank);
      environment["MASTER_PORT"] = port;
      ranks.push_back(start_panpipe(small_run("--json"), environment));
    }
    for (Started& rank : ranks) {
      const Ended ended = rank.end();
      EXPECT_EQ(ended.exit_code, 0) << ended.err;
    }
  }
}

TEST(Starting, TorchrunStartsRanks) {
  if (!fs::exists("../.venv/bin/torchrun")) GTEST_SKIP() << "no torchrun in .venv";
  const Ended run =
      Started({".venv/bin/torchrun", "--standalone", "--no-python", "--nproc-per-node", "2",
               std::string(std::getenv("PANPIPE_BIN")) + "/panpipe", "run", small_scenario(), "--no-progress", "--json"},
              {{"TMPDIR", temporary_folder()}}, "")  // where torchrun makes folders of its own
          .end();
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\"kind\": \"measured\""));
}

// Ranks with different secrets are reported before they exchange anything.
TEST(Starting, RanksWithDifferentTokensAreReported) {
  const auto with = [](int rank, int port, const std::string& name, const std::string& value) {
    auto environment = place(rank, 2, port);
    if (!name.empty()) environment[name] = value;
    return environment;
  };
  for (const auto& [name, words] : {std::pair("PANPIPE_TOKEN", "has another"), std::pair("", "has none")}) {
    SCOPED_TRACE(words);
    const int port = unused_port();
    Started first = start_panpipe(small_run(""), with(0, port, "PANPIPE_TOKEN", "a long word")),
            second = start_panpipe(small_run(""), with(1, port, name, "another word"));
    for (Started* started : {&first, &second}) {
      const Ended ended = started->end();
      EXPECT_EQ(ended.exit_code, 2);
      EXPECT_THAT(ended.err, ContainsRegex(std::string("^error: the ranks were given different words in PANPIPE_TOKEN: rank 1 on "
                                                       "[^ ]+ ") +
                                           words + ", rank 0 on [^ ]+ has its own; give every rank the same, or none\n$"));
      EXPECT_THAT(ended.err, Not(HasSubstr("word\""))) << "nobody says the words";
    }
  }
}

TEST(Starting, ATokenComesFromAFileThatOnlyItsOwnerReads) {
  const std::string file = temporary_folder() + "/token";
  write_file(file, "a long word\n");
  const auto with = [&](int rank, int port) {
    auto environment = place(rank, 2, port);
    environment[rank == 0 ? "PANPIPE_TOKEN_FILE" : "PANPIPE_TOKEN"] = rank == 0 ? file : "a long word";
    return environment;
  };
  chmod(file.c_str(), 0600);
  const int port = unused_port();
  Started first = start_panpipe(small_run("--json"), with(0, port)), second = start_panpipe(small_run("--json"), with(1, port));
  const Ended zero = first.end(), one = second.end();
  EXPECT_EQ(zero.exit_code, 0) << zero.err;
  EXPECT_EQ(one.exit_code, 0) << one.err;
  if (geteuid() == 0) {  // only root reads what is another's
    ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
    const Ended foreign = start_panpipe(small_run(""), with(0, unused_port())).end();
    EXPECT_EQ(foreign.exit_code, 2);
    EXPECT_EQ(foreign.err,
              "error: environment: PANPIPE_TOKEN_FILE: " + file +
                  " belongs to another user, who may change it: give it to the user of the ranks (chown), or copy it\n");
    ASSERT_EQ(chown(file.c_str(), 0, 0), 0);
  }
  chmod(file.c_str(), 0644);
  const Ended refused = start_panpipe(small_run(""), with(0, unused_port())).end();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err,
            "error: environment: PANPIPE_TOKEN_FILE: others than its owner may read " + file + ": chmod 600 " + file + "\n");
}

TEST(Starting, AMissingRankIsNamed) {
  const Ended zero = start_panpipe(small_run("--set parallel.pipeline=2"), place(0, 2, unused_port())).end();
  EXPECT_EQ(zero.exit_code, 3);
  EXPECT_EQ(zero.err, "panpipe: this machine cannot: rank 1 of 2 did not come within 2 s (--deadline makes it longer)\n");
}

TEST(Starting, AnUnreachableMasterIsNamed) {
  const int port = unused_port();
  const Ended one = start_panpipe(small_run(""), place(1, 2, port)).end();
  EXPECT_EQ(one.exit_code, 3);
  EXPECT_EQ(one.err, "panpipe: this machine cannot: rank 1 cannot reach the master at 127.0.0.1 port " + std::to_string(port) +
                         " within 2 s: is rank 0 running, and are MASTER_ADDR and MASTER_PORT those of its host?\n");
}

// `.invalid` never has an address (RFC 6761).
TEST(Starting, AMasterWithoutAnAddressIsNamed) {
  const auto at = [](int rank) {
    auto environment = place(rank, 2, unused_port());
    environment["MASTER_ADDR"] = "head.invalid";
    return environment;
  };
  Started first = start_panpipe(small_run(""), at(0)), second = start_panpipe(small_run(""), at(1));
  const Ended ended[] = {first.end(), second.end()};
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ended[rank].exit_code, 3);
    EXPECT_THAT(ended[rank].err,
                ContainsRegex("^panpipe: this machine cannot: rank " + std::to_string(rank) +
                              " found no address of the master head.invalid within 2 s \\([^)]+\\): set MASTER_ADDR on every "
                              "rank to an address of rank 0's host, or to a name that every host knows\n$"));
  }
}

TEST(Starting, APortInUseIsNamed) {
  const Listener other;
  const Ended zero = start_panpipe(small_run(""), place(0, 2, other.port())).end();
  EXPECT_EQ(zero.exit_code, 3);
  EXPECT_EQ(zero.err,
            "panpipe: this machine cannot: rank 0 cannot open port " + std::to_string(other.port()) +
                " for the others: it is in use, perhaps by another run; choose another with MASTER_PORT on every rank\n");
}

TEST(Starting, AWrongWorldSizeIsReportedToBoth) {
  const int port = unused_port();
  Started first = start_panpipe(small_run(""), place(0, 2, port)), second = start_panpipe(small_run(""), place(1, 3, port));
  const Ended zero = first.end(), one = second.end();
  const auto message =
      ContainsRegex("^error: wrong world size: rank 1 on [^ ]+ was started as one of 3 ranks, rank 0 on [^ ]+ as one of 2\n$");
  EXPECT_EQ(zero.exit_code, 2);
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(zero.err, message);
  EXPECT_THAT(one.err, message);
}

TEST(Starting, TheSameRankTwiceIsReported) {
  const int port = unused_port();
  Started first = start_panpipe(small_run(""), place(0, 3, port));
  Started second = start_panpipe(small_run(""), place(1, 3, port)), third = start_panpipe(small_run(""), place(1, 3, port));
  const Ended zero = first.end();
  second.end();
  third.end();
  EXPECT_EQ(zero.exit_code, 2);
  EXPECT_THAT(zero.err, ContainsRegex("^error: 2 processes say that they are rank 1 of this run; the last is on "));
}

TEST(Starting, APlanForAnotherNumberOfRanksIsRefused) {
  const int port = unused_port();
  Started first = start_panpipe(small_run(""), place(0, 3, port)), second = start_panpipe(small_run(""), place(1, 3, port)),
          third = start_panpipe(small_run(""), place(2, 3, port));
  for (Started* started : {&first, &second, &third}) {
    const Ended ended = started->end();
    EXPECT_EQ(ended.exit_code, 2);
    EXPECT_EQ(ended.err, "error: the plan needs 2 ranks (pipeline 2 x tensor 1 x data 1), but torchrun started 3\n");
  }
}

TEST(Starting, RanksWithDifferentScenariosAreReported) {
  const int port = unused_port();
  Started first = start_panpipe(small_run("--steps 2"), place(0, 2, port)),
          second = start_panpipe(small_run("--steps 2 --set batch.micro=2"), place(1, 2, port));
  for (Started* started : {&first, &second}) {
    const Ended ended = started->end();
    EXPECT_EQ(ended.exit_code, 2);
    EXPECT_THAT(
        ended.err,
        ContainsRegex("^error: the ranks do not have the same scenario \\(hash of its values\\):\n  rank [01]: [0-9a-f]+\n  "
                      "rank [01]: [0-9a-f]+\n  give every rank the same files and options\n$"));
  }
}

TEST(Starting, DifferentStepsAreReported) {
  const int port = unused_port();
  Started first = start_panpipe(small_run("--steps 2"), place(0, 2, port)),
          second = start_panpipe(small_run("--steps 3"), place(1, 2, port));
  const Ended zero = first.end();
  second.end();
  EXPECT_EQ(zero.exit_code, 2);
  EXPECT_EQ(zero.err,
            "error: the ranks do not have the same options:\n  rank 0: --steps 2 --warmup 0 --device cpu\n  rank 1: --steps 3 "
            "--warmup 0 "
            "--device cpu\n  give every rank the same files and options\n");
}

TEST(Starting, WrongScenariosAreReportedOnceAndNotPerRank) {
  const Ended run = start_panpipe("run " + small_scenario() + " --set batch.micro=none").end();
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err,
            "--set batch.micro=none: error: 'none' is not a whole number\n"
            "  at batch.micro\n"
            "      | batch.micro=none\n"
            "      |             ^\n");
}

TEST(Starting, NcclWithoutAGpuIsReportedOnce) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a GPU";
  const Ended run = start_panpipe(small_run("--transport nccl")).end();
  EXPECT_EQ(run.exit_code, 3);
  // Why depends on the machine: no driver, or a LibTorch without CUDA.
  EXPECT_THAT(run.err,
              testing::StartsWith("panpipe: this machine cannot: --transport nccl needs an NVIDIA GPU for every rank, and "
                                  "this machine has none to use: "));
  EXPECT_THAT(run.err, testing::EndsWith("; use --transport gloo\n"));
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1);
}

TEST(Starting, LocalRanksAreNotStartedByOthers) {
  const Ended run = start_panpipe(small_run("--transport local"), place(0, 2, unused_port())).end();
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err,
            "error: --transport local runs all ranks in one process, but torchrun started 2: leave out one of the two\n");
}

}  // namespace
}  // namespace panpipe::test
