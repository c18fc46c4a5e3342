// Starting ranks: what the options mean, and how processes are looked after (here: shells).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/run_options.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/texts.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

using test::fault_of;

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
