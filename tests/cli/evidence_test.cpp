// `evidence:` and `--evidence`: what was measured on a machine narrows what is predicted of it, alike in every verb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Tests run in tests/, and the program in the folder above.
const std::string kSources = std::filesystem::absolute("..").lexically_normal().string();
const std::string kLogs = kSources + "validation/logs/";

// The job of a published log on V100, with what else its file states.
std::string scenario_with(const std::string& more = "") {
  const std::string file = temporary_folder() + "/job.yaml";
  answer_of("import log " + kLogs + "megatron-gpt-18b-v100x16.log --cluster " + kLogs + "jean-zay-v100.yaml -o " + file);
  write_file(file, read_file(file) + more);
  return file;
}

json answer(const std::string& arguments) { return json::parse(answer_of(arguments)); }

double middle(const json& document) { return document["metrics"]["step_time_p50_s"]; }

void expect_same_interval(const json& a, const json& b) {
  for (const char* name : {"step_time_p10_s", "step_time_p50_s", "step_time_p90_s"}) EXPECT_EQ(a[name], b[name]) << name;
}

// The step lines of a published log, without its arguments, and with its times multiplied.
std::string log_without_job(double factor) {
  std::string text;
  std::istringstream lines(read_file(kLogs + "megatron-gpt-18b-v100x16.log"));
  const std::string name = "elapsed time per iteration (ms): ";
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(name);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + name.size(), end = line.find(' ', begin);
    const double milliseconds = std::stod(line.substr(begin, end - begin));
    text += line.substr(0, begin) + std::to_string(milliseconds * factor) + line.substr(end) + "\n";
  }
  EXPECT_FALSE(text.empty());
  return text;
}

TEST(Evidence, ALogNarrowsAndMovesTheStep) {
  const std::string scenario = scenario_with();
  const json before = answer("estimate --json " + scenario);
  const json after = answer("estimate --json " + scenario + " --evidence " + kLogs + "megatron-gpt-30b-v100x32.log");
  EXPECT_EQ(before["metrics"]["step_time_s"], after["metrics"]["step_time_s"]);
  ASSERT_EQ(after["evidence"]["pieces"].size(), 1U);
  const json& piece = after["evidence"]["pieces"][0];
  EXPECT_EQ(piece["kind"], "log");
  EXPECT_LT(piece["half_width_after"], piece["half_width_before"]);
  EXPECT_FALSE(piece.contains("left_out")) << piece;
  EXPECT_THAT(piece["what"].get<std::string>(), HasSubstr("of the job that it states, on this machine"));
  EXPECT_EQ(after["evidence"]["before"]["step_time_p50_s"], before["metrics"]["step_time_p50_s"]);
  EXPECT_NE(middle(before), middle(after));
  EXPECT_TRUE(before["evidence"]["pieces"].empty());
}

// Of the scenario's own log the measured step lies inside the interval, whose width is of one more run.
TEST(Evidence, ItsOwnLogIsNearlyTheAnswer) {
  const std::string log = temporary_folder() + "/run.log";
  write_file(log, log_without_job(1));
  const std::string scenario = scenario_with("evidence: [" + log + "]\n");
  const json document = answer("estimate --json " + scenario);
  const json& piece = document["evidence"]["pieces"][0];
  EXPECT_THAT(piece["what"].get<std::string>(), HasSubstr("of the scenario in its file: the log states no job"));
  EXPECT_LT(piece["half_width_after"], 0.12);
  EXPECT_THAT(answer_of("estimate " + scenario), HasSubstr("by the evidence, half of the runs take more than"));
  // Another split is asked for: the log stays one of the split in the file.
  const json other =
      answer("estimate --json " + scenario + " --set parallel.pipeline=8 --set parallel.tensor=2 --set partition=auto");
  EXPECT_EQ(other["evidence"]["pieces"][0]["what"], piece["what"]);
  EXPECT_GE(other["evidence"]["pieces"][0]["half_width_after"], piece["half_width_after"]);
}

TEST(Evidence, EveryVerbShowsTheSameInterval) {
  const std::string log = kLogs + "megatron-gpt-30b-v100x32.log";
  const std::string scenario = scenario_with("evidence: [" + log + "]\n"), plain = scenario_with();
  const json expected = answer("estimate --json " + scenario)["metrics"];
  expect_same_interval(answer("estimate --json " + plain + " --evidence " + log)["metrics"], expected);
  expect_same_interval(answer("support --json " + scenario), expected);
  const json planned = answer("plan --json " + plain + " --evidence " + log);
  expect_same_interval(planned["yours"]["metrics"], expected);
  EXPECT_THAT(answer_of("plan " + scenario), HasSubstr("evidence corrects times; the order of the plans hardly changes by it"));
  const json swept = answer("sweep --json " + plain + " --over batch.micro=1,2 --evidence " + log);
  EXPECT_EQ(swept["cells"][0]["metrics"]["step_time_p50_s"], expected["step_time_p50_s"]);
  const json simulated = answer("simulate --json " + plain + " --evidence " + log);
  EXPECT_EQ(simulated["evidence"]["pieces"].dump(), answer("estimate --json " + scenario)["evidence"]["pieces"].dump());
}

TEST(Evidence, PiecesAddUpInAnyOrder) {
  const std::string scenario = scenario_with(), a = kLogs + "megatron-gpt-30b-v100x32.log",
                    b = kLogs + "megatron-gpt-66b-v100x64.log";
  const json both = answer("estimate --json " + scenario + " --evidence " + a + " --evidence " + b);
  const json turned = answer("estimate --json " + scenario + " --evidence " + b + " --evidence " + a);
  expect_same_interval(both["metrics"], turned["metrics"]);
  EXPECT_EQ(both["evidence"]["pieces"].size(), 2U);
  // --evidence adds to what the file names.
  const std::string stated = scenario_with("evidence: [" + a + "]\n");
  expect_same_interval(answer("estimate --json " + stated + " --evidence " + b)["metrics"], both["metrics"]);
}

TEST(Evidence, APieceOfAnotherMachineChangesNothing) {
  const std::string scenario = scenario_with();
  const std::string table = temporary_folder() + "/runs.csv";
  write_file(table,
             "id,source,framework,gpu,gpus,layers,hidden,heads,seq,vocab,global_batch,micro_batch,tp,pp,dp,step_s\n"
             "a,mine,megatron-core,A100-80G-SXM,8,24,2048,16,2048,51200,64,4,8,1,1,9\n");
  const json without = answer("estimate --json " + scenario);
  const json with = answer("estimate --json " + scenario + " --evidence " + table);
  expect_same_interval(with["metrics"], without["metrics"]);
  EXPECT_THAT(with["evidence"]["pieces"][0]["left_out"].get<std::string>(), HasSubstr("it was measured on A100-80G-SXM"));
  EXPECT_FALSE(with["evidence"].contains("before"));
}

TEST(Evidence, AWrongLogAmongRightOnesIsLeftOut) {
  const std::string folder = temporary_folder();
  write_file(folder + "/wrong.log", log_without_job(4));
  const std::string scenario = scenario_with();
  std::string arguments = "estimate --json " + scenario;
  for (const char* log : {"megatron-gpt-30b-v100x32.log", "megatron-gpt-66b-v100x64.log", "megatron-gpt-18b-v100x16.log"})
    arguments += " --evidence " + kLogs + log;
  const json right = answer(arguments);
  for (const json& piece : right["evidence"]["pieces"]) EXPECT_FALSE(piece.contains("left_out")) << piece;
  const json with_wrong = answer(arguments + " --evidence " + folder + "/wrong.log");
  expect_same_interval(with_wrong["metrics"], right["metrics"]);
  EXPECT_THAT(with_wrong["evidence"]["pieces"][3]["left_out"].get<std::string>(),
              HasSubstr("it lies outside all that was ever measured"));
}

// The rows of one source: the rest of it is predicted alike by `validate --given` and by a scenario that names them.
TEST(Evidence, AgreesWithGivenRows) {
  const std::string folder = temporary_folder();
  const auto scenario = [](int nodes, int data, int micro) {
    return "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, nodes: " + std::to_string(nodes) +
           "}\nworkload: {model: gpt, layers: 24, hidden: 2048, heads: 16, sequence: 2048, vocabulary: 51200}\nbatch: {micro: " +
           std::to_string(micro) + ", microbatches: 8}\nprecision: bf16\nparallel: {tensor: 8, data: " + std::to_string(data) +
           "}\ntrainer: megatron-core\n";
  };
  write_file(folder + "/a.yaml", scenario(1, 1, 4));
  write_file(folder + "/b.yaml", scenario(2, 2, 2));
  write_file(folder + "/c.yaml", scenario(4, 4, 4) + "evidence: [{rows: runs.csv, ids: [a, b]}]\n");
  const std::string table = folder + "/runs.csv";
  write_file(table, "id,source,scenario,step_s\na,mine,a.yaml,0.9\nb,mine,b.yaml,0.5\nc,mine,c.yaml,1\n");
  const json validated = answer("validate " + table + " --given a,b --json");
  json row;
  for (const json& each : validated["rows"])
    if (each["id"] == "c") row = each;
  const json document = answer("estimate --json " + folder + "/c.yaml");
  EXPECT_FALSE(document["evidence"]["pieces"][0].contains("left_out")) << document["evidence"];
  EXPECT_DOUBLE_EQ(middle(document), row["predicted_s"].get<double>());
  EXPECT_DOUBLE_EQ(document["metrics"]["step_time_p10_s"].get<double>(), row["predicted_p10_s"].get<double>());
  EXPECT_DOUBLE_EQ(document["metrics"]["step_time_p90_s"].get<double>(), row["predicted_p90_s"].get<double>());
}

TEST(Evidence, ALogThatTheScenarioContradictsIsLeftOut) {
  const std::string folder = temporary_folder(), log = folder + "/run.log";
  write_file(log, log_without_job(1));
  const std::string scenario = scenario_with("evidence: [" + log + "]\n");
  const auto reason = [&](const std::string& from, const std::string& to) {
    const std::string changed = folder + "/changed.yaml";
    std::string text = read_file(scenario);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    write_file(changed, text.replace(at, from.size(), to));
    const json piece = answer("estimate --json " + changed)["evidence"]["pieces"][0];
    return piece.value("left_out", "");
  };
  EXPECT_EQ(reason("evidence:", "evidence:"), "");
  EXPECT_THAT(reason("framework: {name: megatron}", "framework: {name: torchtitan}"), HasSubstr("Megatron-LM wrote it"));
}

TEST(Evidence, HostileFilesAreRefusedWithTheirPlace) {
  const std::string folder = temporary_folder();
  const auto refusal = [&](const std::string& name, const std::string& bytes) {
    write_file(folder + "/" + name, bytes);
    const std::string scenario = scenario_with("evidence: [" + folder + "/" + name + "]\n");
    return refusal_of("estimate " + scenario);
  };
  EXPECT_THAT(refusal("empty", ""), HasSubstr("evidence"));
  EXPECT_THAT(refusal("binary", std::string("\0\1\2\3\377", 5) + std::string(100, '\0')), HasSubstr("binary"));
  EXPECT_THAT(refusal("words.txt", "there is no step here\n"), HasSubstr("words.txt"));
  const std::string heading =
      "id,source,framework,gpu,gpus,layers,hidden,heads,seq,vocab,global_batch,micro_batch,tp,pp,dp,step_s\n";
  const std::string row = "a,mine,megatron-core,A100-80G-SXM,8,24,2048,16,2048,51200,64,4,8,1,1,";
  EXPECT_THAT(refusal("nan.csv", heading + row + "nan\n"), HasSubstr("nan.csv:2:"));
  EXPECT_THAT(refusal("negative.csv", heading + row + "-3\n"), HasSubstr("must be positive"));
  EXPECT_THAT(refusal("empty.csv", heading), HasSubstr("has no rows"));
  EXPECT_THAT(refusal("list.yaml", "[\"panpipe:\",\nkind: device ]\n"), HasSubstr("no step of a known trainer"));
  std::string many = heading;
  for (int i = 0; i < 2000; ++i) many += std::to_string(i) + row + "9\n";
  EXPECT_THAT(refusal("many.csv", many), HasSubstr("2000 rows"));
  EXPECT_THAT(refusal_of("estimate " + scenario_with() + " --evidence /no/such.log"), HasSubstr("there is no file of evidence"));
  EXPECT_THAT(refusal_of("estimate " + scenario_with("evidence: [{rows: " + folder + "/nan.csv, ids: []}]\n")),
              HasSubstr("'ids'"));
  EXPECT_THAT(refusal_of("estimate " + scenario_with("evidence: run.log\n")), HasSubstr("'evidence' is a list of files"));
}

}  // namespace
}  // namespace panpipe::test
