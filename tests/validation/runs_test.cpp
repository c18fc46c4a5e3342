// Measured runs: predicting them, and reports of the errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/input/shipped.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "tests/fault.hpp"
#include "tests/validation/run_fixture.hpp"
#include "validation/runs/run_cluster.hpp"
#include "validation/runs/run_report.hpp"
#include "validation/runs/run_scenario.hpp"

namespace panpipe::validation {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// GPT-2 small on two cards of each, as a pipeline: a row calls a card as its file does, and that names the server.
TEST(Runs, EveryShippedGpuIsPredictedOnItsServer) {
  int gpus = 0;
  for (const std::string& file : shipped_names("devices")) {
    ReadLog log;
    const DeviceType type = load_device(file, "", log);
    if (type.kind != "gpu") continue;
    ++gpus;
    RunRow row = korthikanti_22b();
    row.gpu = type.name;
    row.gpus = row.pp = 2;
    const Cluster server = load_cluster(shipped_file("clusters", type.server), log);
    row.gpus_per_node = server.size() / server.nodes;
    row.tp = 1;
    row.layers = 12;
    row.hidden = 768;
    row.heads = 12;
    row.seq = 1024;
    row.global_batch = 16;
    row.schedule = "1f1b";
    const RunCluster cluster = cluster_of(row, "");
    EXPECT_EQ(cluster.problem, "") << file;
    EXPECT_EQ(cluster.device, file);
    EXPECT_EQ(device_file_of(gpu_of_driver_name(type.driver_name)), file);
    EXPECT_THAT(cluster.yaml,
                HasSubstr("{file: clusters/" + type.server + ".yaml, nodes: 1, device: {file: devices/" + file + ".yaml}"));
    EXPECT_THAT(cluster.assumed, ::testing::IsEmpty()) << file;
    const RunPrediction run = predict({row}, {}).front();
    EXPECT_EQ(run.skipped, "") << file;
    EXPECT_GT(run.predicted_s, 0) << file;
  }
  EXPECT_GE(gpus, 17);
}

// Of a server whose wiring names each card a row takes the whole or the first ones; several of them only whole.
TEST(Runs, AServerThatIsWiredCardByCardIsTakenAsDescribed) {
  RunRow row = korthikanti_22b();
  const auto cluster = [&](const char* gpu, int gpus, std::optional<int> per_node, const char* fabric = "") {
    row.gpu = gpu;
    row.gpus = gpus;
    row.gpus_per_node = per_node;
    row.fabric = fabric;
    return cluster_of(row, "");
  };
  EXPECT_EQ(cluster("H100-PCIe", 8, 8).problem, "8 H100-PCIe in nodes of 8: only a server of 4 is described");
  EXPECT_EQ(cluster("RTX3090", 4, 2).yaml, "{file: clusters/rtx3090ti-x2.yaml, nodes: 2, device: {file: devices/rtx-3090.yaml}}");
  EXPECT_EQ(cluster("V100-SXM2-16GB", 16, 4).problem, "16 V100-SXM2-16GB in nodes of 4: only a server of 8 is described");
  EXPECT_THAT(cluster("RTX4090", 2, 2).assumed, Contains("wiring: the first 2 cards of rtx4090x8"));
  EXPECT_THAT(cluster("A6000", 4, {}).assumed, Contains("gpus_per_node: 8"));
  EXPECT_THAT(cluster("A6000", 8, 8, "no NVLink").yaml, HasSubstr("wiring: {bridges: {pairs: []}}"));
  EXPECT_THAT(cluster("L40S", 8, 8, "no NVLink").yaml, ::testing::Not(HasSubstr("wiring")));
  const RunCluster dgx = cluster("V100-SXM2-32GB", 16, 8);
  EXPECT_THAT(dgx.yaml, HasSubstr("nodes: 2"));
  EXPECT_THAT(dgx.assumed, Contains("network: that of dgx-1-v100"));
}

// Eight H100 a node on Amazon's adapters: p5.48xlarge, with its latency and its measured collectives.
TEST(Runs, H100OnEfaAreAmazonsServers) {
  RunRow row = korthikanti_22b();
  row.gpu = "H100-SXM";
  row.gpus = 128;
  row.gpus_per_node = 8;
  row.fabric = "NVSwitch; 3200 Gb/s EFA per node (AWS p5)";
  EXPECT_EQ(cluster_of(row, "").yaml,
            "{file: clusters/aws-p5.yaml, nodes: 16, device: {file: devices/h100-sxm.yaml}, devices_per_node: 8}");
  row.fabric = "NVSwitch; 8x NDR400";
  EXPECT_THAT(cluster_of(row, "").yaml, HasSubstr("clusters/h100x8.yaml"));
}

TEST(Runs, APublishedStepIsPredicted) {
  const RunPrediction run = predict({korthikanti_22b()}, {}).front();
  ASSERT_TRUE(run.error());
  EXPECT_LT(std::abs(*run.error()), 0.05);  // 1.42 s measured
  const StepTerms& t = run.terms;
  EXPECT_NEAR(t.products + t.traffic + t.tensor + t.host + t.optimizer + t.communication + t.idle, run.predicted_s,
              1e-9 * run.predicted_s);
  EXPECT_GT(t.products, 0.4 * run.predicted_s);
  EXPECT_NEAR(run.parameters, 48 * 12 * 6144.0 * 6144 + 51200 * 6144.0, 0.01 * run.parameters);
}

// haanjack/ironcore, measurements.csv: 8 layers of a gated MLP on two RTX 3090 with a bridge, 16 sequences of 1024 each; 344.81
// ms and 13.8 GiB of allocated memory. The last row takes the loss in chunks (32 sequences, 443.26 ms).
TEST(Runs, PlainPyTorchPrintsAllocatedMemoryAndNamesItsLoss) {
  RunRow row;
  row.source = "ironcore";
  row.framework = "eager-sdpa";
  row.gpu = "RTX3090";
  row.gpus = row.gpus_per_node = 2;
  row.layers = 8;
  row.hidden = 384;
  row.heads = 6;
  row.ffn = row.seq = 1024;
  row.vocab = 50257;
  row.global_batch = 64;
  row.micro_batch = 16;
  row.tp = row.pp = 1;
  row.dp = 2;
  row.schedule = row.recompute = "none";
  row.precision = "bf16";
  row.step_s = 0.34481;
  row.peak_gib = 13.8;
  row.peak_kind = "allocated";
  RunRow chunked = row;
  chunked.micro_batch = 32;
  chunked.step_s = 0.44326;
  chunked.framework = "eager-sdpa-chunked-loss";
  const auto runs = predict({row, chunked}, {});
  EXPECT_NEAR(*runs[0].error(), 0, 0.1);  // counted, but for four numbers of the device
  EXPECT_NEAR(*runs[0].peak_error(), 0, 0.08);
  EXPECT_NEAR(*runs[1].error(), 0, 0.15);
  EXPECT_LT(runs[1].predicted_peak_gib, runs[0].predicted_peak_gib * 1.5);  // twice the tokens, a fraction of the logits
}

// torchtitan's docs/performance.md, table 1: Llama 3.1 8B under FSDP on 8 H100, selective checkpointing by operator,
// torch.compile: 77.0 GiB. Selective recompute of attention alone keeps every product's input: 141 GiB, which would not fit.
TEST(Runs, CheckpointingByOperatorFits) {
  RunRow row = korthikanti_22b();
  row.framework = "torch-compile";
  row.gpu = "H100-SXM";
  row.layers = 32;
  row.hidden = 4096;
  row.heads = 32;
  row.kv_heads = 8;
  row.ffn = 14336;
  row.seq = 8192;
  row.vocab = 128256;
  row.global_batch = 16;
  row.micro_batch = 2;
  row.tp = 1;
  row.dp = 8;
  row.zero = 3;
  row.precision = "bf16";
  row.recompute = "{operators: [norms, elementwise, second-products]}";
  row.peak_gib = 77.0;
  RunRow attention = row;
  attention.recompute = "selective";
  const auto runs = predict({row, attention}, {});
  EXPECT_EQ(runs[0].skipped, "");
  EXPECT_NEAR(*runs[0].peak_error(), 0, 0.05);
  EXPECT_GT(runs[1].predicted_peak_gib, 120);
  EXPECT_GT(runs[0].predicted_s, runs[1].predicted_s);
}

TEST(Runs, EveryRowOfTheSourcesThatNobodyFittedIsPredicted) {
  const std::vector<RunRow> rows = read_runs("../validation/published/new_sources.csv");
  EXPECT_EQ(rows.size(), 311U);
  for (const RunPrediction& run : predict(rows, {})) {
    EXPECT_EQ(run.skipped, "") << run.row.id;
    EXPECT_TRUE(run.error()) << run.row.id;
    EXPECT_THAT(run.row.assumed, ::testing::IsEmpty()) << run.row.id;  // nothing is read from notes
  }
}

// Zero Bubble's trainer puts no barrier between steps, so its rows mean the period unless they state otherwise.
TEST(Runs, TheStepOfARowIsTheKindItStates) {
  RunRow row = korthikanti_22b();
  row.tp = 1;
  row.pp = 8;
  row.schedule = "zb-1p";
  EXPECT_FALSE(scenario_of(row).rolling);
  row.framework = "megatron-zb";
  EXPECT_TRUE(scenario_of(row).rolling);
  EXPECT_THAT(scenario_of(row).assumed, Contains("step_kind: period"));
  row.step_kind = "step";
  EXPECT_FALSE(scenario_of(row).rolling);
  row.framework = "megatron";
  row.step_kind = "period";
  EXPECT_TRUE(scenario_of(row).rolling);
}

TEST(Runs, FiguresByHand) {
  // Errors +10 %, -20 %, 0: mean 10 %, median 10 %, bias -3.3 %. Pairs: (1, 2), (1, 1.04: too near), (2, 1.04).
  const std::vector<RunPrediction> runs = {predicted("a", 1.0, 1.1), predicted("b", 2.0, 1.6), predicted("c", 1.04, 1.04)};
  const Summary summary = summarize(runs);
  EXPECT_EQ(summary.errors.rows, 3);
  EXPECT_NEAR(summary.errors.mean, 0.1, 1e-12);
  EXPECT_NEAR(summary.errors.median, 0.1, 1e-12);
  EXPECT_NEAR(summary.errors.bias, -0.1 / 3, 1e-12);
  EXPECT_NEAR(summary.errors.worst, 0.2, 1e-12);
  EXPECT_EQ(summary.errors.worst_id, "b");
  EXPECT_EQ(summary.errors.pairs, 2);
  EXPECT_DOUBLE_EQ(summary.errors.pairs_ordered, 1);
  // One group of plans: c is chosen (1.04 s predicted) where a was fastest, so 4 % are lost.
  EXPECT_EQ(summary.choice.groups, 1);
  EXPECT_NEAR(summary.choice.mean_regret, 0.04, 1e-12);
  EXPECT_EQ(summary.choice.best_found, 0);
}

TEST(Runs, PlansAreComparedOnTheSameGpusOnly) {
  const std::vector<RunPrediction> runs = {predicted("a", 1.0, 1.0, 8), predicted("b", 2.0, 0.5, 16)};
  EXPECT_EQ(summarize(runs).choice.groups, 0);
  EXPECT_DOUBLE_EQ(summarize(runs).errors.pairs_ordered, 0);
}

TEST(Runs, TolerancesAreErrorsToStayUnderOrSharesToReach) {
  const std::vector<RunPrediction> runs = {predicted("a", 1.0, 1.1), predicted("b", 2.0, 2.0)};  // mean 5 %, up to rounding
  const auto ok = [&](const char* text) { return make_run_report(runs, {parse_run_tolerance(text)}).ok(); };
  EXPECT_TRUE(ok("mean=5.1%"));
  EXPECT_TRUE(ok("mean=5.1 %"));
  EXPECT_FALSE(ok("mean=4.9%"));
  EXPECT_TRUE(ok("korth22.worst=0.11"));
  EXPECT_TRUE(ok("pairs_ordered=100%"));
  EXPECT_THROW(ok("other.mean=5%"), InputError);
  EXPECT_THAT(test::fault_of([&] { parse_run_tolerance("mean=5"); }),
              HasSubstr("--tolerance: error: 'mean=5': 5 is 500 %; write 5% for that many per cent"));
  EXPECT_THAT(test::fault_of([&] { parse_run_tolerance("medium=5%"); }),
              HasSubstr("--tolerance: error: there is no figure 'medium', did you mean 'median'?"));
}

TEST(Runs, TheDocumentHasTheKeysThatOthersRead) {
  RunPrediction skipped = predicted("s", 1, 0);
  skipped.skipped = "no \"data\" sheet";
  const auto document = nlohmann::json::parse(to_json(make_run_report({predicted("a", 1.0, 1.1), skipped}, {})));
  EXPECT_EQ(document["schema"], "panpipe-validation/1");
  EXPECT_EQ(document["rows"][0]["id"], "a");
  EXPECT_NEAR(document["rows"][0]["relative_error"].get<double>(), 0.1, 1e-12);
  EXPECT_TRUE(document["rows"][0]["skipped"].is_null());
  EXPECT_TRUE(document["rows"][0]["measured_peak_gib"].is_null());
  EXPECT_TRUE(document["rows"][0]["assumed"].is_array());
  EXPECT_EQ(document["rows"][1]["skipped"], "no \"data\" sheet");
  EXPECT_TRUE(document["rows"][1]["predicted_s"].is_null());
  const auto& summary = document["summary"];
  EXPECT_EQ(summary["rows"], 1);
  EXPECT_EQ(summary["skipped"], 1);
  for (const char* key : {"mean_absolute_error", "median_absolute_error", "worst", "bias", "pairs_ordered"})
    EXPECT_TRUE(summary[key].is_number()) << key;
  EXPECT_EQ(document["groups"]["source"]["korth22"]["rows"], 1);
  EXPECT_EQ(document["groups"]["parallelism"]["tensor"]["rows"], 1);
}

TEST(Runs, ThePageHoldsEveryRow) {
  const std::string page =
      to_page(make_run_report({predicted("first<", 1.0, 1.1), predicted("b", 2.0, 1.6)}, {}), "panpipe validate x");
  EXPECT_THAT(page, HasSubstr("first&lt;"));
  EXPECT_THAT(page, HasSubstr("panpipe validate x"));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("http://")));
}

}  // namespace
}  // namespace panpipe::validation
