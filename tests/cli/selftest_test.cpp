// panpipe selftest: what it finds in what it measured, also on machines that are not here; and on this machine's CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/selftest/child.hpp"
#include "cli/selftest/measured_job.hpp"
#include "cli/selftest/selftest_report.hpp"
#include "cli/selftest/steps.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "tests/cli/program.hpp"
#include "tests/exec/processes.hpp"
#include "validation/runs/run_cluster.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// "WRONG: what" or "note: what" of each.
std::vector<std::string> sentences(const std::vector<cli::Trouble>& troubles) {
  std::vector<std::string> all;
  for (const cli::Trouble& trouble : troubles) {
    EXPECT_NE(trouble.remedy, "") << trouble.what;
    all.push_back((trouble.wrong ? "WRONG: " : "note: ") + trouble.what);
  }
  return all;
}

TEST(SelftestFindings, WhatTheDoctorMissesCountsWhereTheDeviceNeedsIt) {
  cli::Machine machine;
  machine.data_found = true;
  machine.ceres = false;  // of no use here
  machine.executor = "/bin/panpipe-exec";
  machine.libtorch = "/venv/torch";
  machine.simgrid_problem = "not built in";
  machine.gpus.problem = "there is no NVIDIA driver";
  EXPECT_EQ(sentences(cli::troubles_of_parts(machine, false)), std::vector<std::string>{"note: SimGrid: not built in"});
  machine.simgrid_problem.clear();
  machine.gpus.devices.resize(2);
  machine.gpus.visible = 2;
  machine.gpus.problem.clear();
  machine.libtorch_cuda = true;
  EXPECT_EQ(sentences(cli::troubles_of_parts(machine, true)),
            (std::vector<std::string>{"WRONG: NCCL: none", "WRONG: training: transports local, gloo on 2 GPUs and the CPU"}));
}

// 180 W of 350 W, below nine tenths; heat and a power brake seen while it worked; half of the lanes; cards of two kinds.
TEST(SelftestFindings, CardsThatAreLimitedHotApartOrOfTwoKinds) {
  cli::Gpus gpus;
  gpus.devices = {{"NVIDIA GeForce RTX 3090", 1, 1}, {"NVIDIA GeForce RTX 3090", 1, 1}};
  cli::GpuState well;
  well.power_limit = well.usual_power_limit = 350;
  well.pcie_lanes = well.most_pcie_lanes = 16;
  well.slowed = 1 | cli::kSlowedByPowerLimit;  // idle at times, at its limit at others: as every card
  EXPECT_THAT(sentences(cli::troubles_of_gpus(gpus, {well, well}, {})), IsEmpty());

  cli::GpuState ill = well;
  ill.power_limit = 180;
  ill.temperature = 93;
  ill.slowed = 0x40 | cli::kSlowedByHardware;  // heat: NVML then sets both
  cli::GpuState braked = well;
  braked.power_limit = 316;  // 90.3 %
  braked.slowed = cli::kSlowedByPowerBrake;
  braked.pcie_lanes = 8;
  braked.exclusive = true;
  gpus.devices[1].name = "NVIDIA GeForce RTX 3080";
  EXPECT_EQ(sentences(cli::troubles_of_gpus(gpus, {ill, braked}, {{0, 1, "the chipset does not support it"}})),
            (std::vector<std::string>{
                "note: the cards are of different kinds: NVIDIA GeForce RTX 3080, NVIDIA GeForce RTX 3090",
                "WRONG: GPU 0 may take 180 W of the usual 350 W", "WRONG: GPU 0 slowed down because of heat (93 C)",
                "WRONG: GPU 1 slowed down at the hardware's wish", "note: GPU 1: one process at a time",
                "note: GPU 1: 8 of 16 PCIe lanes",
                "note: no direct access between GPUs 0 and 1: the chipset does not support it; transfers go through the host's "
                "memory"}));
}

Cluster cluster_of(const std::string& text) {
  ReadLog log;
  Cluster cluster = read_cluster(*parse_document(text, "c.yaml", ""), log);
  log.throw_if_errors();
  return cluster;
}

// Of 8 GB/s 7 are usual; one pair has a tenth of what the file states, another less than the half.
TEST(SelftestFindings, ALinkTenTimesSlowerThanItsClusterStates) {
  const Cluster cluster = cluster_of("{devices: 4, memory: 1 GiB, link: {latency: 0 s, bandwidth: 8 GB/s}}");
  std::vector<cli::MeasuredLink> links = {{0, 1, 1e-5, 7e9}, {0, 2, 1e-5, 7e9},   {0, 3, 1e-5, 7e9},
                                          {1, 2, 1e-5, 7e9}, {1, 3, 1e-5, 4.1e9}, {2, 3, 1e-5, 7e9}};
  EXPECT_THAT(sentences(cli::troubles_of_links(links, &cluster, true)), IsEmpty());
  links[2].bandwidth = 0.8e9;
  links[4].bandwidth = 3.9e9;
  const std::string tenth = "between 0 and 3 800 MB/s were measured, where the cluster file states 8 GB/s (path: given)";
  const std::string others = "; of 6 pairs of this path half reach 7 GB/s and more";
  EXPECT_EQ(sentences(cli::troubles_of_links(links, &cluster, true)),
            (std::vector<std::string>{
                "WRONG: " + tenth + others,
                "WRONG: between 1 and 3 3.9 GB/s were measured, where the cluster file states 8 GB/s (path: given)"}));
  // A shipped cluster may not be this machine's: only the one that is unlike its likes is wrong.
  EXPECT_EQ(sentences(cli::troubles_of_links(links, &cluster, false)),
            (std::vector<std::string>{
                "WRONG: between 0 and 3 800 MB/s were measured, where the shipped cluster states 8 GB/s (path: given)" + others,
                "note: between 1 and 3 3.9 GB/s were measured, where the shipped cluster states 8 GB/s (path: given)"}));
  EXPECT_EQ(sentences(cli::troubles_of_links(links, nullptr, false)),
            std::vector<std::string>{"note: between 0 and 3 800 MB/s were measured; of 6 pairs half reach 7 GB/s and more"});
}

// Half of what PCIe 4.0 is stated to give, and a bit less.
TEST(SelftestFindings, CopiesThroughTooFewLanes) {
  const Cluster cluster = cluster_of("{file: clusters/dgx-a100-80g.yaml}");
  const double stated = cluster.type_of(0).copy_bandwidth.base();
  ASSERT_GT(stated, 0);
  EXPECT_THAT(sentences(cli::troubles_of_copies({{0, 0.51 * stated, 0.9 * stated}}, &cluster, true)), IsEmpty());
  EXPECT_THAT(sentences(cli::troubles_of_copies({{0, 0.51 * stated, 0.1 * stated}}, nullptr, false)), IsEmpty());
  const auto found = sentences(cli::troubles_of_copies({{3, 0.9 * stated, 0.49 * stated}}, &cluster, false));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0], AllOf(HasSubstr("note: copies between the host and GPU 3 reach "), HasSubstr("the card's data sheet")));
}

// 64 MiB in 10 ms are 6.7 GB/s; a table is the same both ways and counts once.
TEST(SelftestFindings, LinksAreReadFromTheProfilesTables) {
  Profile profile;
  const TransferTable table{{{bytes(0), micros(20)}, {mib(64), millis(10)}}};
  profile.transfers = {{"nccl", 0, 1, table}, {"nccl", 1, 0, table}};
  const std::vector<cli::MeasuredLink> links = cli::links_of(profile);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_DOUBLE_EQ(links[0].latency, 20e-6);
  EXPECT_DOUBLE_EQ(links[0].bandwidth, 67108864 / 0.01);
}

TEST(SelftestFindings, DifferencesFromOneProcess) {
  const cli::TrainedSteps one = {{4.0, 2.0}, {3.0, 1.0}};
  EXPECT_EQ(cli::difference_of(one, one, 0, 0), "");
  EXPECT_EQ(cli::difference_of({{4.0000004, 2}, {3, 1.00005}}, one, 1e-6, 1e-4), "");
  EXPECT_EQ(cli::difference_of({{4.00001, 2}, {3, 1}}, one, 1e-6, 1e-4), "the loss of step 1 is 4.00001 in place of 4");
  EXPECT_EQ(cli::difference_of({{4, 2}, {3, 1.5}}, one, 1e-6, 1e-4), "the gradient norm of step 2 is 1.5 in place of 1");
  EXPECT_EQ(cli::difference_of({{4, 2}, {std::nan(""), 1}}, one, 1e-6, 1e-4), "the loss of step 2 is nan in place of 3");
  EXPECT_EQ(cli::difference_of({{4, 2}}, one, 1e-6, 1e-4), "1 steps in place of 2");
}

TEST(SelftestFindings, RulesThatATransportBreaks) {
  const std::string kept = R"({"case": "A", "rule": "every type arrives as it was sent", "broken": [], "seconds": 1})";
  const std::string broken = R"({"case": "B", "rule": "sums of every type are exact", "broken": ["rank 1: 5"], "seconds": 1})";
  int rules = 0;
  cli::ChildEnd end;
  end.out = kept + "\n" + kept + "\n";
  EXPECT_THAT(sentences(cli::troubles_of_contract("gloo", "2 processes", end, rules)), IsEmpty());
  EXPECT_EQ(rules, 2);
  end.out += broken + "\n";
  end.exit_code = 1;
  EXPECT_EQ(
      sentences(cli::troubles_of_contract("gloo", "2 processes", end, rules)),
      std::vector<std::string>{"WRONG: gloo over 2 processes breaks the rule that sums of every type are exact: rank 1: 5"});
  end.out = kept;
  end.err =
      "[rank 0] a word on the way\npanpipe: rank 1 was killed by signal 11 (Segmentation fault)\n"
      "[rank 0] panpipe: rank 1 is lost\n[rank 2] panpipe: rank 1 is lost\n";
  EXPECT_EQ(sentences(cli::troubles_of_contract("nccl", "2 GPUs", end, rules)),
            std::vector<std::string>{"WRONG: nccl over 2 GPUs failed after 1 kept rules: panpipe: rank 1 was killed by signal 11 "
                                     "(Segmentation fault); [rank 0] panpipe: rank 1 is lost"});
  end.too_long = true;
  EXPECT_THAT(sentences(cli::troubles_of_contract("nccl", "2 GPUs", end, rules)).front(),
              HasSubstr("it did not end in its time"));
}

TEST(SelftestChild, OneThatWritesOrRunsWithoutEndIsEnded) {
  const auto writes = []() -> int {
    const std::string line(1 << 16, 'x');
    while (true) std::fputs(line.c_str(), stdout);
  };
  const cli::ChildEnd written = cli::run_child(writes, 120, [] {});
  EXPECT_EQ(cli::last_words(written), "it wrote more than 64 MiB");
  EXPECT_EQ(written.exit_code, 128 + SIGKILL);
  EXPECT_LE(written.out.size(), std::size_t{66} << 20);  // 1 MiB at a time
  const cli::ChildEnd late = cli::run_child([] { return pause(); }, 0.05, [] {});
  EXPECT_EQ(cli::last_words(late), "it did not end in its time");
  const cli::ChildEnd well = cli::run_child([] { return std::puts("a word") < 0 ? 1 : 7; }, 120, [] {});
  EXPECT_EQ(well.out, "a word\n");
  EXPECT_EQ(well.exit_code, 7);
}

TEST(SelftestReport, NamesNeitherTheMachineNorItsUser) {
  const cli::PrivateWords words({"node07.example.org", "node07"}, {"ada", "Ada Lovelace"}, {"/home/ada"});
  const auto removed = [&](const std::string& text) { return words.removed_from(text); };
  EXPECT_EQ(removed("/home/ada/venv/torch on node07.example.org, node07"), "~/venv/torch on HOST, HOST");
  EXPECT_EQ(removed("/scratch/ada/x of Ada Lovelace"), "/scratch/USER/x of USER");
  EXPECT_EQ(removed("adam, /home/adam, node071, pascada"), "adam, /home/adam, node071, pascada");
  EXPECT_EQ(removed("GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3301 and 3F2504E0-4F89-11D3-9A0C-0305E82C3301"), "REMOVED and REMOVED");
  EXPECT_EQ(removed("aa:bb:cc:dd:ee:0f at 10.0.0.7:29500, fe80:0:0:0:1:2:3:4"), "REMOVED at REMOVED:29500, REMOVED");
  // The loopback interface is everybody's; a driver's number has three parts; a time of day is none of these.
  EXPECT_EQ(removed("127.0.0.1, 550.54.15, 12:34:56"), "127.0.0.1, 550.54.15, 12:34:56");
  nlohmann::ordered_json document = {{"node07", {{"ada", {"node07", 7}}}}};
  words.remove_from(document);
  EXPECT_EQ(document.dump(), R"({"node07":{"ada":["HOST",7]}})");
}

// The driver's name of a card becomes the name in rows.
TEST(SelftestReport, TheRowIsPredictedByValidate) {
  EXPECT_EQ(validation::gpu_of_driver_name("NVIDIA H100 80GB HBM3"), "H100-SXM");
  EXPECT_EQ(cli::precision_for("H100-SXM"), "bf16");
  EXPECT_EQ(cli::precision_for(validation::gpu_of_driver_name("Tesla V100-SXM2-32GB")), "fp32");
  EXPECT_EQ(validation::gpu_of_driver_name("NVIDIA Tesla T4"), "Tesla T4");
  EXPECT_EQ(cli::precision_for("Tesla T4"), "fp32");

  cli::MeasuredJob job;
  job.layers = 16;
  job.hidden = 2048;
  job.heads = 32;
  job.sequence = 1024;
  job.vocabulary = 32768;
  job.ranks = 4;
  job.precision = "bf16";
  const std::string file = temporary_folder() + "/runs.csv";
  const std::string note = "adam, and \"more\"";
  write_file(file, validation::run_csv(
                       cli::row_of(job, validation::gpu_of_driver_name("NVIDIA A100-SXM4-80GB"), 0.25, 3 * (1LL << 30), note)));
  const validation::RunRow row = validation::read_runs(file).at(0);
  EXPECT_EQ(row.note, note);
  EXPECT_EQ(row.step_kind + " " + row.peak_kind, "step allocated");
  EXPECT_EQ(row.gpu, "A100-80G-SXM");
  EXPECT_EQ(row.pp, 4);
  EXPECT_EQ(row.global_batch, 16);  // 8 microbatches of 2
  EXPECT_DOUBLE_EQ(row.peak_gib.value(), 3);
  const Outcome run = panpipe("validate " + file + " --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json predicted = json::parse(run.out)["rows"][0];
  EXPECT_EQ(predicted["skipped"], nullptr);
  EXPECT_EQ(predicted["measured_s"], 0.25);
  EXPECT_GT(predicted["predicted_s"], 0);
}

// On this machine. The programs that tests of training need may be missing here.
class Selftest : public testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("PANPIPE_BIN");
    if (bin == nullptr || !fs::exists(std::string(bin) + "/panpipe-exec")) GTEST_SKIP() << "this build has no executor";
  }
  // --quick on the CPU; temporary files go to a folder of the test's own.
  Started start(const std::map<std::string, std::string>& environment = {}) {
    std::map<std::string, std::string> variables = environment;
    variables["TMPDIR"] = temporary_;
    return start_panpipe("selftest --device cpu --quick --json -o " + report_, variables);
  }
  std::string temporary_ = temporary_folder(), report_ = temporary_folder() + "/report";
};

std::vector<std::string> wrong_in(const json& document) {
  std::vector<std::string> all;
  for (const json& step : document["steps"])
    for (const json& trouble : step["troubles"])
      if (trouble["wrong"]) all.push_back(step["name"].get<std::string>() + ": " + trouble["what"].get<std::string>());
  return all;
}

TEST_F(Selftest, OnThisCpuAllIsRightAndTheReportNamesNobody) {
  const Ended run = start().end();
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json document = json::parse(run.out);
  EXPECT_EQ(document["schema"], "panpipe-selftest/1");
  EXPECT_EQ(document["verdict"], "all right");
  std::vector<std::string> names;
  for (const json& step : document["steps"]) {
    names.push_back(step["name"]);
    EXPECT_EQ(step["done"], true) << step;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"machine", "transports", "equality", "links", "prediction"}));
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("\n  transports local over 2 threads keeps 10 rules; gloo over 2 processes keeps 10 rules\n"),
                    HasSubstr("\n  equality   2 of 2 ways to train on 2 processes equal one process"),
                    HasSubstr("\nverdict: all right\nwritten to ")));
  EXPECT_GT(document["steps"][3]["figures"]["pairs"][0]["bandwidth_bytes_per_s"], 0);
  EXPECT_EQ(document["steps"][4]["figures"]["metrics"][0]["metric"], "step_time_s");

  EXPECT_EQ(json::parse(read_file(report_ + "/panpipe-selftest.json")), document);
  EXPECT_TRUE(fs::is_empty(temporary_));
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::vector<std::string> private_words{host.data()};
  if (const passwd* user = getpwuid(getuid())) private_words.insert(private_words.end(), {user->pw_name, user->pw_dir});
  for (const char* file : {"panpipe-selftest.json", "panpipe-selftest.md", "panpipe-selftest.csv"}) {
    const std::string text = read_file(report_ + "/" + file);
    EXPECT_NE(text, "");
    for (const std::string& word : private_words)
      EXPECT_THAT(text, Not(testing::ContainsRegex("(^|[^a-zA-Z0-9_])" + word + "($|[^a-zA-Z0-9_])"))) << file;
  }

  const Outcome validated = panpipe("validate " + report_ + "/panpipe-selftest.csv --json");
  ASSERT_EQ(validated.exit_code, 0) << validated.err;
  EXPECT_THAT(json::parse(validated.out)["rows"][0]["skipped"].get<std::string>(), HasSubstr("no data sheet of the GPU 'CPU'"));
}

TEST_F(Selftest, ARankThatDiesInTheContractIsFound) {
  const Ended run = start({{"PANPIPE_FAULT", "rank=1,action=EveryTypeArrivesAsItWasSent,kind=kill"}}).end();
  EXPECT_EQ(run.exit_code, 1) << run.err;
  const std::vector<std::string> wrong = wrong_in(json::parse(run.out));
  ASSERT_EQ(wrong.size(), 2u) << run.out;
  EXPECT_THAT(wrong[0], HasSubstr("transports: local over 2 threads failed after 3 kept rules"));
  EXPECT_THAT(wrong[1], AllOf(HasSubstr("transports: gloo over 2 processes failed after 3 kept rules"),
                              HasSubstr("rank 1 was killed by signal 9")));
  EXPECT_THAT(run.err, HasSubstr("\nverdict: 2 things are wrong\n"));
  EXPECT_THAT(run.left_behind, IsEmpty());
}

// The loss of a microbatch becomes not a number: training fails on two ranks, one process has no rank 1.
TEST_F(Selftest, ARankThatComputesNonsenseIsFound) {
  const Ended run = start({{"PANPIPE_FAULT", "rank=1,action=1F0,kind=nan"}}).end();
  EXPECT_EQ(run.exit_code, 1) << run.err;
  const std::vector<std::string> wrong = wrong_in(json::parse(run.out));
  ASSERT_EQ(wrong.size(), 2u) << run.out;
  EXPECT_THAT(wrong[0], AllOf(HasSubstr("equality: pipeline 2, zb-h1 over gloo does not equal one process"), HasSubstr("nan")));
  EXPECT_THAT(wrong[1], HasSubstr("prediction: panpipe run failed: "));
}

TEST_F(Selftest, AfterCtrlCNothingIsLeft) {
  Started run = start({{"PANPIPE_FAULT", "rank=1,action=EveryRankReachesEveryOther,kind=stuck"}});
  // Its files are there; a moment later the first ranks too, and they stay until somebody ends them.
  for (int i = 0; i < 600 && fs::is_empty(temporary_); ++i) usleep(100000);
  sleep(2);
  kill(run.process(), SIGINT);
  const Ended ended = run.end();
  EXPECT_EQ(ended.exit_code, 130);
  EXPECT_THAT(ended.err, HasSubstr("panpipe: stopped as asked: no report was written\n"));
  EXPECT_THAT(ended.left_behind, IsEmpty());
  EXPECT_TRUE(fs::is_empty(temporary_));
  EXPECT_FALSE(fs::exists(report_));
}

TEST_F(Selftest, WhatItCannotDoIsReportedAtOnce) {
  const auto outcome = [](const std::string& arguments) {
    return panpipe_after("CUDA_VISIBLE_DEVICES=", "selftest " + arguments);
  };
  Outcome run = outcome("--device cuda");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("panpipe: this machine cannot: --device cuda: no GPU that programs may see: "));
  run = outcome("--device gpu");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--device"));
  run = outcome("--cluster nowhere.yaml");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("nowhere.yaml"));
  const std::string file = temporary_folder() + "/file";
  write_file(file, "");
  run = outcome("-o " + file);
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr(file + ": Not a directory; choose another folder with -o"));
  run = panpipe_after("RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500", "selftest");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("panpipe selftest starts its ranks itself: call it once, without torchrun"));
}

}  // namespace
}  // namespace panpipe::test
