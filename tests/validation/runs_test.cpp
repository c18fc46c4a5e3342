// Measured runs: reading rows, writing their scenarios, predicting them, and what is said about the errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "validation/runs/run_choices.hpp"
#include "validation/runs/run_cluster.hpp"
#include "validation/runs/run_report.hpp"
#include "validation/runs/run_scenario.hpp"

namespace panpipe {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string file_with(const std::string& text) {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = (std::filesystem::temp_directory_path() / (std::string("runs_") + info->name() + ".csv")).string();
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// Korthikanti et al., arXiv 2205.05198, table 5: the 22B model with full recomputation.
RunRow korthikanti_22b() {
  RunRow row;
  row.id = "22B";
  row.source = "korth22";
  row.framework = "megatron";
  row.gpu = "A100-80G-SXM";
  row.gpus = 8;
  row.gpus_per_node = 8;
  row.layers = 48;
  row.hidden = 6144;
  row.heads = 64;
  row.seq = 2048;
  row.vocab = 51200;
  row.global_batch = row.micro_batch = 4;
  row.tp = 8;
  row.pp = row.dp = 1;
  row.schedule = "none";
  row.recompute = "full";
  row.precision = "fp16-mixed";
  row.step_s = 1.42;
  return row;
}

RunPrediction predicted(const std::string& id, double measured, double prediction, int gpus = 8) {
  RunPrediction run;
  run.row = korthikanti_22b();
  run.row.id = id;
  run.row.gpus = gpus;
  run.row.step_s = measured;
  run.predicted_s = prediction;
  return run;
}

TEST(Runs, CellsMayBeQuotedAndEmpty) {
  const auto rows = read_runs(file_with("id,gpu,step_s,note,layers,unknown\na,H20,1.5,\"x, \"\"y\"\"\nz\",12,7\n\nb,H20,2,,,\n"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].note, "x, \"y\"\nz");
  EXPECT_EQ(rows[0].layers, 12);
  EXPECT_EQ(rows[1].layers, std::nullopt);
  EXPECT_EQ(rows[1].line, 5);
}

TEST(Runs, EveryFaultOfATableIsNamedWithItsPlace) {
  const std::string path = file_with("id,gpu,step_s,layers,recomputed\na,H20,1,twelve,\na,H20,-1,3,\n");
  try {
    read_runs(path);
    FAIL();
  } catch (const InputError& error) {
    ASSERT_EQ(error.diagnostics().size(), 1U);
    EXPECT_EQ(error.diagnostics()[0].text, path +
                                               ":1:22: error: there is no column 'recomputed'\n"
                                               "    1 | id,gpu,step_s,layers,recomputed\n"
                                               "      |                      ^\n"
                                               "  help: did you mean 'recompute'?");
  }
  try {
    read_runs(file_with("id,gpu,step_s,layers\na,H20,1,twelve\na,H20,-1,3\n"));
    FAIL();
  } catch (const InputError& error) {
    ASSERT_EQ(error.diagnostics().size(), 3U);
    EXPECT_THAT(error.diagnostics()[0].text, HasSubstr(":2:9: error: layers: "));
    EXPECT_THAT(error.diagnostics()[1].text, HasSubstr(":3:1: error: the id 'a' occurs twice"));
    EXPECT_THAT(error.diagnostics()[2].text, HasSubstr(":3:7: error: step_s: must be positive, not -1"));
  }
}

TEST(Runs, ARowBecomesTheScenarioThatAUserWouldWrite) {
  const RunScenario scenario = scenario_of(korthikanti_22b());
  EXPECT_EQ(scenario.skipped, "");
  EXPECT_EQ(
      scenario.text,
      "panpipe: 1\n"
      "cluster: {file: clusters/dgx-a100-80g.yaml, nodes: 1, device: {file: devices/a100-80g-sxm.yaml}, devices_per_node: 8}\n"
      "workload: {model: gpt, layers: 48, hidden: 6144, heads: 64, sequence: 2048, vocabulary: 51200}\n"
      "batch: {micro: 4, microbatches: 1}\n"
      "precision: fp16\n"
      "parallel: {pipeline: 1, tensor: 8, data: 1, zero: 0, sequence_parallel: false}\n"
      "schedule: 1f1b\n"
      "recompute: full\n"
      "framework: megatron\n");
}

TEST(Runs, WhatARowLeavesOpenIsSaid) {
  RunRow row = korthikanti_22b();
  row.heads = row.vocab = row.micro_batch = std::nullopt;
  row.precision = "16bit-mixed";
  row.framework.clear();
  const RunScenario scenario = scenario_of(row);
  for (const char* expected : {"heads: 48", "vocab: 51200", "micro_batch: 2", "precision: fp16", "framework: megatron",
                               "seq_parallel: false", "zero: 0"})
    EXPECT_THAT(scenario.assumed, Contains(expected));
}

TEST(Runs, LayersAreSharedOutAsTheTrainersDo) {
  RunRow row = korthikanti_22b();
  row.tp = 1;
  row.pp = 8;
  row.schedule = "1f1b";
  row.layers = 22;  // and two ends: 24 in 8 stages of 3, the first with the embedding and 2 layers
  EXPECT_THAT(
      scenario_of(row).text,
      HasSubstr("partition: [h.2.attention, h.5.attention, h.8.attention, h.11.attention, h.14.attention, h.17.attention, "
                "h.20.attention]"));
  row.schedule = "interleaved-1f1b";
  row.virtual_stages = 3;  // 24 stages: the embedding alone, 22 layers, the head alone
  EXPECT_THAT(scenario_of(row).text, HasSubstr("partition: [h.0.attention, h.1.attention"));
  EXPECT_THAT(scenario_of(row).text, HasSubstr("h.21.attention, head]"));
  row.schedule = "1f1b";
  row.layers = 23;  // 3 on each of seven, the last 2
  EXPECT_THAT(scenario_of(row).text, HasSubstr("h.18.attention, h.21.attention]"));
  row.layers = 20;  // 3 on each would leave nothing for the last
  EXPECT_THAT(scenario_of(row).skipped, HasSubstr("20 layers cannot fill 8 stages"));
}

TEST(Runs, AdaptersComeFromTheWordsOfTheFabric) {
  RunRow row = korthikanti_22b();
  row.gpus = 64;
  row.dp = 8;
  row.global_batch = 32;
  const auto network = [&](const char* fabric) {
    row.fabric = fabric;
    return scenario_of(row).text;
  };
  EXPECT_THAT(network("NVSwitch; 4x HDR200 IB per node (800 Gb/s)"),
              HasSubstr("network: {nics_per_node: 4, bandwidth: 25 GB/s}"));
  EXPECT_THAT(network("NVSwitch; 1600 Gb/s RoCE per node"), HasSubstr("network: {nics_per_node: 8, bandwidth: 25 GB/s}"));
  EXPECT_THAT(network("4x Omni-Path 100 per node"), HasSubstr("network: {nics_per_node: 4, bandwidth: 6.25 GB/s}"));
  EXPECT_THAT(network("two nodes"), ::testing::Not(HasSubstr("network:")));
  EXPECT_THAT(scenario_of(row).assumed, Contains("network: a 25 GB/s adapter per GPU"));
}

TEST(Runs, WhatCannotBeExpressedIsSkippedWithTheReason) {
  RunRow row = korthikanti_22b();
  row.gpu = "V100";
  EXPECT_THAT(scenario_of(row).skipped, HasSubstr("no data sheet of the GPU 'V100'"));
  row = korthikanti_22b();
  row.layers = row.seq = std::nullopt;
  EXPECT_EQ(scenario_of(row).skipped, "not stated: layers, seq");
  row = korthikanti_22b();
  row.schedule = "chimaera";
  row.tp = 1;
  row.pp = 8;
  const auto runs = predict({row}, {});
  EXPECT_THAT(runs[0].skipped, HasSubstr("chimaera"));
  EXPECT_EQ(runs[0].error(), std::nullopt);
}

struct NamedGpu {
  const char *gpu, *device, *cluster;
  int gpus_per_node;
};

// GPT-2 small on two cards of each, as a pipeline: what a row calls the card finds its file and its server.
TEST(Runs, EveryNamedGpuIsPredictedOnItsServer) {
  const NamedGpu named[] = {
      {"A100-80G-SXM", "a100-80g-sxm", "dgx-a100-80g", 8},
      {"A100-40G-SXM", "a100-40g-sxm", "dgx-a100-40g", 8},
      {"A100-80G-PCIe", "a100-80g-pcie", "a100-80g-pcie-x4", 4},
      {"A800-80G-SXM", "a800-80g-sxm", "a800x8", 8},
      {"H100-SXM", "h100-sxm", "h100x8", 8},
      {"H100-PCIe", "h100-pcie", "h100-pcie-x4", 4},
      {"H800-80G-SXM", "h800-80g-sxm", "h800x8", 8},
      {"H200-SXM", "h200-sxm", "h200x8", 8},
      {"H20", "h20", "h20x8", 8},
      {"B200", "b200", "b200x8", 8},
      {"V100-SXM2-32GB", "v100-sxm2-32gb", "dgx-1-v100", 8},
      {"V100-SXM2-16GB", "v100-sxm2-16gb", "dgx-1-v100", 8},
      {"RTX3090", "rtx-3090", "rtx3090ti-x2", 2},
      {"RTX3090Ti", "rtx-3090-ti", "rtx3090ti-x2", 2},
      {"RTX4090", "rtx-4090", "rtx4090x8", 8},
      {"A6000", "a6000", "a6000x8", 8},
      {"L40S", "l40s", "l40sx8", 8},
  };
  for (const NamedGpu& name : named) {
    RunRow row = korthikanti_22b();
    row.gpu = name.gpu;
    row.gpus = row.pp = 2;
    row.gpus_per_node = name.gpus_per_node;
    row.tp = 1;
    row.layers = 12;
    row.hidden = 768;
    row.heads = 12;
    row.seq = 1024;
    row.global_batch = 16;
    row.schedule = "1f1b";
    const RunCluster cluster = cluster_of(row, "");
    EXPECT_EQ(cluster.problem, "") << name.gpu;
    EXPECT_EQ(cluster.device, name.device);
    EXPECT_THAT(cluster.yaml, HasSubstr(std::string("{file: clusters/") + name.cluster +
                                        ".yaml, nodes: 1, device: {file: devices/" + name.device + ".yaml}"));
    EXPECT_THAT(cluster.assumed, ::testing::IsEmpty()) << name.gpu;
    const RunPrediction run = predict({row}, {}).front();
    EXPECT_EQ(run.skipped, "") << name.gpu;
    EXPECT_GT(run.predicted_s, 0) << name.gpu;
  }
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
  EXPECT_NEAR(*runs[0].error(), 0, 0.08);
  EXPECT_NEAR(*runs[0].peak_error(), 0, 0.03);
  EXPECT_NEAR(*runs[1].error(), 0, 0.15);
  EXPECT_LT(runs[1].predicted_peak_gib, runs[0].predicted_peak_gib * 1.5);  // twice the tokens, a fraction of the logits
}

// What a file without the columns step_kind and peak_kind says in its notes; with one of them the notes are prose.
TEST(Runs, NotesOfEarlierFilesFillColumns) {
  const auto read = [](const std::string& column) {
    return read_runs(file_with("id,gpu,step_s,framework,precision,peak_gib,note" + column + R"(
optimizer,H20,1,megatron-deepspeed,16bit-mixed,,bf16 optimizer
tf32,H20,1,eager,bf16,,HF; tf32
zb,H20,1,megatron-zb,16bit-mixed,,synchronising all-reduce
compiled,H20,1,eager,bf16,,bf16 + torch.compile
fused,H20,1,eager,bf16,13.8,SDPA flash
chunked,H20,1,eager,bf16,,SDPA flash; chunked cross-entropy
stated,H20,1,eager-sdpa,bf16,3,"SDPA flash, torch.compile"
)"));
  };
  const auto told = [](const RunRow& row) {
    return row.framework + " " + row.precision + " " + row.step_kind + " " + row.peak_kind;
  };
  const std::vector<RunRow> rows = read("");
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_EQ(told(rows[0]), "megatron-deepspeed bf16-mixed  ");
  EXPECT_EQ(told(rows[1]), "eager tf32  allocated");
  EXPECT_EQ(told(rows[2]), "megatron-zb 16bit-mixed step ");
  EXPECT_EQ(told(rows[3]), "torch-compile bf16  allocated");
  EXPECT_EQ(told(rows[4]), "eager-sdpa bf16  allocated");
  EXPECT_EQ(told(rows[5]), "eager-sdpa-chunked-loss bf16  allocated");
  EXPECT_EQ(told(rows[6]), "eager-sdpa bf16  ");
  EXPECT_THAT(rows[4].assumed, ::testing::ElementsAre("peak_kind: allocated", "framework: eager-sdpa (from the note)"));
}

// Cells as sources print them; Transformer Engine chooses by the card.
TEST(Runs, AttentionKernelsAreReadInTheWordsOfTheirSources) {
  const std::tuple<const char*, const char*, const char*> cells[] = {{"unfused", "A100-80G-SXM", "unfused"},
                                                                     {"unfused, fused softmax", "A100-80G-SXM", "fused-softmax"},
                                                                     {"fused-softmax", "A100-80G-SXM", "fused-softmax"},
                                                                     {"flash-attn 2", "H100-SXM", "flash-2"},
                                                                     {"SDPA flash 2", "H100-SXM", "flash-2"},
                                                                     {"SDPA flash", "H100-SXM", "flash-2"},
                                                                     {"flash 2", "H800-80G-SXM", "flash-2"},
                                                                     {"flash-2", "H100-SXM", "flash-2"},
                                                                     {"flash-attn 1.0.4", "A100-80G-SXM", "flash-1"},
                                                                     {"FlashAttention-3", "H100-SXM", "flash-3"},
                                                                     {"flash (triton)", "H100-SXM", "flash-triton"},
                                                                     {"flash (cuDNN)", "H100-SXM", "cudnn"},
                                                                     {"flash (Transformer Engine)", "H100-SXM", "cudnn"},
                                                                     {"flash (Transformer Engine)", "A100-80G-SXM", "flash-2"},
                                                                     {"SDPA math", "RTX3090", "unfused"},
                                                                     {"not stated", "A800-80G-SXM", ""},
                                                                     {"", "A800-80G-SXM", ""}};
  for (const auto& [words, gpu, kernel] : cells) EXPECT_EQ(attention_of_words(words, gpu), kernel) << words << " on " << gpu;
}

// Choices of the framework stand beside its name; a column counts before the words of a source.
TEST(Runs, ColumnsBecomeChoicesOfTheFramework) {
  const std::string path = file_with(
      "id,gpu,framework,step_s,step_kind,layers,hidden,seq,global_batch,attention_kernel,attention,dropout,optimizer,note\n"
      "words,H100-SXM,torch-compile,1,step,2,256,128,2,\"unfused, fused softmax\",,,,no dropout\n"
      "cells,H100-SXM,torch-compile,1,step,2,256,128,2,unfused,flash-3,false,sgd,\n"
      "nothing,H100-SXM,torch-compile,1,step,2,256,128,2,not stated,,,,\n");
  const std::vector<RunRow> rows = read_runs(path);
  const RunScenario words = scenario_of(rows[0]);
  EXPECT_THAT(words.text, HasSubstr("framework: {name: torch-compile, attention: fused-softmax}\n"));
  EXPECT_THAT(words.assumed, Contains("attention: fused-softmax (attention_kernel: unfused, fused softmax)"));
  EXPECT_THAT(scenario_of(rows[1]).text,
              HasSubstr("optimizer: sgd\nframework: {name: torch-compile, attention: flash-3, dropout: false}\n"));
  EXPECT_THAT(scenario_of(rows[2]).text, HasSubstr("framework: torch-compile\n"));
  EXPECT_THAT(run_csv(rows[1]), HasSubstr("attention_kernel,attention,dropout\n"));
}

// Notes of files that have no such columns. Models are called by their parameters outside the embeddings: 16 layers of 2048 with
// an MLP of 8192 have 1.1 B, 32 of 4096 with one of 14336 have 7.8 B.
TEST(Runs, NotesFillChoices) {
  const std::vector<RunRow> rows =
      read_runs(file_with("id,gpu,step_s,framework,layers,hidden,heads,kv_heads,ffn,note\n"
                          "amp,A100-80G-SXM,1,torch-compile,4,768,12,,,\"fp16 autocast with GradScaler, no dropout\"\n"
                          "sgd,RTX3090,1,eager,4,768,12,,,\"AMP without scaler, SGD\"\n"
                          "1B,H100-SXM,1,stp,16,2048,32,32,8192,"
                          "fp32 gradient accumulation; tied embeddings in 1B and 3B; tp_linear_async_communication\n"
                          "8B,H100-SXM,1,stp,32,4096,32,32,14336,tied embeddings in 1B and 3B\n"
                          "untied,RTX3090,1,eager,4,768,12,,,untied embeddings\n"
                          "bloom,A100-80G-SXM,1,megatron-deepspeed,4,768,12,,,bf16 optimizer with fp32 gradient accumulation\n"));
  using Choices = std::map<std::string, std::string>;
  EXPECT_EQ(rows[0].framework_choices, (Choices{{"autocast", "true"}, {"gradient_scaler", "true"}, {"dropout", "false"}}));
  EXPECT_EQ(rows[1].framework_choices, (Choices{{"autocast", "true"}}));
  EXPECT_EQ(rows[1].optimizer, "sgd");
  EXPECT_EQ(rows[2].framework_choices, (Choices{{"gradient_accumulation", "fp32"}}));
  EXPECT_EQ(rows[2].tied_embedding, "true");
  EXPECT_EQ(rows[2].framework, "nanotron");
  EXPECT_THAT(rows[2].assumed, Contains("framework: nanotron (from 'tp_linear_async_communication')"));
  EXPECT_EQ(rows[3].tied_embedding, "false");
  EXPECT_EQ(rows[4].tied_embedding, "false");
  EXPECT_EQ(rows[5].framework_choices, Choices{});
}

// Where a source, a note or a kernel names the trainer, its preset takes the place of the one that came nearest.
TEST(Runs, NamedTrainersTakeThePlaceOfTheNearestPreset) {
  const std::vector<RunRow> rows =
      read_runs(file_with("id,source,gpu,step_s,framework,note,attention_kernel\n"
                          "a,torchtitan_h100,H100-SXM,1,torch-compile,FSDP,SDPA flash\n"
                          "b,torchtitan_h100,H100-SXM,1,eager-sdpa,FSDP,SDPA flash\n"
                          "c,nemo_a100,A100-80G-SXM,1,megatron,\"bf16 O2, fused Adam\",\n"
                          "d,gist,A800-80G-SXM,1,eager-sdpa,Hugging Face LLaMA-7B under DeepSpeed 0.14.2,not stated\n"
                          "e,release,H100-SXM,1,flash-attn,,flash (Transformer Engine)\n"
                          "f,fms_h100,H100-SXM,1,eager-sdpa,FSDP,SDPA flash 2\n"
                          "g,timm_3090,RTX3090,1,eager,PyTorch 1.12 eager,unfused\n"
                          "h,zb,A100-80G-SXM,1,megatron-zb,,\n"));
  const char* const expected[] = {"torchtitan",    "eager-sdpa", "nemo", "deepspeed",
                                  "megatron-core", "fms-fsdp",   "timm", "megatron-zb"};
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].framework, expected[i]) << rows[i].id;
}

TEST(Runs, StagesByCostAreLeftToThePartition) {
  RunRow row = korthikanti_22b();
  row.tp = 1;
  row.pp = 8;
  row.schedule = "1f1b";
  row.layers = 20;  // whole layers cannot be shared out evenly
  row.stages = "by-cost";
  EXPECT_EQ(scenario_of(row).skipped, "");
  EXPECT_THAT(scenario_of(row).text, ::testing::Not(HasSubstr("partition")));
  row.stages.clear();
  EXPECT_THAT(scenario_of(row).skipped, HasSubstr("20 layers cannot fill 8 stages"));
  row.framework = "nanotron";  // counts costs unless a row says otherwise
  EXPECT_THAT(scenario_of(row).assumed, Contains("stages: by-cost"));
  EXPECT_THAT(scenario_of(row).text, ::testing::Not(HasSubstr("partition")));
  row.stages = "equal-layers";
  EXPECT_THAT(scenario_of(row).skipped, HasSubstr("20 layers cannot fill 8 stages"));
}

// Layers of a rank: 48 / 8 = 6 in 2; 72 / 8 = 9 in 3; 56 / 8 = 7 in 7. 20 layers do not go out on 8 ranks: 2 as ever.
TEST(Runs, AnInterleavedRowTakesTheLeastNumberThatDividesItsLayers) {
  RunRow row = korthikanti_22b();
  row.tp = 1;
  row.pp = 8;
  row.schedule = "interleaved-1f1b";
  for (const auto& [layers, stages] : {std::pair(48, 2), {72, 3}, {56, 7}, {20, 2}}) {
    row.layers = layers;
    EXPECT_THAT(scenario_of(row).assumed, Contains("virtual_stages: " + std::to_string(stages))) << layers;
  }
}

// Brown et al.'s XL has 24 heads of 128 beside a hidden size of 2048.
TEST(Runs, HeadsNeedNotShareTheHiddenSize) {
  RunRow row = korthikanti_22b();
  row.tp = 1;
  row.hidden = 2048;
  row.heads = 24;
  EXPECT_THAT(scenario_of(row).text, HasSubstr("heads: 24, sequence: 2048, head_size: 128"));
  EXPECT_THAT(scenario_of(row).assumed, Contains("head_size: 128"));
  row.head_size = 96;
  EXPECT_THAT(scenario_of(row).text, HasSubstr("head_size: 96"));
  EXPECT_EQ(predict({row}, {}).front().skipped, "");
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
  EXPECT_NEAR(*runs[0].peak_error(), 0, 0.03);
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

TEST(Runs, ColumnsSayWhatNotesSaid) {
  const std::string path = file_with(
      "id,gpu,step_s,step_kind,framework,peak_gib,peak_kind,note\n"
      "a,H20,1,period,eager,13.8,,SDPA flash; tf32\n");
  const RunRow row = read_runs(path).front();
  EXPECT_EQ(row.framework + " " + row.precision + " " + row.step_kind + " " + row.peak_kind, "eager  period ");
  EXPECT_THAT(row.assumed, ::testing::IsEmpty());
  try {
    read_runs(file_with("id,gpu,step_s,step_kind\na,H20,1,rolling\n"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.diagnostics()[0].text, HasSubstr(":2:9: error: step_kind: expected step or period, not 'rolling'"));
  }
}

// Zero Bubble's trainer puts no barrier between steps, so its rows mean the period unless they say otherwise.
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
  try {
    parse_run_tolerance("mean=5");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--tolerance mean=5: 5 is 500 %; write 5% for that many per cent"));
  }
  try {
    parse_run_tolerance("medium=5%");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--tolerance medium=5%: there is no figure 'medium', did you mean 'median'?"));
  }
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
}  // namespace panpipe
