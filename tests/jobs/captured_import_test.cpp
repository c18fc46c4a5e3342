// Captured configurations (tests/jobs/captured, made by tools/test-capture --write with the trainers' own packages): each becomes
// the scenario of the same job stated by a file or by arguments.
#include "jobs/captured/captured.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/input/source_text.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "jobs/deepspeed/import.hpp"
#include "jobs/import.hpp"
#include "jobs/megatron/import.hpp"
#include "jobs/trainer_jobs.hpp"
#include "tests/jobs/job_values.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string fixture(const std::string& name) { return read_text_file("jobs/captured/" + name + ".json"); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The keys of both with their values, but for `differing`, whose values have their own checks.
void expect_same_values(const ImportedJob& captured, const ImportedJob& stated, const std::vector<std::string>& differing) {
  const auto keys = [&](const ImportedJob& job) {
    std::vector<std::string> found;
    for (const ImportedValue& one : job.values)
      if (std::find(differing.begin(), differing.end(), one.key) == differing.end()) found.push_back(one.key + ": " + one.value);
    return found;
  };
  EXPECT_THAT(keys(captured), ::testing::UnorderedElementsAreArray(keys(stated)));
}

void expect_loads(const ImportedJob& job) {
  SCOPED_TRACE(scenario_text(job));
  EXPECT_EQ(fault_of([&] { parse_scenario(scenario_text(job), "job.yaml", "."); }), "");
}

const std::string kToml = R"(
model.name = "llama3"
model.flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
max_norm = 1.0
[parallelism]
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[optimizer]
name = "AdamW"
)";

TEST(CapturedTorchtitan, IsTheJobOfTheToml) {
  const std::string text = fixture("torchtitan-llama3-8b");
  const ImportedJob captured = import_torchtitan(text, "job.json", {});
  const ImportedJob stated = import_torchtitan(kToml, "job.toml", {.gpus = 16});
  expect_same_values(captured, stated, {"workload.config", "framework"});
  EXPECT_EQ(
      value(captured, "framework"),
      "{elementwise: eager, normalization: modules, loss: eager, loss_live_bytes_per_logit: 1.5, gradient_clipping: foreach}");
  EXPECT_THAT(captured.not_understood, IsEmpty());
  EXPECT_THAT(captured.without_effect, Not(Contains(HasSubstr("comm."))));  // at their defaults
  expect_loads(captured);
}

// A recipe of Megatron-Bridge is read as the arguments that its container makes.
TEST(CapturedNemo, IsAJobOfMegatronCore) {
  const std::string text = replaced(fixture("megatron-core"), "\"name\": \"megatron-core\"", "\"name\": \"nemo\"");
  const ImportedJob job = import_nemo(text, "job.json", {});
  EXPECT_EQ(value(job, "trainer"), "nemo");
  expect_same_values(job, import_megatron(fixture("megatron-core"), "job.json", {}), {"trainer"});
  EXPECT_THAT(fault_of([&] { import_nemo("--num-layers 2", "job.py", {}); }), HasSubstr("job.py: a recipe is a program"));
}

// The captured model is the flavor's: every key of the shipped table is among the captured ones with the same value.
TEST(CapturedTorchtitan, TheModelIsTheFlavors) {
  const std::string config = value(import_torchtitan(fixture("torchtitan-llama3-8b"), "job.json", {}), "workload.config");
  for (const char* part : {"model_type: llama", "num_hidden_layers: 32", "hidden_size: 4096", "num_key_value_heads: 8",
                           "intermediate_size: 14336", "vocab_size: 128256", "rope_theta: 500000"})
    EXPECT_THAT(config, HasSubstr(part));
}

// A model that the shipped table lacks is read all the same, and cut into stages by its own layers.
TEST(CapturedTorchtitan, AnyFlavor) {
  std::string text = replaced(fixture("torchtitan-llama3-8b"), "\"flavor\": \"8B\"", "\"flavor\": \"mine\"");
  text = replaced(text, "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 14");
  text = replaced(text, "\"pipeline_parallel_degree\": 1", "\"pipeline_parallel_degree\": 2");
  const ImportedJob job = import_torchtitan(text, "job.json", {});
  EXPECT_THAT(value(job, "workload.config"), HasSubstr("num_hidden_layers: 14"));
  EXPECT_EQ(value(job, "partition"), "[h.7.attention]");
  expect_loads(job);
}

TEST(CapturedTorchtitan, TheCommandLineCounts) {
  const std::string text = fixture("torchtitan-llama3-8b");
  EXPECT_EQ(value(import_torchtitan(text, "job.json", {.gpus = 32}), "parallel.data"), "16");
  EXPECT_EQ(value(import_torchtitan(text, "job.json", {.model = "my.json"}), "workload.config"), "\"my.json\"");
  EXPECT_EQ(value(import_torchtitan(text, "job.json", {.overrides = {"--training.seq_len", "4096"}}), "workload.sequence"),
            "4096");
  const std::string plain = replaced(text, "\"enable_sequence_parallel\": true", "\"enable_sequence_parallel\": false");
  EXPECT_EQ(value(import_torchtitan(plain, "job.json", {}), "parallel.sequence_parallel"), "absent");
}

TEST(CapturedMegatron, IsTheJobOfTheArguments) {
  const ImportedJob captured = import_megatron(fixture("megatron-core"), "job.json", {});
  const ImportedJob stated = import_megatron(
      "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 --seq-length 4096 --max-position-embeddings 8192 --position-embedding-type rope --rotary-base 500000 "
      "--swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --micro-batch-size 1 "
      "--global-batch-size 64 --bf16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
      "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --vocab-size 128256 --recompute-activations "
      "--attention-dropout 0 --hidden-dropout 0",
      "job.sh", {.gpus = 16});
  expect_same_values(captured, stated, {});
  expect_loads(captured);
}

TEST(CapturedDeepSpeed, IsTheJobOfTheFile) {
  const JobOptions options{.gpus = 16, .model = "config.json", .sequence = 2048};
  const ImportedJob captured = import_deepspeed(fixture("deepspeed-zero2"), "job.json", options);
  const ImportedJob stated = import_deepspeed(
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 2}, "gradient_clipping": 1.0})",
      "ds.json", options);
  expect_same_values(captured, stated, {"framework"});
  // DeepSpeed's own defaults, which the file leaves open.
  EXPECT_EQ(value(captured, "framework"),
            "{overlap_all_reduce: false, overlap_reduce_scatter: false, gradient_bucket_elements: 500000000, "
            "gradient_clipping: foreach}");
}

TEST(CapturedAccelerate, IsTheJobOfTheFile) {
  const JobOptions options{.model = "config.json", .sequence = 2048};
  const ImportedJob captured = import_accelerate(fixture("accelerate-fsdp"), "job.json", options);
  // parallel.data: the command line's, in place of the file's 8
  expect_values(captured, "parallel.data: 16; parallel.zero: 3; recompute: full; precision: bf16");
  EXPECT_THAT(captured.not_understood, IsEmpty());
}

TEST(CapturedHuggingFace, Fsdp) {
  const ImportedJob job = import_huggingface(fixture("transformers-fsdp"), "job.json", {});
  expect_values(job,
                "parallel.data: 8; parallel.zero: 3; batch.micro: 2; batch.microbatches: 4; precision: bf16; recompute: full; "
                "optimizer: adamw; workload.sequence: 4096");
  EXPECT_THAT(value(job, "workload.config"), HasSubstr("num_hidden_layers: 32"));
  expect_values(
      job, "trainer: {name: huggingface, release: 5.24.0}; framework: {optimizer_kernel: fused, gradient_clipping: foreach}");
  EXPECT_THAT(job.not_understood, IsEmpty());
  expect_loads(job);
}

// Experts in grouped products came with release 5.
TEST(CapturedHuggingFace, TheReleaseDecidesWhatStepsCost) {
  const std::string text = replaced(fixture("transformers-fsdp"), "\"5.24.0\"", "\"4.57.1\"");
  const ImportedJob job = import_huggingface(text, "job.json", {});
  expect_values(job,
                "trainer: {name: huggingface, release: 4.57.1}; framework: {name: eager-sdpa, optimizer_kernel: fused, "
                "gradient_clipping: foreach}");
  expect_loads(job);
}

// The Trainer has settled what the file leaves open.
TEST(CapturedHuggingFace, DeepSpeed) {
  const ImportedJob job = import_huggingface(fixture("transformers-deepspeed"), "job.json", {.sequence = 2048});
  EXPECT_EQ(job.trainer, "Hugging Face's Trainer with DeepSpeed");
  expect_values(job, "parallel.zero: 3; batch.micro: 2; batch.global: 16; precision: bf16");
  expect_loads(job);
}

// A file of arguments is read without a capture.
TEST(CapturedHuggingFace, FileOfArguments) {
  const JobOptions options{.gpus = 8, .model = "config.json", .sequence = 512};
  const ImportedJob job = import_huggingface(
      R"({"fp16": true, "gradient_checkpointing": true, "optim": "paged_adamw_8bit", "fsdp": "shard_grad_op auto_wrap", "lerning_rate": 1})",
      "args.json", options);
  expect_values(job, "precision: fp16; parallel.zero: 2; optimizer: {name: adamw, states: 8bit}; batch.micro: 8");
  EXPECT_THAT(job.not_understood, Contains(HasSubstr("lerning_rate: 1 (did you mean 'learning_rate'?)")));
  EXPECT_THAT(fault_of([&] { import_huggingface(R"({"bf16": true, "fp16": true})", "args.json", options); }),
              HasSubstr("'fp16' contradicts bf16"));
}

TEST(CapturedJob, WhatIsRefused) {
  const std::string text = fixture("torchtitan-llama3-8b");
  EXPECT_THAT(fault_of([&] { import_deepspeed(text, "job.json", {}); }),
              HasSubstr("job.json: this is a captured job of 'torchtitan', not of deepspeed"));
  EXPECT_THAT(fault_of([&] { captured_job(replaced(text, "capture/1", "capture/9"), "job.json"); }),
              HasSubstr("job.json:3:12: error: 'panpipe-capture/9' is another form"));
  EXPECT_THAT(fault_of([&] { captured_job(R"({"schema": "panpipe-capture/1", "trainer": 3})", "job.json"); }),
              HasSubstr("without a 'trainer' is damaged"));
  EXPECT_THAT(fault_of([&] { captured_job(replaced(text, "\"world\": 16", "\"world\": 0.5"), "job.json"); }),
              HasSubstr("'0.5' is no whole number from 1 to 65536"));
  EXPECT_FALSE(captured_job(R"({"train_batch_size": 4})", "ds.json").has_value());
}

// Words of a model stay words: none becomes a key of the scenario.
TEST(CapturedJob, WordsAreQuoted) {
  const std::string text =
      replaced(fixture("torchtitan-llama3-8b"), "\"model_type\": \"llama\"", "\"model_type\": \"llama}\\ncluster: x #\"");
  const ImportedJob job = import_torchtitan(text, "job.json", {});
  EXPECT_THAT(value(job, "workload.config"), HasSubstr("model_type: \"llama}\\ncluster: x #\""));
}

}  // namespace
}  // namespace panpipe::jobs
