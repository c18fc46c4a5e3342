// Measured runs: reading their rows, and the scenarios that are written for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/validation/run_fixture.hpp"
#include "validation/runs/run_choices.hpp"
#include "validation/runs/run_scenario.hpp"

namespace panpipe::validation {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

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
  EXPECT_EQ(test::fault_of([&] { read_runs(path); }), path +
                                                          ":1:22: error: there is no column 'recomputed'\n"
                                                          "    1 | id,gpu,step_s,layers,recomputed\n"
                                                          "      |                      ^\n"
                                                          "  help: did you mean 'recompute'?");
  const std::vector<Diagnostic> faults =
      test::diagnostics_of([&] { read_runs(file_with("id,gpu,step_s,layers\na,H20,1,twelve\na,H20,-1,3\n")); });
  ASSERT_EQ(faults.size(), 3U);
  EXPECT_THAT(faults[0].text(), HasSubstr(":2:9: error: layers: "));
  EXPECT_THAT(faults[1].text(), HasSubstr(":3:1: error: the id 'a' occurs twice"));
  EXPECT_THAT(faults[2].text(), HasSubstr(":3:7: error: step_s: must be positive, not -1"));
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

TEST(Runs, WhatARowLeavesOpenIsReported) {
  RunRow row = korthikanti_22b();
  row.heads = row.vocab = row.micro_batch = std::nullopt;
  row.precision = "16bit-mixed";
  row.framework.clear();
  const RunScenario scenario = scenario_of(row);
  for (const char* expected : {"heads: 48", "vocab: 51200", "micro_batch: 2", "precision: fp16", "framework: megatron",
                               "seq_parallel: false", "zero: 0"})
    EXPECT_THAT(scenario.assumed, Contains(expected));
}

TEST(Runs, ContextRanksAreNextToTheDataParallelOnes) {
  RunRow row = korthikanti_22b();
  row.tp = 2;
  row.pp = 2;
  row.gpus = 32;
  row.dp = std::nullopt;
  row.schedule = "1f1b";
  row.context_size = 4;  // 32 / (2 x 2 x 4) = 2
  EXPECT_THAT(scenario_of(row).text, HasSubstr("parallel: {pipeline: 2, tensor: 2, data: 2, zero: 0, context: 4, "));
  row.dp = 4;
  EXPECT_EQ(scenario_of(row).skipped, "tp 2 x pp 2 x dp 4 x context_size 4 needs more than 32 GPUs");
  row.dp = std::nullopt;
  row.context_size = std::nullopt;
  row.expert_size = 8;
  EXPECT_EQ(scenario_of(row).skipped, "expert_size: no column states the experts of a model; `scenario` names a file that does");
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

// A file without the columns step_kind and peak_kind states them in its notes; with one of them the notes are prose.
TEST(Runs, NotesFillColumns) {
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
  const auto reported = [](const RunRow& row) {
    return row.framework + " " + row.precision + " " + row.step_kind + " " + row.peak_kind;
  };
  const std::vector<RunRow> rows = read("");
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_EQ(reported(rows[0]), "megatron-deepspeed bf16-mixed  ");
  EXPECT_EQ(reported(rows[1]), "huggingface tf32  allocated");
  EXPECT_EQ(reported(rows[2]), "megatron-zb 16bit-mixed step ");
  EXPECT_EQ(reported(rows[3]), "torch-compile bf16  allocated");
  EXPECT_EQ(reported(rows[4]), "eager-sdpa bf16  allocated");
  EXPECT_EQ(reported(rows[5]), "eager-sdpa-chunked-loss bf16  allocated");
  EXPECT_EQ(reported(rows[6]), "eager-sdpa bf16  ");
  EXPECT_THAT(rows[4].assumed, ::testing::ElementsAre("peak_kind: allocated", "framework: eager-sdpa (from 'SDPA flash')"));
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

// Choices of the framework stand next to its name; a column counts before the words of a source.
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

// Notes of files that have no such columns.
TEST(Runs, NotesFillChoices) {
  const std::vector<RunRow> rows =
      read_runs(file_with("id,source,gpu,step_s,framework,hidden,note\n"
                          "amp,,A100-80G-SXM,1,torch-compile,768,\"fp16 autocast with GradScaler, no dropout\"\n"
                          "sgd,,RTX3090,1,eager,768,\"AMP without scaler, SGD\"\n"
                          "3B,nanotron,H100-SXM,1,stp,3072,fp32 gradient accumulation; tied embeddings in 1B and 3B\n"
                          "8B,nanotron,H100-SXM,1,stp,4096,tied embeddings in 1B and 3B\n"
                          "untied,,RTX3090,1,eager,768,untied embeddings\n"
                          "bloom,,A100-80G-SXM,1,megatron-deepspeed,768,bf16 optimizer with fp32 gradient accumulation\n"));
  using Choices = std::map<std::string, std::string>;
  EXPECT_EQ(rows[0].framework_choices, (Choices{{"autocast", "true"}, {"gradient_scaler", "true"}, {"dropout", "false"}}));
  EXPECT_EQ(rows[1].framework_choices, (Choices{{"autocast", "true"}}));
  EXPECT_EQ(rows[1].optimizer, "sgd");
  EXPECT_EQ(rows[2].framework_choices, (Choices{{"gradient_accumulation", "fp32"}}));
  EXPECT_EQ(rows[2].tied_embedding, "true");
  EXPECT_EQ(rows[2].framework, "nanotron");
  EXPECT_THAT(rows[2].assumed, Contains("framework: nanotron (from 'nanotron')"));
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
                          "h,zb,A100-80G-SXM,1,megatron-zb,,\n"
                          "i,mli,RTX3090Ti,1,eager,derived gbs/(samples/s); HF; tf32,\n"
                          "j,neusight,A100-80G-PCIe,1,eager,dims from the HF model names,\n"
                          "k,languini_4090,RTX4090,1,torch-compile,,unfused\n"));
  const char* const expected[] = {"torchtitan", "eager-sdpa",  "nemo",        "deepspeed", "megatron-core",    "fms-fsdp",
                                  "timm",       "megatron-zb", "huggingface", "eager",     "torch-compile-2.0"};
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].framework, expected[i]) << rows[i].id;
}

TEST(Runs, ModelsOfTransformersWithGpt2sVocabularyActivateInOperators) {
  const std::vector<RunRow> rows =
      read_runs(file_with("id,gpu,step_s,framework,vocab,note\n"
                          "gpt2,RTX3090Ti,1,eager,50257,x; HF; y\n"
                          "bert,RTX3090Ti,1,eager,30522,x; HF; y\n"
                          "other,RTX3090Ti,1,eager,50257,x\n"));
  using Choices = std::map<std::string, std::string>;
  EXPECT_EQ(rows[0].framework_choices, (Choices{{"activation", "operators"}}));
  EXPECT_THAT(rows[0].assumed, Contains("activation: operators"));
  EXPECT_EQ(rows[1].framework_choices, Choices{});
  EXPECT_EQ(rows[2].framework_choices, Choices{});
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
  row.stages = "equal-layers";
  EXPECT_THAT(scenario_of(row).skipped, HasSubstr("20 layers cannot fill 8 stages"));
}

// A layer has 4 x 2048 x 2048 + 3 x 8192 x 2048 = 67.1 million weights, the head 131072 x 2048 = 4 layers: 20 in all. The first
// of four stages ends with the layer that passes 5, the next ones with those that pass 10 and 15: 6, 11 and 16 layers. Of eight
// stages the seventh passes its share of 17.5 with the head, and none is left for the last.
TEST(Runs, StagesOfNanotronEndWhereItsWeightsPassTheirShare) {
  RunRow row = korthikanti_22b();
  row.framework = "nanotron";
  row.tp = 1;
  row.pp = 4;
  row.schedule = "1f1b";
  row.layers = 16;
  row.hidden = 2048;
  row.ffn = 8192;
  row.vocab = 131072;
  EXPECT_THAT(scenario_of(row).text, HasSubstr("partition: [h.6.attention, h.11.attention, head]"));
  EXPECT_THAT(scenario_of(row).assumed, Contains("stages: by-weights"));
  row.pp = 8;
  EXPECT_THAT(scenario_of(row).text, HasSubstr("partition: [h.3.attention, h.6.attention, h.8.attention, h.11.attention, "
                                               "h.13.attention, h.15.mlp, head]"));
  row.gpus = row.pp = 16;  // the head in the thirteenth, and nothing is left for the last two
  EXPECT_THAT(scenario_of(row).assumed, Contains("stages: by-cost"));
  EXPECT_THAT(scenario_of(row).text, ::testing::Not(HasSubstr("partition")));
  row.framework = "megatron";
  row.pp = 4;
  EXPECT_THAT(scenario_of(row).text, HasSubstr("partition: [h.4.attention, h.8.attention, h.12.attention]"));
  row.stages = "by-weights";
  EXPECT_THAT(scenario_of(row).text, HasSubstr("partition: [h.6.attention, h.11.attention, head]"));
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

// Brown et al.'s XL has 24 heads of 128 with a hidden size of 2048.
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

TEST(Runs, ColumnsStateWhatNotesStated) {
  const std::string path = file_with(
      "id,gpu,step_s,step_kind,framework,peak_gib,peak_kind,note\n"
      "a,H20,1,period,eager,13.8,,SDPA flash; tf32\n");
  const RunRow row = read_runs(path).front();
  EXPECT_EQ(row.framework + " " + row.precision + " " + row.step_kind + " " + row.peak_kind, "eager  period ");
  EXPECT_THAT(row.assumed, ::testing::IsEmpty());
  EXPECT_THAT(test::fault_of([&] { read_runs(file_with("id,gpu,step_s,step_kind\na,H20,1,rolling\n")); }),
              HasSubstr(":2:9: error: step_kind: expected step or period, not 'rolling'"));
}

}  // namespace
}  // namespace panpipe::validation
