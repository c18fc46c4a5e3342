// Runs in which something goes wrong, with real processes: every rank ends, in time, and reports what it waited for.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>

#include "tests/cli/program.hpp"
#include "tests/exec/ports.hpp"
#include "tests/exec/processes.hpp"

namespace panpipe::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Faults, ARankKilledAtAnyActionEndsTheRun) {
  // gpipe over three microbatches: whatever rank 1 was at when it went, rank 0 comes to wait for it.
  for (const std::string action : {"1F0", "1F2", "1B0", "1B2"}) {
    SCOPED_TRACE(action);
    const Ended run =
        start_panpipe(small_run("--steps 3"), {{"PANPIPE_FAULT", "rank=1,step=1,kind=kill,action=" + action}}).end();
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr("panpipe: rank 1 was killed by signal 9 (Killed)\n"));
    EXPECT_THAT(run.err,
                ContainsRegex("\\[rank 0\\] panpipe: rank 0: 0B[0-2], waiting for the gradient of microbatch [0-2] from stage 1 "
                              "on rank 1: rank 1 is lost: its process ended; it was last seen at: "));
    EXPECT_THAT(run.left_behind, testing::IsEmpty());
    EXPECT_LT(run.time, kStart + 2s);
  }
}

TEST(Faults, TheRankThatOthersMeetAtMayBeKilledToo) {
  const Ended run = start_panpipe(small_run("--steps 2"), {{"PANPIPE_FAULT", "rank=0,step=1,kind=kill,action=0B1"}}).end();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("panpipe: rank 0 was killed by signal 9 (Killed)\n"));
  EXPECT_THAT(run.err, ContainsRegex("\\[rank 1\\] panpipe: rank 1: .*rank 0 is lost: its process ended"));
  EXPECT_THAT(run.left_behind, testing::IsEmpty());
}

TEST(Faults, AStuckRankIsFoundByItsMissingProgress) {
  const Ended run = start_panpipe(small_run(""), {{"PANPIPE_FAULT", "rank=1,kind=stuck,action=1F1"}}).end();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              ContainsRegex("\\[rank 0\\] panpipe: rank 0: 0B0, waiting for the gradient of microbatch 0 from stage 1 on rank 1: "
                            "rank 1 is stuck: no progress for [12]\\.?[0-9]* s at: 1F1 of step 0"));
  EXPECT_THAT(run.err, HasSubstr("this rank did not end by itself after the loss: ended by its watch"));
  EXPECT_THAT(run.left_behind, testing::IsEmpty());
}

TEST(Faults, AStoppedProcessIsFoundByItsSilenceAndKilled) {
  const Ended run = start_panpipe(small_run(""), {{"PANPIPE_FAULT", "rank=1,kind=stop,action=1F1"}}).end();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(
      run.err,
      ContainsRegex("0B0, waiting for the gradient of microbatch 0 from stage 1 on rank 1: rank 1 is lost: nothing heard from "
                    "it for [12]\\.?[0-9]* s \\(stopped, or its host cannot be reached\\); it was last seen at: "));
  EXPECT_THAT(run.err, HasSubstr("panpipe: rank 1 did not end within 2 s after the failure and was killed\n"));
  EXPECT_THAT(run.left_behind, testing::IsEmpty());
}

TEST(Faults, AFailingOperatorEndsTheRunWithItsMessage) {
  for (const std::string transport : {"gloo", "local"}) {
    SCOPED_TRACE(transport);
    const Ended run =
        start_panpipe(small_run("--transport " + transport), {{"PANPIPE_FAULT", "rank=1,kind=fail,action=1B1"}}).end();
    EXPECT_EQ(run.exit_code, 1);
    const std::string cause = "panpipe: rank 1 failed at 1B1 of step 0: a fault was asked for (PANPIPE_FAULT)\n";
    EXPECT_THAT(run.err, HasSubstr(cause));
    EXPECT_THAT(run.err,
                ContainsRegex("panpipe: rank 0: 0B[0-2], waiting for the gradient of microbatch [0-2] from stage 1 on rank 1: "
                              "rank 1 ended the run: "));
    // Processes are reported in the order in which they ended; of threads the cause is reported first.
    if (transport == "local") {
      EXPECT_LT(run.err.find(cause), run.err.find("panpipe: rank 0: ")) << run.err;
    }
    EXPECT_THAT(run.left_behind, testing::IsEmpty());
  }
}

TEST(Faults, ALossThatIsNoNumberEndsTheRun) {
  for (const std::string transport : {"gloo", "local"}) {
    SCOPED_TRACE(transport);
    const Ended run =
        start_panpipe(small_run("--steps 3 --transport " + transport), {{"PANPIPE_FAULT", "rank=1,step=1,kind=nan,action=1F2"}})
            .end();
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("panpipe: step 2: the loss of microbatch 2 is nan (rank 1, replica 0)\n"));
    EXPECT_THAT(
        run.err,
        HasSubstr(
            "panpipe: rank 0: 0B0, waiting for the gradient of microbatch 0 from stage 1 on rank 1: rank 1 ended the run: "));
    EXPECT_THAT(run.left_behind, testing::IsEmpty());
  }
}

TEST(Faults, TheLastCheckpointOfAKilledRunIsWhole) {
  const std::string folder = temporary_folder() + "/ck";
  const Ended killed = start_panpipe(small_run("--steps 9 --checkpoint-every 2 --checkpoint " + folder),
                                     {{"PANPIPE_FAULT", "rank=1,step=5,kind=kill,action=1B0"}})
                           .end();
  EXPECT_EQ(killed.exit_code, 1);
  const Ended resumed = start_panpipe(small_run("--steps 6 --resume auto --checkpoint " + folder)).end();
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

TEST(Faults, AStuckThreadDoesNotHoldTheProcess) {
  const Ended run = start_panpipe(small_run("--transport local"), {{"PANPIPE_FAULT", "rank=1,kind=stuck,action=1F1"}}).end();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(
      run.err,
      HasSubstr("panpipe: rank 0: 0B0, waiting for the gradient of microbatch 0 from stage 1 on rank 1: nothing arrived and "
                "no rank computed for 2 s; rank 1 is at: 1F1 of step 0\n"));
  EXPECT_THAT(run.err, HasSubstr("panpipe: 1 rank did not end within 2 s after the failure\n"));
}

TEST(Faults, AMisspeltFaultIsRefused) {
  const Ended run = start_panpipe(small_run("--transport local"), {{"PANPIPE_FAULT", "rank=1,action=1F0,kind=explode"}}).end();
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err,
            "error: PANPIPE_FAULT is 'rank=1,action=0B2,kind=kill|stop|stuck|spin|fail|nan', with step=N where it is one step "
            "only; not "
            "'rank=1,action=1F0,kind=explode'\n");
}

TEST(Faults, NoInputIsReplaced) {
  const std::string folder = temporary_folder(), file = folder + "/scenario.yaml", text = read_file(small_scenario());
  write_file(file, text);
  const std::string call = "run " + file + " --deadline 2 --no-progress --threads 1 ";
  const auto refusal = [&](const std::string& option) {
    return "error: the output " + file + " would replace the input " + file + "\n  help: choose another " + option + "\n";
  };
  for (const std::string transport : {"gloo", "local"})
    for (const auto& [output, option] :
         {std::pair("-o " + folder, "folder with -o"), std::pair("--metrics " + file, "file with --metrics"),
          std::pair("--dump-gradients " + file, "file with --dump-gradients")}) {
      const Ended run = start_panpipe(call + output + " --transport " + transport).end();
      EXPECT_EQ(run.exit_code, 2) << output;
      EXPECT_EQ(run.err, refusal(option));
      EXPECT_EQ(read_file(file), text);
    }
}

TEST(Faults, FifosTakeWhatFilesWouldAndFoldersAreMade) {
  const std::string folder = temporary_folder();
  const std::string lines = folder + "/metrics", gradients = folder + "/gradients";
  for (const std::string& name : {lines, gradients}) ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
  auto reported = std::async(std::launch::async, [&] { return read_file(lines); });
  auto dumped = std::async(std::launch::async, [&] { return read_file(gradients); });
  const Ended run = start_panpipe(small_run("--transport local --metrics " + lines + " --dump-gradients " + gradients)).end();
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const std::string& name : {lines, gradients})  // a reader that nobody wrote to goes on
    if (const int end = open(name.c_str(), O_WRONLY | O_NONBLOCK); end >= 0) close(end);
  const Ended again = start_panpipe(small_run("--transport local --metrics " + folder + "/new/metrics --dump-gradients " +
                                              folder + "/new/er/gradients"))
                          .end();
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(reported.get(), testing::StartsWith("{\"step\":1,"));
  EXPECT_EQ(dumped.get(), read_file(folder + "/new/er/gradients"));
  EXPECT_TRUE(fs::is_fifo(lines) && fs::is_fifo(gradients));
  EXPECT_TRUE(fs::exists(folder + "/new/metrics"));
}

TEST(Faults, OutputThatCannotBeWrittenIsAMachineError) {
  const Ended run = start_panpipe(small_run("--transport local --json"), {}, "/dev/full").end();
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("panpipe: this machine cannot: cannot write to standard output: No space left on device\n"));
}

TEST(Faults, AFullDiskIsAMachineErrorOfTheRankThatWrites) {
  const std::string disk = temporary_folder();
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=4k") != 0) GTEST_SKIP() << "no tmpfs can be mounted here";
  const Ended run = start_panpipe(small_run("--transport local -o " + disk + "/out")).end();
  umount2(disk.c_str(), MNT_DETACH);
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, ContainsRegex("panpipe: this machine cannot: cannot (write|make).*No space left on device"));
}

TEST(Stopping, CtrlCEndsTheRunInOrder) {
  for (const std::string transport : {"gloo", "local"}) {
    SCOPED_TRACE(transport);
    const std::string folder = temporary_folder() + "/ck";
    Started started = start_panpipe(small_run("--steps 1000000 --checkpoint " + folder + " --transport " + transport));
    started.wait_for_rank_at_work(transport == "gloo" ? 1 : -1);
    kill(started.process(), SIGINT);
    const Ended run = started.end();
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, ContainsRegex("panpipe: stopped after step [0-9]+ as asked; checkpoint: " + folder));
    EXPECT_THAT(run.left_behind, testing::IsEmpty());
  }
}

// The watch takes a spinning thread for work, so no rank fails; a user who asks for an end gets it all the same.
TEST(Stopping, OneSignalEndsARunWhoseRankNeverComesToItsEnd) {
  Started started = start_panpipe(small_run("--steps 1000000"), {{"PANPIPE_FAULT", "rank=1,step=2,kind=spin,action=1F1"}});
  started.wait_for_rank_at_work(1);
  kill(started.process(), SIGTERM);
  const Ended run = started.end();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("panpipe: stopping: the ranks end their step"));
  EXPECT_THAT(run.err, HasSubstr("panpipe: rank 1 did not end within 2 s after it was asked to stop and was killed\n"));
  EXPECT_THAT(run.left_behind, testing::IsEmpty());
}

TEST(Stopping, KillingTheLauncherLeavesNoRank) {
  Started started = start_panpipe(small_run("--steps 1000000"));
  started.wait_for_rank_at_work(1);
  kill(started.process(), SIGKILL);
  EXPECT_THAT(started.end().left_behind, testing::IsEmpty());
}

}  // namespace
}  // namespace panpipe::test
