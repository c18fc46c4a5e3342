// How runs end, with real processes: well each time, with one report of what they resumed from, and a profile at once by Ctrl-C.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/cli/program.hpp"
#include "tests/exec/processes.hpp"

namespace panpipe::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string small(const std::string& options) { return "run " + small_scenario() + " --no-progress --threads 1 " + options; }

// The smallest GPT that `ranks` stages can share: such runs are mostly their beginning and their end.
std::string tiny_scenario(int ranks) {
  const std::string path = temporary_folder() + "/tiny.yaml";
  write_file(path, fmt::format("panpipe: 1\n"
                               "cluster: {{devices: {0}, memory: 4 GiB, link: {{latency: 10 us, bandwidth: 10 GB/s}}}}\n"
                               "workload: {{model: gpt, layers: {0}, hidden: 8, heads: 1, vocabulary: 16, sequence: 4, "
                               "tied_embedding: false}}\n"
                               "batch: {{micro: 1, microbatches: {0}}}\n"
                               "schedule: 1f1b\n"
                               "data: {{synthetic: true}}\n",
                               ranks));
  return path;
}

// A rank that leaves must not take its connections from under one that is still in the last exchange. Such a race shows in one
// run of many.
void end_well(int ranks, int times) {
  const std::string scenario = tiny_scenario(ranks);
  for (int turn = 0; turn < times; ++turn) {
    const Ended run = start_panpipe("run " + scenario + " --no-progress --threads 1 --json").end();
    ASSERT_EQ(run.exit_code, 0) << "run " << turn + 1 << ": " << run.err;
    ASSERT_EQ(run.err, "");
  }
}

TEST(Endings, EveryRunOfTwoRanksEndsWell) { end_well(2, 50); }
TEST(Endings, EveryRunOfThreeRanksEndsWell) { end_well(3, 50); }

TEST(Endings, RanksOfEveryKindOfGroupEndWell) {
  for (const std::string degrees : {"{pipeline: 1, data: 2}", "{pipeline: 1, tensor: 2}", "{pipeline: 2, data: 2, zero: 1}"}) {
    SCOPED_TRACE(degrees);
    const std::string path = temporary_folder() + "/groups.yaml";
    write_file(path, fmt::format("panpipe: 1\n"
                                 "cluster: {{devices: 4, memory: 4 GiB, link: {{latency: 10 us, bandwidth: 10 GB/s}}}}\n"
                                 "workload: {{model: gpt, layers: 2, hidden: 16, heads: 2, vocabulary: 32, sequence: 8}}\n"
                                 "batch: {{micro: 1, microbatches: 2}}\n"
                                 "parallel: {}\n"
                                 "data: {{synthetic: true}}\n",
                                 degrees));
    const std::string folder = temporary_folder() + "/ck";
    const Ended run = start_panpipe("run " + path + " --no-progress --threads 1 --json --checkpoint " + folder).end();
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_EQ(run.err, "");
    EXPECT_TRUE(fs::exists(folder + "/step-000001/manifest.json"));
  }
}

// Rank 0 fails after its last pass, where the other has nothing left to do but to meet it.
TEST(Endings, ARankThatIsLostBeforeAllAreThroughIsReported) {
  const std::string full = temporary_folder() + "/full";
  if (mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0) GTEST_SKIP() << "this user may make no device node";
  const Ended run = start_panpipe(small("--json --dump-gradients " + full)).end();
  EXPECT_EQ(run.exit_code, 3);
  const std::string cause = "cannot write " + full + ": No space left on device\n";
  EXPECT_THAT(run.err, HasSubstr("[rank 0] panpipe: this machine cannot: " + cause));
  EXPECT_THAT(run.err, HasSubstr(": rank 0 ended the run: " + cause));
  EXPECT_THAT(run.left_behind, testing::IsEmpty());
}

// A pipe whose reader is gone ends the run as it ends other tools, without a word and after all ranks are through.
TEST(Endings, AReaderThatIsGoneKillsNoRank) {
  const Ended run = Started({"/bin/bash", "-c",
                             fmt::format("set -o pipefail; {}/panpipe {} --json | true", std::getenv("PANPIPE_BIN"), small(""))},
                            {}, "")
                        .end();
  EXPECT_EQ(run.exit_code, 141);
  EXPECT_EQ(run.err, "");
}

// A scenario whose data are one tensor of zeros under this name: 4 samples of 16 ids.
std::string scenario_with_tensor(const std::string& name) {
  const std::string folder = temporary_folder();
  std::string header = R"({")" + name + R"(":{"dtype":"I64","shape":[4,16],"data_offsets":[0,512]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  write_file(folder + "/d.safetensors", length + header + std::string(512, '\0'));
  write_file(folder + "/s.yaml",
             "panpipe: 1\n"
             "cluster: {devices: 3, memory: 4 GiB, link: {latency: 10 us, bandwidth: 10 GB/s}}\n"
             "workload: {model: gpt, layers: 3, hidden: 32, heads: 4, vocabulary: 96, sequence: 16}\n"
             "batch: {micro: 1, microbatches: 3}\n"
             "data: {tensors: d.safetensors}\n");
  return folder + "/s.yaml";
}

TEST(Errors, WhatAllRanksFindIsReportedOnce) {
  const std::string scenario = scenario_with_tensor("x");
  for (const std::string transport : {"gloo", "local"}) {
    SCOPED_TRACE(transport);
    const Ended run = start_panpipe("run " + scenario + " --no-progress --threads 1 --transport " + transport).end();
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(run.err, scenario +
                           ":5:17: error: the file holds no tensor 'input_ids', which the model reads\n"
                           "  at data.tensors\n"
                           "    5 | data: {tensors: d.safetensors}\n"
                           "      |                 ^\n"
                           "  help: the model's inputs are input_ids and labels; the file holds x\n");
  }
}

std::string without_rank(std::string text) { return std::regex_replace(text, std::regex("\\[rank 0\\] "), ""); }

TEST(Resuming, WhereTrainingStartsIsReportedOnce) {
  for (const std::string transport : {"gloo", "local"}) {
    SCOPED_TRACE(transport);
    const std::string folder = temporary_folder() + "/ck";
    const auto run = [&](const std::string& options) {
      Ended ended = start_panpipe(small("--json --checkpoint " + folder + " --transport " + transport + " " + options)).end();
      ended.err = without_rank(ended.err);
      return ended;
    };
    Ended ended = run("--steps 2 --resume auto --checkpoint-every 1");
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_EQ(ended.err, "panpipe: no checkpoint in " + folder + ": training starts at step 1\n");

    // Leftovers of a run that was killed while it wrote are removed; foreign files stay.
    fs::create_directories(folder + "/.step-000009.part");
    fs::create_directories(folder + "/.step-mine.part");
    ended = run("--steps 3 --resume auto");
    EXPECT_EQ(ended.err, "panpipe: resumed from " + folder + "/step-000002: training goes on at step 3\n");
    EXPECT_FALSE(fs::exists(folder + "/.step-000009.part"));
    EXPECT_TRUE(fs::exists(folder + "/.step-mine.part"));

    write_file(folder + "/step-000003/manifest.json", "{");
    fs::remove(folder + "/step-000002/model-0.safetensors");
    ended = run("--steps 4 --resume auto");
    EXPECT_EQ(ended.err,
              "panpipe: passing over checkpoint " + folder +
                  "/step-000003: manifest.json:1:2: this is not JSON: unexpected end of input; expected string literal\n" +
                  "panpipe: passing over checkpoint " + folder + "/step-000002: model-0.safetensors is missing\n" +
                  "panpipe: resumed from " + folder + "/step-000001: training goes on at step 2\n");

    ended = run("--steps 2 --resume " + folder + "/step-000001");
    EXPECT_EQ(ended.err, "panpipe: resumed from " + folder + "/step-000001: training goes on at step 2\n" + "panpipe: " + folder +
                             " holds later checkpoints, up to step-000004: when this run writes its first, they are renamed to "
                             "step-....abandoned\n");

    for (const char* step : {"1", "2"}) write_file(folder + "/step-00000" + step + "/manifest.json", "{}");
    ended = run("--resume auto");
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_THAT(ended.err, testing::EndsWith("panpipe: no whole checkpoint in " + folder + ": training starts at step 1\n"));
  }
}

TEST(Resuming, ARunFromStepOneReplacesNoCheckpoints) {
  const std::string folder = temporary_folder() + "/ck";
  EXPECT_EQ(start_panpipe(small("--steps 2 --transport local --json --checkpoint " + folder)).end().exit_code, 0);
  const std::string before = read_file(folder + "/step-000002/manifest.json");
  const Ended run = start_panpipe(small("--steps 2 --transport local --json --checkpoint " + folder)).end();
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err,
            "error: --checkpoint: " + folder +
                " holds checkpoints of an earlier run, the newest step-000002: go on from it with --resume auto, or give "
                "another folder\n");
  EXPECT_EQ(read_file(folder + "/step-000002/manifest.json"), before);
}

TEST(Resuming, AMetricsFileHoldsEveryStepOnce) {
  const std::string folder = temporary_folder(), metrics = folder + "/m.jsonl";
  const std::string options = "--transport local --json --checkpoint " + folder + "/ck --metrics " + metrics;
  EXPECT_EQ(start_panpipe(small("--steps 3 --checkpoint-every 2 " + options)).end().exit_code, 0);
  fs::remove_all(folder + "/ck/step-000003");                                   // as if killed in the third step,
  std::ofstream(metrics, std::ios::app) << "# a note\n{\"step\":4,\"loss\":1";  // in the middle of a line
  EXPECT_EQ(start_panpipe(small("--steps 4 --resume auto " + options)).end().exit_code, 0);
  const std::string text = read_file(metrics);
  std::vector<std::string> begins;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    begins.push_back(text.substr(begin, 8));
  EXPECT_THAT(begins, testing::ElementsAre("{\"step\":", "{\"step\":", "# a note", "{\"step\":", "{\"step\":"));
  EXPECT_THAT(text, ContainsRegex("^\\{\"step\":1,.*\n\\{\"step\":2,.*\n# a note\n\\{\"step\":3,.*\n\\{\"step\":4,.*\n$"));
}

// Rank 1 is killed in the third step, behind the checkpoint of the second: its line is there before the run goes on.
TEST(Resuming, AMetricsFileHoldsTheStepOfACheckpointBeforeAKilledRank) {
  const std::string folder = temporary_folder(), metrics = folder + "/m.jsonl", scenario = folder + "/s.yaml";
  std::string tokens;  // 64 samples of 4, in two bytes each
  for (int i = 0; i <= 64 * 4; ++i) tokens += static_cast<char>(i % 16), tokens += '\0';
  write_file(folder + "/tokens", tokens);
  write_file(scenario,
             "panpipe: 1\n"
             "cluster: {devices: 2, memory: 4 GiB, link: {latency: 10 us, bandwidth: 10 GB/s}}\n"
             "workload: {model: gpt, layers: 2, hidden: 8, heads: 1, vocabulary: 16, sequence: 4}\n"
             "batch: {micro: 1, microbatches: 2}\n"
             "schedule: 1f1b\n"
             "data: {tokens: tokens, held_out: 20 %}\n"
             "training: {evaluate: {every: 2, steps: 1}}\n");
  const std::string run = "run " + scenario + " --no-progress --threads 1 --transport gloo --device cpu --deadline 2 --steps 4 " +
                          "--json --checkpoint " + folder + "/ck --checkpoint-every 1 --resume auto --metrics " + metrics;
  EXPECT_EQ(start_panpipe(run, {{"PANPIPE_FAULT", "rank=1,step=2,action=1F1,kind=kill"}}).end().exit_code, 1);
  EXPECT_TRUE(fs::exists(folder + "/ck/step-000002/manifest.json"));
  EXPECT_THAT(read_file(metrics), ContainsRegex("^\\{\"step\":1,.*\n\\{\"step\":2,.*\"validation_loss\".*\n$"));
  const Ended resumed = start_panpipe(run).end();
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("training goes on at step 3\n"));
  EXPECT_THAT(read_file(metrics), ContainsRegex("^\\{\"step\":1,.*\n\\{\"step\":2,.*\"validation_loss\".*\n\\{\"step\":3,.*\n"
                                                "\\{\"step\":4,.*\n$"));
}

TEST(Stopping, CtrlCEndsAProfileAtOnceAndWritesNothing) {
  for (const std::string transport : {"gloo", "local"}) {
    for (const int signal : {SIGINT, SIGTERM}) {
      SCOPED_TRACE(transport + " " + strsignal(signal));
      const std::string folder = temporary_folder();
      Started started = start_panpipe("profile " + small_scenario() + " --threads 1 --repetitions 1000000 --seconds 3600 -o " +
                                      folder + "/profile.yaml --operators " + folder + "/operators.csv --transport " + transport);
      started.wait_for_rank_at_work(transport == "gloo" ? 1 : -1);
      kill(started.process(), signal);
      const Ended profile = started.end();
      EXPECT_EQ(profile.exit_code, 130);
      EXPECT_EQ(profile.err, "panpipe: stopped as asked: no profile was written\n");
      for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename();
        EXPECT_TRUE(name == "out" || name == "err") << name;
      }
      EXPECT_THAT(profile.left_behind, testing::IsEmpty());
    }
  }
}

}  // namespace
}  // namespace panpipe::test
