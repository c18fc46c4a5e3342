// What files of evidence are taken for, and what is reported of those that are none, repeat another, or are of another job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

json answer(const std::string& arguments) { return json::parse(answer_of(arguments)); }

// 64 samples a step on one node: micro 4 x 16.
std::string scenario_with(const std::string& more = "", const std::string& trainer = "trainer: megatron-core\n") {
  return write_file(temporary_folder() + "/job.yaml",
                    "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, nodes: 1}\n"
                    "workload: {model: gpt, layers: 24, hidden: 2048, heads: 16, sequence: 2048, vocabulary: 51200}\n"
                    "batch: {micro: 4, microbatches: 16}\nprecision: bf16\nparallel: {tensor: 8}\n" +
                        trainer + more);
}

double predicted_s(const std::string& scenario) { return answer("estimate --json " + scenario)["metrics"]["step_time_s"]; }

// Lines of Megatron-LM, without its arguments.
std::string log_of(const std::function<std::string(int)>& milliseconds, int samples = 64, int steps = 12) {
  std::string text;
  for (int i = 1; i <= steps; ++i)
    text += " iteration " + std::to_string(i) +
            "/ 1000 | consumed samples: 8 | elapsed time per iteration (ms): " + milliseconds(i) +
            " | global batch size: " + std::to_string(samples) + " | lm loss: 2 |\n";
  return text;
}
std::string log_of(double seconds, int samples = 64) {
  return log_of([&](int) { return std::to_string(1000 * seconds); }, samples);
}

json pieces_of(const std::string& scenario, const std::vector<std::string>& files) {
  std::string arguments = "estimate --json " + scenario;
  for (const std::string& file : files) arguments += " --evidence " + file;
  return answer(arguments)["evidence"]["pieces"];
}

std::string refusal_of_file(const std::string& name, const std::string& bytes) {
  const std::string file = write_file(temporary_folder() + "/" + name, bytes);
  return refusal_of("estimate " + scenario_with() + " --evidence " + file);
}

TEST(EvidenceFiles, AResumedSweepReadsChangedEvidence) {
  const std::string scenario = scenario_with(), folder = temporary_folder();
  const double predicted = predicted_s(scenario);
  const std::string log = write_file(folder + "/run.log", log_of(1.05 * predicted));
  const std::string call = "sweep " + scenario + " --json --over batch.micro=2,4 --evidence " + log + " -o " + folder + "/sweep";
  const json first = answer(call);
  EXPECT_TRUE(first["context"]["hashes"].contains(log)) << first["context"];
  write_file(log, log_of(1.1 * predicted));
  const json second = answer(call);
  EXPECT_NE(first["context"]["hashes"][log], second["context"]["hashes"][log]);
  for (const int cell : {0, 1})
    EXPECT_LT(first["cells"][cell]["metrics"]["step_time_p50_s"], second["cells"][cell]["metrics"]["step_time_p50_s"]);
  EXPECT_EQ(second, answer(call));
}

TEST(EvidenceFiles, ASweepShowsWhatEvidenceDid) {
  const std::string scenario = scenario_with(), folder = temporary_folder();
  const double predicted = predicted_s(scenario);
  const std::string log = write_file(folder + "/run.log", log_of(1.05 * predicted)),
                    wrong = write_file(folder + "/wrong.log", log_of(100 * predicted)),
                    over = "sweep " + scenario + " --over batch.micro=2,4";
  const std::string shown = answer_of(over + " --evidence " + log + " --evidence " + wrong);
  EXPECT_THAT(shown, HasSubstr("evidence, as it counts for batch.micro=2:"));
  EXPECT_THAT(shown, AllOf(HasSubstr("run.log (log): "), HasSubstr("  median  "), HasSubstr(", half above ")));
  EXPECT_THAT(shown, HasSubstr("left out: it lies outside all that was ever measured"));
  EXPECT_THAT(answer_of(over), AllOf(Not(HasSubstr("median")), Not(HasSubstr("half above"))));
}

// The lines state 9,999 samples, and the scenario has 64.
TEST(EvidenceFiles, ALogOfAnotherBatchIsLeftOut) {
  const std::string scenario = scenario_with(), folder = temporary_folder();
  const std::string log = write_file(folder + "/run.log", log_of(predicted_s(scenario), 9999));
  EXPECT_EQ(pieces_of(scenario, {log})[0].value("left_out", ""), "it states 9999 samples a step, and this scenario has 64");
  EXPECT_THAT(answer_of("import log " + log + " --job " + scenario),
              HasSubstr("CONTRADICTION: it states 9999 samples a step, and this scenario has 64"));
}

TEST(EvidenceFiles, TwoImpossibleLogsFailLikeOne) {
  const std::string scenario = scenario_with(), folder = temporary_folder();
  const double predicted = predicted_s(scenario);
  const std::string a = write_file(folder + "/a.log", log_of(100 * predicted)),
                    b = write_file(folder + "/b.log", log_of(101 * predicted)),
                    right = write_file(folder + "/right.log", log_of(1.05 * predicted));
  for (const json& piece : pieces_of(scenario, {a, b}))
    EXPECT_THAT(piece.value("left_out", ""), HasSubstr("outside all that was ever measured")) << piece;
  const json three = pieces_of(scenario, {a, right, b});
  EXPECT_TRUE(three[0].contains("left_out") && three[2].contains("left_out")) << three;
  EXPECT_FALSE(three[1].contains("left_out")) << three;
  EXPECT_THAT(three[0]["what"].get<std::string>(), HasSubstr("100 times as long as predicted"));
}

TEST(EvidenceFiles, ACopyCountsOnceAndThisIsSaid) {
  const std::string scenario = scenario_with(), folder = temporary_folder();
  const std::string log = write_file(folder + "/run.log", log_of(1.05 * predicted_s(scenario)));
  std::filesystem::copy_file(log, folder + "/copy.log");
  const json once = answer("estimate --json " + scenario + " --evidence " + log);
  const json twice = answer("estimate --json " + scenario + " --evidence " + log + " --evidence " + folder + "/copy.log");
  EXPECT_EQ(once["metrics"], twice["metrics"]);
  EXPECT_EQ(twice["evidence"]["pieces"][1]["left_out"], "it holds the same as " + log + ", and counts once");
  EXPECT_EQ(pieces_of(scenario, {log, log})[1]["left_out"], "it is named twice, and counts once");
}

// Rows count once each, however they are named.
TEST(EvidenceFiles, ARowCountsOnce) {
  const std::string folder = temporary_folder(), scenario = scenario_with();
  const std::string step = std::to_string(1.05 * predicted_s(scenario));
  const std::string name = std::filesystem::path(scenario).filename().string();
  std::filesystem::copy_file(scenario, folder + "/" + name);
  const std::string table = write_file(
      folder + "/runs.csv", "id,source,scenario,step_s\na,mine," + name + "," + step + "\nb,mine," + name + "," + step + "\n");
  const auto interval = [&](const std::string& pieces) {
    json metrics = answer("estimate --json " + scenario_with("evidence: [" + pieces + "]\n"))["metrics"];
    return std::pair(metrics["step_time_p10_s"], metrics["step_time_p90_s"]);
  };
  const auto both = interval("{rows: " + table + ", ids: [a, b]}");
  EXPECT_EQ(both, interval("{rows: " + table + ", ids: [a]}, {rows: " + table + ", ids: [a, b, a]}"));
  EXPECT_EQ(both, interval("{rows: " + table + ", ids: [b]}, " + table));
  EXPECT_NE(both, interval("{rows: " + table + ", ids: [a]}"));
}

// The remedy that is named works, with `trainer` and with `framework`.
TEST(EvidenceFiles, TheHintOfTheTrainerHelps) {
  const std::string folder = temporary_folder();
  for (const auto& [stated, remedy] :
       {std::pair("trainer: torchtitan\n", "trainer: megatron-core"),
        std::pair("framework: {name: torchtitan}\n", "framework: {name: megatron-core}"),
        std::pair("trainer: megatron-core\nframework: {name: torchtitan}\n", "framework: {name: megatron-core}")}) {
    const std::string scenario = scenario_with("", stated);
    const std::string log = write_file(folder + "/run.log", log_of(predicted_s(scenario_with())));
    EXPECT_THAT(pieces_of(scenario, {log})[0].value("left_out", ""), HasSubstr("'" + std::string(remedy) + "' in " + scenario))
        << stated;
    EXPECT_FALSE(pieces_of(scenario_with("", std::string(remedy) + "\n"), {log})[0].contains("left_out")) << remedy;
  }
}

TEST(EvidenceFiles, WhatIsNoEvidenceIsNamed) {
  EXPECT_THAT(refusal_of_file("runs.csv", "id,source\na,b\n"), HasSubstr("this is a table without the column 'step_s'"));
  EXPECT_THAT(refusal_of_file("noid.csv", "gpu,step_s\nb,1\n"), HasSubstr("this is a table without the column 'id'"));
  EXPECT_THAT(refusal_of_file("job.yaml", "panpipe: 1\nworkload: {model: gpt}\n"),
              AllOf(HasSubstr("this is a scenario"), HasSubstr("{log: FILE, job: ")));
  EXPECT_THAT(refusal_of_file("c.yaml", "panpipe: 1\nkind: cluster\n"), HasSubstr("a file of the kind 'cluster'"));
  EXPECT_THAT(refusal_of_file("nccl.txt", "# nThread 1 nGpus 8 minBytes 8\n"),
              AllOf(HasSubstr("nccl"), Not(HasSubstr("Megatron-LM"))));
  EXPECT_THAT(refusal_of_file("empty.log", ""), HasSubstr("the file is empty"));
  const std::string scenario = scenario_with(), folder = temporary_folder();
  EXPECT_THAT(refusal_of("estimate " + scenario + " --evidence " + folder),
              HasSubstr("this is a folder, and a piece of evidence"));
  EXPECT_THAT(refusal_of("estimate " + scenario + " --evidence /dev/zero"), HasSubstr("this is a device or a pipe"));
}

// gzip's front, and no trace behind it.
TEST(EvidenceFiles, APackedLogIsSaidToBePacked) {
  const std::string folder = temporary_folder(), scenario = scenario_with();
  const std::string log = write_file(folder + "/run.log", log_of(1));
  ASSERT_EQ(std::system(("gzip " + log).c_str()), 0);
  EXPECT_THAT(refusal_of("estimate " + scenario + " --evidence " + log + ".gz"),
              AllOf(HasSubstr("this is packed by gzip"), HasSubstr("zcat " + log + ".gz > plain.log")));
}

TEST(EvidenceFiles, TheKeySaysWhatTheFileIs) {
  const std::string folder = temporary_folder();
  const std::string log = write_file(folder + "/ok.log", log_of(1)), table = write_file(folder + "/runs.csv", "id,step_s\na,1\n");
  EXPECT_THAT(refusal_of("estimate " + scenario_with("evidence: [{rows: " + log + "}]\n")),
              AllOf(HasSubstr("this is a training log, and 'rows' names a table of runs"), HasSubstr("{log: " + log + "}")));
  EXPECT_THAT(refusal_of("estimate " + scenario_with("evidence: [{log: " + table + "}]\n")),
              AllOf(HasSubstr("this is a table of runs, and 'log' names"), HasSubstr("{rows: " + table + "}")));
}

TEST(EvidenceFiles, AFaultInANamedFileSaysWhoNamesIt) {
  const std::string folder = temporary_folder();
  const std::string log = write_file(folder + "/ok.log", log_of(1)),
                    job = write_file(folder + "/bad.yaml", "panpipe: 1\nprecision: bf99\n");
  EXPECT_THAT(refusal_of("estimate " + scenario_with("evidence: [{log: " + log + ", job: " + job + "}]\n")),
              AllOf(HasSubstr(job + ":2:12"), HasSubstr("evidence[0].job names this file")));
}

TEST(EvidenceFiles, TimesThatAreNoneAreSaid) {
  EXPECT_THAT(refusal_of_file("nan.log", log_of([](int) { return "nan"; })), HasSubstr("the last states nan s"));
  EXPECT_THAT(refusal_of_file("negative.log", log_of([](int) { return "-5.0"; })), HasSubstr("the last states -0.005 s"));
}

TEST(EvidenceFiles, OneStepIsOneStep) {
  const std::string scenario = scenario_with(), folder = temporary_folder();
  const double predicted = predicted_s(scenario);
  const std::string log = write_file(folder + "/one.log", log_of([&](int) { return std::to_string(1000 * predicted); }, 64, 1));
  EXPECT_THAT(pieces_of(scenario, {log})[0]["what"].get<std::string>(), HasSubstr("1 step of "));
}

}  // namespace
}  // namespace panpipe::test
