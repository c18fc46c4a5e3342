// DeepSpeed's and Accelerate's configurations as scenarios: what each key becomes, what is assumed, and what is refused.
#include "jobs/deepspeed/import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/scenario/scenario.hpp"
#include "jobs/trainer_jobs.hpp"
#include "tests/jobs/job_values.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobOptions with_model(std::optional<int> gpus = 8) { return {.gpus = gpus, .model = "config.json", .sequence = 2048}; }

ImportedJob deepspeed(const std::string& text, const JobOptions& options = with_model()) {
  return import_deepspeed(text, "ds.json", options);
}
ImportedJob accelerate(const std::string& text, const JobOptions& options = with_model(std::nullopt)) {
  return import_accelerate(text, "a.yaml", options);
}
std::string deepspeed_fault(const std::string& text, const JobOptions& options = with_model()) {
  return fault_of([&] { deepspeed(text, options); });
}
std::string accelerate_fault(const std::string& text, const JobOptions& options = with_model(std::nullopt)) {
  return fault_of([&] { accelerate(text, options); });
}

TEST(DeepSpeedImport, KeysThatMoveAStep) {
  const ImportedJob job = deepspeed(R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8, "overlap_comm": false},
    "optimizer": {"type": "FusedLamb", "params": {"lr": 1e-4}}, "gradient_clipping": 1.0})");
  EXPECT_EQ(value(job, "parallel.zero"), "2");
  EXPECT_EQ(value(job, "parallel.data"), "8");
  EXPECT_EQ(value(job, "batch.micro"), "2");
  EXPECT_EQ(value(job, "batch.global"), "64");
  EXPECT_EQ(value(job, "precision"), "bf16");
  EXPECT_EQ(value(job, "workload.config"), "\"config.json\"");
  EXPECT_EQ(value(job, "framework"),
            "{overlap_all_reduce: false, overlap_reduce_scatter: false, gradient_bucket_elements: 500000000, "
            "gradient_clipping: foreach}");
  EXPECT_THAT(job.not_modelled, ElementsAre("optimizer.type: FusedLamb (predicted as AdamW)"));
  EXPECT_THAT(job.without_effect, ElementsAre("optimizer.params.lr: 1e-4"));
}

// DeepSpeed's Adam decays weights as AdamW does, unless the parameter states otherwise.
TEST(DeepSpeedImport, AdamIsAdamW) {
  const auto optimizer = [](const std::string& text) { return value(deepspeed("{\"optimizer\": " + text + "}"), "optimizer"); };
  EXPECT_EQ(optimizer(R"({"type": "Adam"})"), "adamw");
  EXPECT_EQ(optimizer(R"({"type": "Adam", "params": {"adam_w_mode": true}})"), "adamw");
  EXPECT_EQ(optimizer(R"({"type": "Adam", "params": {"adam_w_mode": false}})"), "adam");
  EXPECT_EQ(optimizer(R"({"type": "AdamW", "params": {"adam_w_mode": false}})"), "adamw");
  EXPECT_EQ(optimizer(R"({"type": "SGD"})"), "sgd");
  EXPECT_EQ(optimizer(R"({"type": "Muon"})"), "muon");
}

TEST(DeepSpeedImport, AutoIsAnAssumption) {
  const ImportedJob job = deepspeed(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}})");
  EXPECT_EQ(value(job, "batch.micro"), "1");
  EXPECT_EQ(value(job, "batch.microbatches"), "1");
  EXPECT_EQ(value(job, "precision"), "bf16");
  EXPECT_THAT(job.assumptions, Contains("bf16 (bf16.enabled is auto)."));
  EXPECT_THAT(job.assumptions, Contains("microbatches of 1 sample; --micro N states another number."));
  EXPECT_THAT(job.not_understood, IsEmpty());
}

// 64 samples / (4 passes x 8 replicas) = 2.
TEST(DeepSpeedImport, TheThirdBatchSizeFollowsFromTwo) {
  EXPECT_EQ(value(deepspeed(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4})"), "batch.micro"), "2");
  EXPECT_THAT(
      deepspeed_fault(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2})"),
      HasSubstr("'train_batch_size' is 64, and micro batch x gradient_accumulation_steps x replicas are 32"));
  EXPECT_THAT(deepspeed_fault(R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 1})"),
              HasSubstr("'train_batch_size' is 12, no multiple of micro batch x replicas, 8"));
}

TEST(DeepSpeedImport, WhatIsNotPredictedIsReported) {
  const ImportedJob job = deepspeed(R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"},
    "offload_param": {"device": "none"}, "zero_hpz_partition_size": 8}, "moe": {"enabled": true}, "tensor_parallel":
    {"autotp_size": 2}, "fancy": {"key": [1, 2]}, "steps_per_print": 10})");
  EXPECT_EQ(value(job, "parallel.tensor"), "2");
  EXPECT_EQ(value(job, "parallel.data"), "4");
  EXPECT_THAT(job.not_modelled, Contains("zero_optimization.zero_hpz_partition_size: 8"));
  EXPECT_THAT(job.not_modelled, Contains("moe.enabled: true"));
  EXPECT_EQ(value(job, "offload.optimizer"), "cpu");
  EXPECT_EQ(job.not_modelled.size(), 2U);
  EXPECT_THAT(job.not_understood, ElementsAre("fancy.key: [1, 2]"));
  EXPECT_THAT(job.without_effect, ElementsAre("steps_per_print: 10"));
}

TEST(DeepSpeedImport, FaultsHavePlacesAndRemedies) {
  EXPECT_EQ(
      deepspeed_fault("{}", {}),
      "--model: error: ds.json: a configuration of DeepSpeed holds no model\n  help: name its config.json, as Hugging Face's "
      "transformers writes it");
  EXPECT_EQ(deepspeed_fault("{\n \"zero_optimization\": {\"stage\": 4}}"),
            "ds.json:2:33: error: 'zero_optimization.stage' is 4, more than 3\n  at zero_optimization.stage\n"
            "    2 |  \"zero_optimization\": {\"stage\": 4}}\n      |                                 ^");
  EXPECT_THAT(deepspeed_fault(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})"),
              HasSubstr("'fp16.enabled' contradicts bf16.enabled"));
  EXPECT_THAT(deepspeed_fault(R"({"train_batch_size": 1e30})"), HasSubstr("'train_batch_size' is 1e30, more than 16777216"));
  EXPECT_THAT(deepspeed_fault(R"({"train_batch_size": 2.5})"), HasSubstr("is '2.5', which is no whole number"));
  EXPECT_THAT(deepspeed_fault(R"({"pipeline": {"stages": 65536}, "tensor_parallel": {"autotp_size": 65536}})"),
              HasSubstr("tensor 65536 x pipeline 65536 x sequence 1 are 4294967296 ranks, more than 65536"));
  EXPECT_THAT(deepspeed_fault("[1]"), HasSubstr("the configuration of a job is a map of keys and values"));
  EXPECT_THAT(deepspeed_fault(std::string((1 << 20) + 1, ' ')), HasSubstr("more than 1 MiB"));
}

TEST(AccelerateImport, FsdpOfBothVersions) {
  const std::string head = "distributed_type: FSDP\nnum_processes: 16\nnum_machines: 2\nmixed_precision: bf16\nfsdp_config:\n";
  const auto zero = [&](const std::string& keys) { return value(accelerate(head + keys), "parallel.zero"); };
  EXPECT_EQ(zero("  fsdp_sharding_strategy: FULL_SHARD\n"), "3");
  EXPECT_EQ(zero("  fsdp_sharding_strategy: 2\n"), "2");
  EXPECT_EQ(zero("  fsdp_sharding_strategy: NO_SHARD\n"), "0");
  EXPECT_EQ(zero("  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"), "3");
  EXPECT_EQ(zero("  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n"), "2");
  EXPECT_EQ(zero("  fsdp_version: 1\n  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"), "2");
  const ImportedJob hybrid = accelerate(head + "  fsdp_sharding_strategy: HYBRID_SHARD\n  fsdp_activation_checkpointing: true\n");
  EXPECT_EQ(value(hybrid, "parallel.zero"), "3");
  EXPECT_EQ(value(hybrid, "parallel.shard"), "8");  // 16 processes on 2 machines
  const ImportedJob cut = accelerate(head + "  fsdp_sharding_strategy: 4\nparallelism_config: {parallelism_config_tp_size: 2}\n");
  EXPECT_EQ(value(cut, "parallel.shard"), "4");  // tensor 2 leaves 4 replicas on a node
  EXPECT_EQ(value(hybrid, "recompute"), "full");
  EXPECT_EQ(value(hybrid, "cluster"), "{file: clusters/h100x8.yaml, nodes: 2}");
  EXPECT_EQ(value(hybrid, "trainer"), "accelerate");
}

TEST(AccelerateImport, OtherTypes) {
  const ImportedJob zero = accelerate(
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: 4\n"
      "  offload_param_device: cpu\n  gradient_clipping: auto\n");
  EXPECT_EQ(value(zero, "parallel.zero"), "3");
  EXPECT_EQ(value(zero, "batch.microbatches"), "4");
  EXPECT_EQ(value(zero, "offload.parameters"), "cpu");
  const ImportedJob megatron = accelerate(
      "distributed_type: MEGATRON_LM\nnum_processes: 8\nmixed_precision: fp16\nmegatron_lm_config:\n  megatron_lm_tp_degree: 2\n"
      "  megatron_lm_pp_degree: 2\n  megatron_lm_num_micro_batches: 8\n  megatron_lm_sequence_parallelism: true\n");
  EXPECT_EQ(value(megatron, "parallel.tensor"), "2");
  EXPECT_EQ(value(megatron, "parallel.pipeline"), "2");
  EXPECT_EQ(value(megatron, "parallel.data"), "2");
  EXPECT_EQ(value(megatron, "parallel.sequence_parallel"), "true");
  EXPECT_EQ(value(megatron, "batch.microbatches"), "8");
  EXPECT_EQ(value(megatron, "precision"), "fp16");
}

// Hybrid sharding by axes: 2 replicas of shard groups of 4.
TEST(AccelerateImport, AxesOfParallelism) {
  const std::string head =
      "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 2}\nparallelism_config:\n"
      "  parallelism_config_dp_replicate_size: 2\n";
  const ImportedJob job = accelerate(head + "  parallelism_config_dp_shard_size: 4\n");
  EXPECT_EQ(value(job, "parallel.data"), "8");
  EXPECT_EQ(value(job, "parallel.shard"), "4");
  EXPECT_THAT(accelerate_fault(head + "  parallelism_config_dp_shard_size: 8\n"),
              HasSubstr("x dp_replicate_size are 16 ranks, and the job has 8 replicas"));
  const std::string context = head + "  parallelism_config_dp_shard_size: 2\n  parallelism_config_cp_size: 2\n";
  EXPECT_EQ(value(accelerate(context), "parallel.context"), "2");
}

TEST(AccelerateImport, FaultsHavePlacesAndRemedies) {
  EXPECT_EQ(accelerate_fault("distributed_type: XLA\nnum_processes: 8\n"),
            "a.yaml:1:19: error: 'distributed_type' is 'XLA', which is not known\n  at distributed_type\n"
            "    1 | distributed_type: XLA\n      |                   ^\n"
            "  help: known are NO, MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM and TP");
  EXPECT_THAT(
      accelerate_fault("distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {deepspeed_config_file: z.json}"),
      HasSubstr("help: import that file: panpipe import deepspeed FILE"));
  EXPECT_THAT(accelerate_fault("num_processes: 10\nnum_machines: 4\n"), HasSubstr("is 10, no multiple of the 4 of num_machines"));
  EXPECT_THAT(accelerate_fault("mixed_precision: int4\nnum_processes: 8\n"), HasSubstr("it is no, fp16, bf16 or fp8"));
}

}  // namespace
}  // namespace panpipe::jobs
