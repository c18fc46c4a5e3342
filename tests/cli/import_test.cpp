// `panpipe import`: the files that it writes are used like any others; what is missing is reported with its remedy.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using testing::HasSubstr;

const std::string kMatrix = "tests/costmodel/cluster/data/topo-rtx3090x8.txt";

// The imported cluster, and the same with `topology:` inside, give the same prediction.
TEST(ImportTopology, TheFileIsACluster) {
  const std::string folder = temporary_folder(), cluster = folder + "/mine.yaml", direct = folder + "/direct.yaml";
  const Outcome written = panpipe("import topology " + kMatrix + " --device rtx-3090 -o " + cluster);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.err, "written to " + cluster +
                             ": 8 devices a node, 4 pairs with NVLink, 2 sockets; look at it with panpipe check " + cluster +
                             " --links, use it with --set cluster=" + cluster + "\n");
  write_file(direct, "panpipe: 1\nkind: cluster\ndevice: rtx-3090\nwiring: {topology: " +
                         std::filesystem::absolute("costmodel/cluster/data/topo-rtx3090x8.txt").string() + "}\n");
  const auto prediction = [](const std::string& file) {
    const std::string run = answer_of("simulate scenarios/examples/gpt2-large-rtx3090x8.yaml --set cluster=" + file);
    return run.substr(run.find('\n') + 1);  // the first line names the file
  };
  EXPECT_EQ(prediction(cluster), prediction(direct));
  EXPECT_EQ(panpipe("import topology " + kMatrix + " --device rtx-3090").out.substr(0, 74),
            "# Written by `panpipe import topology` from " + kMatrix.substr(0, 30));
}

// Two adapters next to each pair of devices, four more next to each other only.
TEST(ImportTopology, ReportsHowManyAdaptersBelongToADevice) {
  const std::string cluster = temporary_folder() + "/dgx.yaml";
  const Outcome written =
      panpipe("import topology tests/costmodel/cluster/data/topo-dgx-a100.txt --device a100-40g-sxm -o " + cluster);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.err,
            "written to " + cluster +
                ": 8 devices a node, 28 pairs with NVLink (a switch), 4 sockets, 12 network adapters, of which 8 lie beside a "
                "device (PIX, PXB): if the others are for storage, give --nics 8; look at it with panpipe check " +
                cluster + " --links, use it with --set cluster=" + cluster + "\n");
}

const std::string kRanks = [] {
  std::string text = "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824\n# Using devices\n";
  for (int i = 0; i < 16; ++i)
    text += fmt::format("#  Rank {:2} Group  0 Pid 1 on n{} device {} [0000:07:00] NVIDIA H100 80GB HBM3\n", i, i / 8, i % 8);
  return text + "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";
}();

// The table of two programs' output comes before formulas in the cluster that names it: 1 GiB over 16 ranks takes 9 ms then.
TEST(ImportNcclTests, TheTableIsACluster) {
  const std::string folder = temporary_folder(), reduce = folder + "/reduce.txt", gather = folder + "/all_gather_perf.txt";
  write_file(reduce, "# Collective test starting: all_reduce_perf\n" + kRanks +
                         " 1048576  262144  float  sum  -1  200.0  5.24  9.83  0  190.0  5.52  10.35  0\n"
                         " 1073741824  268435456  float  sum  -1  9100.0  118  221  0  9000.0  119  224  0\n");
  write_file(gather, kRanks + " 1073741824  16777216  float  none  -1  5000.0  215  201  0  5100.0  211  197  0\n");
  const std::string table = folder + "/table.yaml";
  const Outcome written = panpipe("import nccl-tests " + reduce + " " + gather + " -o " + table);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.err, "written to " + table +
                             ": all_gather over 16 ranks on 2 nodes, all_reduce over 16 ranks on 2 nodes; use it with "
                             "collectives: " +
                             table + " in a cluster file\n");
  const Outcome twice = panpipe("import nccl-tests " + reduce + " " + reduce);
  EXPECT_EQ(twice.err,
            "note: 2 of 4 rows repeat a size of the same collective over the same ranks: the median of each size is taken\n");
  const Outcome printed = panpipe("import nccl-tests " + reduce);
  EXPECT_EQ(printed.err, "");
  EXPECT_THAT(printed.out, testing::StartsWith("# Written by `panpipe import nccl-tests`.\npanpipe: 1\nkind: collectives\n"));
  EXPECT_THAT(printed.out, HasSubstr("files: \"reduce.txt (sha256 "));
  EXPECT_THAT(printed.out, HasSubstr("  - [1 GiB, 9000 us]\n"));
  const std::string scenario = folder + "/two-nodes.yaml";
  write_file(scenario, "panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 2, collectives: " + table +
                           "}\nworkload: {model: gpt, layers: 2, hidden: 1024, heads: 16, sequence: 1024, vocabulary: 1024}\n"
                           "batch: {micro: 1, microbatches: 16}\nparallel: {data: 16}\n");
  const Outcome with = panpipe("estimate " + scenario + " --json");
  const Outcome without = panpipe("estimate " + scenario + " --json --set cluster=clusters/h100x8.yaml --set cluster.nodes=2");
  EXPECT_EQ(with.exit_code, 0) << with.err;
  EXPECT_THAT(with.out, HasSubstr("table.yaml"));  // an input, with its hash
  const auto step = [](const Outcome& run) { return std::stod(run.out.substr(run.out.find("\"step_time_s\": ") + 15)); };
  EXPECT_GT(step(with), step(without) + 0.0005);
}

const std::string kLog = "tests/jobs/data/megatron.log";

double number_behind(const std::string& text, const std::string& words) {
  return std::stod(text.substr(text.find(words) + words.size()));
}

// The scenario and the row of a log are the same job: their predictions are equal.
TEST(ImportLog, ScenarioAndRowAreTheJob) {
  const std::string folder = temporary_folder(), job = folder + "/job.yaml", runs = folder + "/runs.csv";
  const std::string call = "import log " + kLog + " --cluster dgx-a100-80g --row " + runs;
  const std::string document = answer_of(call + " --json -o " + job);
  EXPECT_THAT(document, HasSubstr("\"schema\": \"panpipe-log/1\""));
  EXPECT_THAT(document, HasSubstr("\"left_out\": {\"warm_up\": 2, \"evaluation\": 1, \"checkpoint\": 1, \"skipped\": 1, "));
  const double predicted = number_behind(document, "\"predicted\": {\"step_time_s\": ");
  EXPECT_NEAR(number_behind(answer_of("estimate " + job + " --json"), "\"step_time_s\": "), predicted, 1e-9);
  const std::string row = answer_of("validate " + runs + " --json");
  EXPECT_NEAR(number_behind(row, "\"predicted_s\": "), predicted, 1e-9);
  EXPECT_NEAR(number_behind(row, "\"measured_s\": "), 10.1, 0.05);
  answer_of(call);  // again: in place of the row of the same name
  EXPECT_THAT(answer_of("validate " + runs + " --json"), HasSubstr("\"rows\": 1,"));
}

// No columns state experts or how context is exchanged otherwise than by a ring: the row names the scenario, or has a column.
TEST(ImportLog, ARowNamesTheScenarioOfExperts) {
  const std::string folder = temporary_folder(), job = folder + "/jobs/mixtral.yaml", runs = folder + "/runs.csv";
  const std::string log = "tests/jobs/data/megatron.log", mixtral = "scenarios/examples/mixtral-8x7b-h100x64.yaml";
  EXPECT_THAT(refusal_of("import log " + log + " --job " + mixtral + " --row " + runs),
              HasSubstr("must lie in the folder of the table, or below"));
  std::filesystem::create_directory(folder + "/jobs");
  write_file(job,
             "panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 1}\nworkload: {config: workloads/mixtral-8x7b.json, "
             "sequence: 4096}\nbatch: {micro: 1, global: 64}\nprecision: bf16\nparallel: {data: 8, expert: 8, zero: 1}\n"
             "framework: megatron-core\n");
  const std::string document = answer_of("import log " + log + " --job " + job + " --row " + runs + " --json");
  const double predicted = number_behind(document, "\"predicted\": {\"step_time_s\": ");
  EXPECT_NEAR(number_behind(answer_of("validate " + runs + " --json"), "\"predicted_s\": "), predicted, 1e-9);
}

TEST(ImportLog, ARowHasTheExchangeOfContext) {
  const std::string folder = temporary_folder(), job = folder + "/job.yaml", runs = folder + "/runs.csv";
  write_file(job,
             "panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 1}\nworkload: {model: llama, layers: 8, hidden: 2048, "
             "heads: 16, ffn: 5504, "
             "sequence: 16384, vocabulary: 32000}\nbatch: {micro: 1, microbatches: 4}\nprecision: bf16\n"
             "parallel: {data: 2, context: 4, context_exchange: ulysses}\nframework: megatron-core\n");
  const std::string document = answer_of("import log tests/jobs/data/megatron.log --job " + job + " --row " + runs + " --json");
  const double predicted = number_behind(document, "\"predicted\": {\"step_time_s\": ");
  EXPECT_NEAR(number_behind(answer_of("validate " + runs + " --json"), "\"predicted_s\": "), predicted, 1e-9);
  write_file(runs, "id,gpu,step_s,scenario\na,H100-SXM,1,../job.yaml\n");
  EXPECT_THAT(answer_of("validate " + runs + " --json"), HasSubstr("not in the folder of the table or below"));
}

TEST(ImportLog, WhatIsOpenIsNamed) {
  EXPECT_THAT(answer_of("import log " + kLog),
              HasSubstr("not predicted: the log does not state the machine; --cluster states it"));
  EXPECT_THAT(refusal_of("import log " + kLog + " --row " + temporary_folder() + "/runs.csv"),
              HasSubstr("--row: error: the log does not state the machine"));
  EXPECT_EQ(panpipe_after("cat " + kLog + " |", "import log -").exit_code, 0);
}

}  // namespace
}  // namespace panpipe::test
