// panpipe sweep: what it takes, refuses, and answers in each cell.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/simulate.hpp"
#include "tests/cli/program.hpp"
#include "tests/study/sweep/same_folder.hpp"

namespace panpipe::study {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";

TEST(SweepVerb, UnknownKeysAreMistakesOfTheCall) {
  const test::Outcome run = test::panpipe("sweep " + kGpt2 + " --over parallel.pipelin=2,4");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err,
            "--over parallel.pipelin=2: error: unknown key 'pipelin', did you mean 'pipeline'?\n"
            "  at parallel.pipelin\n"
            "      | parallel.pipelin=2\n"
            "      |          ^\n");
  EXPECT_EQ(test::panpipe("sweep nowhere.yaml --over parallel.pipeline=2,4").err, "nowhere.yaml: error: there is no such file\n");
}

TEST(SweepVerb, ValuesThatAreRefusedAreCells) {
  const test::Outcome run =
      test::panpipe("sweep " + kGpt2 + " --over schedule=1f1b,zb-h,stp --over parallel.pipeline=2,8 --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json cells = json::parse(run.out)["cells"];
  ASSERT_EQ(cells.size(), 6U);
  EXPECT_EQ(cells[0]["status"], "does not fit");
  EXPECT_EQ(cells[1]["status"], "fits");
  EXPECT_EQ(cells[2]["status"], "refused");
  EXPECT_EQ(cells[2]["reason"], "unknown schedule 'zb-h', did you mean 'zb-h1'?");
  EXPECT_EQ(cells[4]["status"], "does not fit");
  EXPECT_THAT(cells[4]["reason"].get<std::string>(), HasSubstr("GiB of 23.7 GiB"));
  EXPECT_THAT(cells[5]["reason"].get<std::string>(), HasSubstr("stp needs at least 3P-1 = 23 microbatches on 8 ranks, not 8"));
  const json alone =
      json::parse(test::panpipe("estimate " + kGpt2 + " --set schedule=1f1b --set parallel.pipeline=8 --json").out);
  for (const auto& [name, value] : cells[1]["metrics"].items()) EXPECT_EQ(alone["metrics"][name], value) << name;
  const test::Outcome none = test::panpipe("sweep " + kGpt2 + " --over schedule=zb-h,zb-hh");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.out, HasSubstr("refused: unknown schedule 'zb-h'"));
}

TEST(SweepVerb, SimulatedCellsEqualTheSimulation) {
  if (!sim::has_backend(sim::Backend::SimGrid)) GTEST_SKIP() << "this build has no SimGrid";
  const std::string clusters = " --over cluster=clusters/rtx3090x8.yaml,clusters/rtx3090x8-nobridge.yaml";
  const test::Outcome two = test::panpipe("sweep " + kGpt2 + clusters + " --engine simulate --threads 2 --json");
  const test::Outcome one = test::panpipe("sweep " + kGpt2 + clusters + " --engine simulate --threads 1 --json");
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(one.out, two.out);
  const json cells = json::parse(two.out)["cells"];
  const json alone =
      json::parse(test::panpipe("simulate " + kGpt2 + " --set cluster=clusters/rtx3090x8-nobridge.yaml --json").out);
  EXPECT_EQ(cells[1]["metrics"]["step_time_s"], alone["metrics"]["step_time_s"]);
  EXPECT_EQ(cells[1]["metrics"]["contention_s"], alone["metrics"]["contention_s"]);
}

TEST(SweepVerb, ThePlannerChoosesInEachCell) {
  const test::Outcome run = test::panpipe("sweep " + kGpt2 + " --plan-each --method pfeife --over batch.microbatches=2,4 --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json document = json::parse(run.out);
  EXPECT_EQ(document["plan_each"], "pfeife");
  for (const json& cell : document["cells"]) {
    EXPECT_THAT(cell["plan"].get<std::string>(), HasSubstr("pfeife"));
    EXPECT_GT(cell["metrics"]["step_time_s"], 0);
  }
  EXPECT_EQ(test::panpipe("sweep " + kGpt2 + " --plan-each --method pfeif --over batch.micro=1").exit_code, 2);
}

// With degrees, microbatches, schedule and recompute open, and the batch stated as a whole.
TEST(SweepVerb, ACellIsTheEstimateOfItsPlan) {
  const std::string open = kGpt2 +
                           " --method auto --set parallel.pipeline=auto --set parallel.data=auto --set parallel.tensor=auto "
                           "--set schedule=auto --set recompute=auto --set 'batch={micro: auto, global: 32}'";
  const std::string plan = test::temporary_folder() + "/plan.yaml";
  ASSERT_EQ(test::panpipe("plan " + open + " -o " + plan).exit_code, 0);
  const test::Outcome run = test::panpipe("sweep " + open + " --plan-each --over seed=0,1 --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json alone = json::parse(test::panpipe("estimate " + kGpt2 + " --plan " + plan + " --json").out);
  const json cells = json::parse(run.out)["cells"];
  for (const json& cell : cells)
    for (const char* figure : {"step_time_s", "peak_memory_bytes", "mfu", "samples_per_s"})
      EXPECT_EQ(cell["metrics"][figure], alone["metrics"][figure]) << figure;
}

// The fullest device takes 18.7 GiB; 80 % of 24 GiB are 19.2: 3 % more, less than the memory model's error of 5 %. 86 % are
// enough.
TEST(SweepVerb, HardlyAnythingLeftIsReported) {
  const test::Outcome run = test::panpipe("sweep " + kGpt2 + " --over 'usable=80 %,86 %' --over schedule=zb-h1,gpipe");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("best; tight: device 1 needs 18.6 GiB of 19.2 GiB\n"));
  EXPECT_THAT(run.out, HasSubstr("18.6 GiB (tight: device 1 needs 18.6 GiB of 19.2 GiB)"));
  EXPECT_THAT(run.out, HasSubstr("best for usable=86 %: schedule=zb-h1"));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("tight: device 1 needs 18.6 GiB of 20.6")));
}

// Wherever the signal falls (before the first cell, in the middle, after the last), the same call goes on to the same bytes.
TEST(SweepVerb, GoesOnAfterCtrlC) {
  const std::string folder = test::temporary_folder();
  const std::string call =
      "sweep " + kGpt2 + " --over batch.microbatches=8,16,32,64,128,256 --over schedule=1f1b,zb-h1,gpipe -o " + folder;
  ASSERT_EQ(test::panpipe(call + "/whole").exit_code, 0);
  const std::string command =
      fmt::format("cd .. && timeout -s INT 0.1 '{}/panpipe' {}/parts >/dev/null 2>&1", std::getenv("PANPIPE_BIN"), call);
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 124)) << status;  // 124: it was in time
  ASSERT_EQ(test::panpipe(call + "/parts").exit_code, 0);
  expect_same_folder(folder + "/whole", folder + "/parts");
}

TEST(SweepVerb, OptionsThatDoNotGoTogether) {
  EXPECT_EQ(test::panpipe("sweep " + kGpt2 + " --over batch.micro=1 --shard 3/2").err,
            "error: --shard 3/2: a shard is I/N with I from 1 to N, as in --shard 2/8\n");
  EXPECT_EQ(test::panpipe("sweep " + kGpt2 + " --over batch.micro=1 --engine simulat").err,
            "--engine: error: there is no 'simulat', did you mean 'simulate'?\n");
  EXPECT_EQ(test::panpipe("sweep " + kGpt2 + " --over batch.micro=1 --json --csv").err,
            "error: panpipe sweep: give --json or --csv, not both\n");
  EXPECT_EQ(test::panpipe("sweep --over batch.micro=1").exit_code, 2);
}

TEST(SweepVerb, MergedShardsEqualTheWhole) {
  const std::string folder = test::temporary_folder();
  const std::string call = "sweep " + kGpt2 + " --over schedule=1f1b,zb-h1 --over batch.microbatches=8,16,32 -o " + folder;
  ASSERT_EQ(test::panpipe(call + "/whole").exit_code, 0);
  ASSERT_EQ(test::panpipe(call + "/1 --shard 1/2").exit_code, 0);
  const test::Outcome half = test::panpipe("sweep --merge " + folder + "/1");
  EXPECT_EQ(half.exit_code, 1);
  EXPECT_EQ(half.err, "panpipe: 3 of 6 cells are in none of the folders\n");
  ASSERT_EQ(test::panpipe(call + "/2 --shard 2/2").exit_code, 0);
  ASSERT_EQ(test::panpipe("sweep --merge " + folder + "/1 " + folder + "/2 -o " + folder + "/both").exit_code, 0);
  expect_same_folder(folder + "/whole", folder + "/both");
}

}  // namespace
}  // namespace panpipe::study
