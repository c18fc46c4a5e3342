// An owner's job with another plan: the changed words, and every other byte as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "jobs/edit/base_job.hpp"
#include "jobs/edit/document_edits.hpp"
#include "jobs/trainer_jobs.hpp"
#include "tests/fault.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::HasSubstr;

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// What the plan of `keys` (over the base's own scenario) makes of the base.
EditedJob edited(const std::string& trainer, const std::string& base, const std::string& name, const std::string& keys,
                 const std::string& own = "") {
  JobOptions options;
  options.gpus = 16;
  std::string scenario = own;
  if (own.empty()) {
    const ImportedJob job = importer_named(trainer).read(base, name, options);
    scenario = scenario_text(job);
  }
  std::vector<std::string> overrides;
  for (std::size_t at = 0; at < keys.size();) {
    const std::size_t end = std::min(keys.find(';', at), keys.size());
    overrides.push_back(keys.substr(at, end - at));
    at = end + 1;
  }
  const Experiment experiment(parse_scenario(scenario, "job.yaml", ".", overrides));
  const Plan plan = experiment.plan("");
  return edit_job(trainer, {experiment, plan, "job.yaml", "", ""}, {base, name, options});
}

TEST(TextEdits, OnlyTheRangesChange) {
  TextEdits edits("a\nbb\nc\n");
  EXPECT_EQ(edits.difference("x"), "");
  edits.replace({2, 4}, "B");
  edits.insert(7, "d\n");
  EXPECT_EQ(edits.result(), "a\nB\nc\nd\n");
  EXPECT_EQ(edits.difference("x"), "--- x\n+++ x\n@@ -1,3 +1,4 @@\n a\n-bb\n+B\n c\n+d\n");
  TextEdits last("a\nb");
  last.replace({2, 3}, "c");
  EXPECT_EQ(last.difference("x"),
            "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n");
  TextEdits far("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n");
  far.replace({0, 1}, "x");
  far.remove({far.text().size() - 3, far.text().size()});
  EXPECT_EQ(far.difference("x"), "--- x\n+++ x\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -9,4 +9,3 @@\n 9\n 10\n 11\n-12\n");
}

const std::string kScript = R"(#!/bin/bash
# Trains our model. TP stays within a node.
export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=2   # tensor
PP="2"
MBS=1
DATA_ARGS="--data-path /data/my_text --tokenizer-type Llama2Tokenizer"

MODEL_ARGS=(
    --num-layers 8
    --hidden-size 512 --num-attention-heads 8   # small
    --seq-length 1024 --max-position-embeddings 1024
    --swiglu --disable-bias-linear --normalization RMSNorm
    --position-embedding-type rope --untie-embeddings-and-output-weights
    --vocab-size 32000
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size ${PP}
    --use-distributed-optimizer
    # --sequence-parallel
)
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py \
    "${MODEL_ARGS[@]}" ${PARALLEL_ARGS[@]} \
    --micro-batch-size=$MBS --global-batch-size 64 \
    --lr 1e-4 --min-lr 1e-5 --bf16 --recompute-granularity selective \
    $DATA_ARGS --save "ckpt/tp$TP" | tee log.txt
)";

const std::string kOwn = "parallel.pipeline=2;parallel.tensor=2;parallel.data=4";

TEST(BaseJob, TheBasesOwnPlanChangesNothing) {
  const EditedJob job = edited("megatron", kScript, "train.sh", kOwn);
  EXPECT_EQ(job.text, kScript);
  EXPECT_EQ(job.difference, "");
}

TEST(BaseJob, ValuesChangeWhereTheyAreWritten) {
  const EditedJob job =
      edited("megatron", kScript, "train.sh",
             "parallel.pipeline=4;parallel.tensor=1;parallel.data=4;batch={micro: 2, global: 64};partition=auto");
  std::string wanted = with(kScript, "PP=\"2\"", "PP=\"4\"");
  // A path has TP too, so the argument alone changes.
  wanted = with(wanted, "--tensor-model-parallel-size $TP", "--tensor-model-parallel-size 1");
  wanted = with(wanted, "MBS=1", "MBS=2");
  EXPECT_EQ(job.text, wanted);
  EXPECT_THAT(job.difference, HasSubstr("-PP=\"2\"\n+PP=\"4\"\n-MBS=1\n+MBS=2\n"));
}

// Arguments that stand alone in their file, here with a byte-order mark and the line ends of Windows.
TEST(BaseJob, ArgumentsWithoutAScript) {
  const std::string base =
      "\xEF\xBB\xBF--num-layers 8 --hidden-size 512 --num-attention-heads 8\r\n--seq-length 1024 --max-position-embeddings "
      "1024\r\n"
      "--micro-batch-size \"1\" --global-batch-size=64\r\n--tensor-model-parallel-size 2 --bf16 --vocab-size 32000\r\n";
  const EditedJob job = edited("megatron", base, "arguments.txt", "batch={micro: 2, global: 32}");
  EXPECT_EQ(job.text, with(with(base, "\"1\"", "\"2\""), "size=64", "size=32"));
}

// Megatron pads the vocabulary to a multiple of 128 x tensor: 32256 with four ranks, 32000 with two.
TEST(BaseJob, ThePaddedVocabularyFollowsThePlan) {
  const std::string script = with(with(kScript, "--vocab-size 32000", "--tokenizer-type Llama2Tokenizer"), "TP=2", "TP=4");
  const EditedJob job = edited("megatron", script, "train.sh", "parallel.pipeline=2;parallel.tensor=2;parallel.data=4");
  EXPECT_EQ(job.text, with(script, "--tensor-model-parallel-size $TP", "--tensor-model-parallel-size 2"));
}

// FSDP brings a format of checkpoints with it, which no prediction reads; a default within an expansion is a literal too.
TEST(BaseJob, ZeroTwoBringsItsFlags) {
  const std::string script = with(kScript, "PP=\"2\"", "PP=${PP:-2}");
  const EditedJob job = edited("megatron", script, "train.sh",
                               "parallel.pipeline=1;parallel.tensor=2;parallel.data=8;parallel.zero=2;partition=auto");
  EXPECT_THAT(job.text, HasSubstr("PP=${PP:-1}\n"));
  EXPECT_THAT(job.text, HasSubstr("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"));
  EXPECT_THAT(job.text, HasSubstr("--ckpt-format fsdp_dtensor"));
}

TEST(BaseJob, ArgumentsComeAndGo) {
  const EditedJob job =
      edited("megatron", kScript, "train.sh", kOwn + ";parallel.zero=0;parallel.sequence_parallel=true;recompute=none");
  std::string wanted = with(kScript, "    --use-distributed-optimizer\n", "");
  wanted = with(wanted, "--tensor-model-parallel-size $TP\n", "--tensor-model-parallel-size $TP\n    --sequence-parallel\n");
  wanted = with(wanted, " --recompute-granularity selective", "");
  EXPECT_EQ(job.text, wanted);
}

TEST(BaseJob, StagesAreStatedInTheWayOfTheJob) {
  const EditedJob even = edited("megatron", kScript, "train.sh",
                                kOwn +
                                    ";parallel.virtual_stages=2;schedule=interleaved-1f1b;partition=auto;"
                                    "partition=[h.2.attention, h.4.attention, h.6.attention]");
  EXPECT_EQ(even.text, with(kScript, "--pipeline-model-parallel-size ${PP}\n",
                            "--pipeline-model-parallel-size ${PP}\n    --num-layers-per-virtual-pipeline-stage 2\n"));
  const EditedJob uneven = edited("megatron", kScript, "train.sh", kOwn + ";partition=[h.5.attention]");
  EXPECT_EQ(uneven.text, with(kScript, "--pipeline-model-parallel-size ${PP}\n",
                              "--pipeline-model-parallel-size ${PP}\n    --pipeline-model-parallel-layout 'Et*5|t*3L'\n"));
}

TEST(BaseJob, StringsAndContinuedLines) {
  const std::string script =
      "GPT_ARGS=\"\r\n    --num-layers 8 \\\r\n    --hidden-size 512 --num-attention-heads 8 \\\r\n    --seq-length 1024 "
      "--max-position-embeddings 1024 --vocab-size 32000 \\\r\n    --tensor-model-parallel-size 2 \\\r\n    "
      "--pipeline-model-parallel-size 2 \\\r\n    --micro-batch-size 1 --global-batch-size 64 --bf16\r\n\"\r\n"
      "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py $GPT_ARGS --lr 1\r\n";
  const EditedJob job = edited("megatron", script, "train.sh", kOwn + ";partition=[h.5.attention];recompute=full");
  std::string wanted = with(script, "--pipeline-model-parallel-size 2 \\",
                            "--pipeline-model-parallel-size 2 \\\r\n    --pipeline-model-parallel-layout Ettttt|tttL \\");
  wanted =
      with(wanted, "--micro-batch-size 1",
           "--micro-batch-size 1 \\\r\n    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  EXPECT_EQ(job.text, wanted);
}

TEST(BaseJob, WhatCannotBeEditedIsRefused) {
  EXPECT_THAT(test::fault_of([&] { edited("megatron", kScript, "train.sh", "parallel.data=2"); }),
              HasSubstr("train.sh: the job runs on 16 GPUs, and the plan on 8"));
  const std::string other = with(scenario_text(importer_named("megatron").read(kScript, "train.sh", {})), "num_hidden_layers: 8",
                                 "num_hidden_layers: 12");
  EXPECT_THAT(test::fault_of([&] { edited("megatron", kScript, "train.sh", kOwn, other); }),
              HasSubstr("train.sh: the job trains a model of 8 layers of width 512, and the scenario's has 12"));
  EXPECT_THAT(test::fault_of([&] { edited("torch", kScript, "train.py", kOwn); }), HasSubstr("has no import"));
}

TEST(BaseJob, ConfigurationsKeepTheirComments) {
  const std::string model =
      "panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 2}\nworkload: {model: llama, layers: 8, hidden: 512, heads: 8, "
      "ffn: 1024, vocabulary: 32000, sequence: 512}\nprecision: bf16\nparallel: {pipeline: 1, data: 16, zero: 2}\n"
      "batch: {micro: 2, microbatches: 4}\noptimizer: adamw\n";
  const std::string json =
      "{\n  \"train_micro_batch_size_per_gpu\": 1,\n  \"gradient_accumulation_steps\": 8,\n  \"bf16\": {\"enabled\": true},\n"
      "  \"zero_optimization\": {\n    \"overlap_comm\": true\n  },\n  \"steps_per_print\":   10\n}\n";
  EXPECT_EQ(
      edited("deepspeed", json, "ds.json", "", model).text,
      "{\n  \"train_micro_batch_size_per_gpu\": 2,\n  \"gradient_accumulation_steps\": 4,\n  \"bf16\": {\"enabled\": true},\n"
      "  \"zero_optimization\": {\n    \"stage\": 2,\n    \"overlap_comm\": true\n  },\n  \"steps_per_print\":   10\n}\n");
}

// nanotron divides the layers itself: the plan's other cuts are reported, and the rest of it is written.
TEST(BaseJob, NanotronKeepsItsOwnCuts) {
  const std::string yaml =
      "# ours\nmodel:\n  dtype: bfloat16\n  model_config: {is_llama_config: true, hidden_size: 512, intermediate_size: 1024,\n"
      "    num_hidden_layers: 8, num_attention_heads: 8, vocab_size: 1024}\nparallelism:\n  dp: 8  # replicas\n  pp: 2\n  tp: 1\n"
      "tokens: {micro_batch_size: 2, batch_accumulation_per_replica: 4, sequence_length: 512}\n";
  std::string wanted = with(yaml, "  dp: 8  # replicas\n", "  pp_engine: 1f1b\n  dp: 8  # replicas\n");
  const EditedJob own = edited("nanotron", yaml, "a.yaml", "schedule=1f1b");
  EXPECT_EQ(own.text, wanted);
  EXPECT_TRUE(own.cannot.empty());
  const EditedJob other = edited("nanotron", yaml, "a.yaml", "schedule=1f1b;partition=[h.4.attention]");
  EXPECT_EQ(other.text, wanted);
  EXPECT_EQ(other.cannot, std::vector<std::string>{"stages of 4, 4 layers: nanotron divides by a rule of its own, into 5, 3"});
}

TEST(BaseJob, TrainingArgumentsKeepTheirOrder) {
  const std::string model =
      "panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 2}\nworkload: {model: llama, layers: 8, hidden: 512, heads: 8, "
      "ffn: 1024, vocabulary: 32000, sequence: 512}\nprecision: bf16\nparallel: {pipeline: 1, data: 16, zero: 3}\n"
      "batch: {micro: 2, microbatches: 4}\noptimizer: adamw\nrecompute: full\n";
  EXPECT_EQ(edited("huggingface", "{\n  \"output_dir\": \"o\",\n  \"per_device_train_batch_size\": 8,\n  \"bf16\": true\n}\n",
                   "args.json", "", model)
                .text,
            "{\n  \"gradient_accumulation_steps\": 4,\n  \"fsdp\": \"full_shard auto_wrap\",\n  \"fsdp_config\": "
            "{\"activation_checkpointing\": true},\n  \"output_dir\": \"o\",\n  \"per_device_train_batch_size\": 2,\n  "
            "\"bf16\": true\n}\n");
}

TEST(BaseJob, TorchtitanInPythonAndToml) {
  const std::string python =
      "from torchtitan.models.llama3.config_registry import llama3_8b\n\n\ndef mine():\n    config = llama3_8b()\n"
      "    config.parallelism.tensor_parallel_degree = 2  # within a node\n    config.training.steps = 10\n    return config\n";
  const std::string plan =
      "parallel={pipeline: 1, tensor: 4, data: 4, zero: 3, sequence_parallel: true};recompute=full;"
      "batch={micro: 1, global: 8}";
  EXPECT_EQ(edited("torchtitan", python, "mine.py", plan).text,
            "from torchtitan.distributed.activation_checkpoint import FullAC\n"
            "from torchtitan.models.llama3.config_registry import llama3_8b\n\n\ndef mine():\n    config = llama3_8b()\n"
            "    config.parallelism.tensor_parallel_degree = 4  # within a node\n    config.training.steps = 10\n"
            "    config.activation_checkpoint = FullAC.Config()\n    config.training.global_batch_size = 8\n    return config\n");
  const std::string toml =
      "# ours\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n\n[parallelism]  # two nodes\ntensor_parallel_degree = 2 # within\n"
      "data_parallel_shard_degree = 8\n\n[training]\nlocal_batch_size = 1\nglobal_batch_size = 8\nseq_len = 8192\n";
  EXPECT_THAT(edited("torchtitan", toml, "mine.toml", plan).text,
              HasSubstr("tensor_parallel_degree = 4 # within\ndata_parallel_shard_degree = 4\n"));
  // A list of modules has lines of its own, which end as the file's do.
  const auto crlf = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, 1, '\r');
    return text;
  };
  const std::string stages = "parallel={pipeline: 2, tensor: 1, data: 8, zero: 2};batch={micro: 1, global: 16}";
  for (const auto& [text, name] : {std::pair(python, "mine.py"), std::pair(toml, "mine.toml")}) {
    const std::string whole = edited("torchtitan", text, name, stages).text;
    EXPECT_THAT(whole, HasSubstr("module_fqns_per_model_part"));
    EXPECT_EQ(edited("torchtitan", crlf(text), name, stages).text, crlf(whole));
  }
}

}  // namespace
}  // namespace panpipe::jobs
