// Files that are no files: standard input as `-`, a named FIFO; and the places of faults in options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";

// From a pipe, which can be read once, and from a file, which can be read again.
TEST(Inputs, ADashIsStandardInputWhereverAFileIsRead) {
  const std::string folder = temporary_folder();
  ASSERT_EQ(panpipe("estimate " + kGpt2 + " -o " + folder).exit_code, 0);
  write_file(folder + "/order.csv", panpipe("schedule 1f1b --ranks 2 --microbatches 2 --csv").out);
  struct Case {
    std::string verb, file, rest;
  };
  for (const Case& each :
       {Case{"estimate", folder + "/scenario.yaml", " --json"}, Case{"check", "scenarios/clusters/dgx-a100-80g.yaml", " --links"},
        Case{"estimate " + kGpt2 + " --plan", folder + "/plan.yaml", " --json"},
        Case{"schedule", folder + "/order.csv", " --json"}, Case{"compare " + folder, folder + "/result.json", ""}}) {
    const std::string named = answer_of(each.verb + " " + each.file + each.rest);
    for (const std::string& before : {"cat " + each.file + " |", "<" + each.file}) {
      const Outcome piped = panpipe_after(before, each.verb + " -" + each.rest);
      EXPECT_EQ(piped.exit_code, 0) << before << each.verb << piped.err;
      if (each.rest != " --json") continue;
      const json one = json::parse(named), other = json::parse(piped.out);
      for (const char* key : {"metrics", "actions"}) EXPECT_EQ(one.value(key, json()), other.value(key, json())) << each.verb;
    }
  }
}

TEST(Inputs, AResultNamesStandardInputByItsHash) {
  const Outcome named = panpipe("estimate --json " + kGpt2);
  // The files that it names are found from the data folder.
  const Outcome piped = panpipe_after("cat " + kGpt2 + " |", "estimate --json -");
  ASSERT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(json::parse(piped.out)["context"]["hashes"]["/dev/stdin"], json::parse(named.out)["context"]["hashes"][kGpt2]);
}

TEST(Inputs, FaultsOfStandardInputHaveAPlace) {
  const Outcome run = panpipe_after("printf 'panpipe: 1\\nclusters: x\\n' |", "estimate -");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("/dev/stdin:2:1: error: unknown key 'clusters', did you mean 'cluster'?"));
}

TEST(Inputs, ANamedFifoIsOpenedOnce) {
  const std::string fifo = temporary_folder() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const Outcome run = panpipe_after("cat " + kGpt2 + " >" + fifo + " & timeout 60", "estimate --json " + fifo);
  ASSERT_EQ(run.exit_code, 0) << run.err;  // 124: it was opened again, and waited
  EXPECT_EQ(json::parse(run.out)["context"]["hashes"][fifo],
            json::parse(panpipe("estimate --json " + kGpt2).out)["context"]["hashes"][kGpt2]);
}

// Here ranks are programs that print the first line of what they read.
TEST(Inputs, RanksReadStandardInputToo) {
  const std::string folder = temporary_folder(), fifo = folder + "/fifo";
  std::filesystem::copy(std::string(std::getenv("PANPIPE_BIN")) + "/panpipe", folder + "/panpipe");
  write_file(folder + "/panpipe-exec", "#!/bin/sh\nhead -n 5 /dev/stdin | tail -n 1\n");
  std::filesystem::permissions(folder + "/panpipe-exec", std::filesystem::perms::owner_all);
  const std::string command = "cd .. && cat scenarios/runs/gpt-small-cpu-x2.yaml | CUDA_VISIBLE_DEVICES= " + folder +
                              "/panpipe run - --transport gloo >" + folder + "/out 2>" + folder + "/err";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0) << read_file(folder + "/err");
  const std::string line = "cluster: {devices: 2, memory: 4 GiB, link: {latency: 60 us, bandwidth: 2 GB/s}}\n";
  EXPECT_EQ(read_file(folder + "/out"), line) << "rank 0's output is the launcher's";
  EXPECT_THAT(read_file(folder + "/err"), HasSubstr(line));

  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(panpipe("run " + fifo).err,
            "error: " + fifo + ": every rank reads the scenario, and a FIFO can be read once; give a file, or - with `< " + fifo +
                "`\n");
}

TEST(Inputs, AnOutputOntoTheFileOnStandardInputIsRefused) {
  const std::string file = temporary_folder() + "/s.yaml", text = read_file("../" + kGpt2);
  write_file(file, text);
  const Outcome run = panpipe_after("<" + file, "plan --method pfeife - -o " + file);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(read_file(file), text);
}

// The place is the option, not the file's first line or a key that was right before.
TEST(Inputs, FaultsOfOverridesStandAtTheOverride) {
  const std::string s = temporary_folder() + "/s.yaml";
  write_file(s,
             "panpipe: 1\ncluster: rtx3090x8\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 8}\nschedule: {name: "
             "1f1b}\n");
  for (const auto& [set, message] : std::vector<std::pair<std::string, std::string>>{
           {"batch.microbatches=1000001", "microbatches must be 1 to 1000000, not 1000001"},
           {"batch.microbatches=1000000",
            "8 ranks with 1 stage each and 1000000 microbatches make up to 24 million actions; at most 6 million are "
            "taken, what 8 GB of memory hold"},
           {"cluster.nodes=20000", "ranks must be 1 to 100000, not 160000"},
           {"schedule.sequence_splits=2", "the schedule 1f1b has no option 'sequence_splits'"}}) {
    EXPECT_THAT(refusal_of("estimate " + s + " --set " + set), StartsWith("--set " + set + ": error: " + message)) << set;
  }
}

TEST(Check, TheSummaryComesFirstAndValuesOfFilesWhenAskedFor) {
  const Outcome run = panpipe("check " + kGpt2);
  const auto verdict = run.out.find("# 8 stages on 8 devices: legal\n");
  EXPECT_LT(verdict, run.out.find("\ncluster:")) << run.out;
  EXPECT_THAT(run.out, testing::Not(HasSubstr("# wiring.")));
  EXPECT_LT(std::count(run.out.begin(), run.out.end(), '\n'), 50);
  const Outcome all = panpipe("check --all " + kGpt2);
  EXPECT_THAT(all.out, HasSubstr("  # wiring."));
  // Nothing else is left out: with the lines that are comments inside, it is the same text.
  const long more = std::count(all.out.begin(), all.out.end(), '\n') - std::count(run.out.begin(), run.out.end(), '\n') + 1;
  EXPECT_THAT(run.out, HasSubstr("\n# --all shows " + std::to_string(more) +
                                 " more values, of the files and the model that are named here\n"));
}

TEST(Check, WhyNoCutMayStandInsideAUnitIsReportedWhenAskedFor) {
  const std::string units = panpipe("check --units " + kGpt2).out, all = panpipe("check --units --all " + kGpt2).out;
  EXPECT_THAT(units, testing::Not(HasSubstr("not before")));
  EXPECT_THAT(all, HasSubstr("       not before "));
  const long reasons = std::count(all.begin(), all.end(), '\n') - std::count(units.begin(), units.end(), '\n') + 1;
  EXPECT_THAT(units, HasSubstr("--all shows why no cut may stand inside these units (" + std::to_string(reasons) + " lines)\n"));
}

TEST(Plan, ThePlanIsReportedInWordsAndRates) {
  const Outcome run = panpipe("plan --verbose --method pfeife " + kGpt2);
  EXPECT_THAT(run.out, HasSubstr("\n  pfeife: looped 1f1b in groups of microbatches, forwards run ahead\n"));
  EXPECT_THAT(run.out, testing::ContainsRegex("\n  [0-9.]+ samples/s, [0-9,]+ tokens/s, MFU [0-9.]+ %\n"));
  EXPECT_THAT(panpipe("estimate " + kGpt2).out, testing::ContainsRegex("; [0-9.]+ samples/s, [0-9,]+ tokens/s, MFU [0-9.]+ %\n"));
}

}  // namespace
}  // namespace panpipe::test
