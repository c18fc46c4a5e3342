// DeepSpeed's and Accelerate's configurations as scenarios: what each key becomes, and what is assumed.
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

TEST(DeepSpeedImport, KeysThatMoveAStep) {
  const ImportedJob job = deepspeed(R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8, "overlap_comm": false},
    "optimizer": {"type": "FusedLamb", "params": {"lr": 1e-4}}, "gradient_clipping": 1.0})");
  expect_values(
      job,
      "parallel.zero: 2; parallel.data: 8; batch.micro: 2; batch.global: 64; precision: bf16; workload.config: \"config.json\"");
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
  expect_values(job, "batch.micro: 1; batch.microbatches: 1; precision: bf16");
  EXPECT_THAT(job.assumptions, Contains("bf16 (bf16.enabled is auto)."));
  EXPECT_THAT(job.assumptions, Contains("microbatches of 1 sample; --micro N states another number."));
  EXPECT_THAT(job.not_understood, IsEmpty());
}

// 64 samples / (4 passes x 8 replicas) = 2.
TEST(DeepSpeedImport, TheThirdBatchSizeFollowsFromTwo) {
  EXPECT_EQ(value(deepspeed(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4})"), "batch.micro"), "2");
}

TEST(DeepSpeedImport, WhatIsNotPredictedIsReported) {
  const ImportedJob job = deepspeed(R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"},
    "offload_param": {"device": "none"}, "zero_hpz_partition_size": 8}, "moe": {"enabled": true}, "tensor_parallel":
    {"autotp_size": 2}, "fancy": {"key": [1, 2]}, "steps_per_print": 10})");
  expect_values(job, "parallel.tensor: 2; parallel.data: 4");
  EXPECT_THAT(job.not_modelled, Contains("zero_optimization.zero_hpz_partition_size: 8"));
  EXPECT_THAT(job.not_modelled, Contains("moe.enabled: true"));
  EXPECT_EQ(value(job, "offload.optimizer"), "cpu");
  EXPECT_EQ(job.not_modelled.size(), 2U);
  EXPECT_THAT(job.not_understood, ElementsAre("fancy.key: [1, 2]"));
  EXPECT_THAT(job.without_effect, ElementsAre("steps_per_print: 10"));
}

// What else is wrong with a file stands in tests/input_errors.
TEST(DeepSpeedImport, ALargeFileIsNone) {
  EXPECT_THAT(fault_of([] { deepspeed(std::string((1 << 20) + 1, ' ')); }), HasSubstr("more than 1 MiB"));
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
  // parallel.shard: 16 processes on 2 machines
  expect_values(hybrid, "parallel.zero: 3; parallel.shard: 8");
  const ImportedJob cut = accelerate(head + "  fsdp_sharding_strategy: 4\nparallelism_config: {parallelism_config_tp_size: 2}\n");
  EXPECT_EQ(value(cut, "parallel.shard"), "4");  // tensor 2 leaves 4 replicas on a node
  expect_values(hybrid, "recompute: full; cluster: {file: clusters/h100x8.yaml, nodes: 2}; trainer: accelerate");
}

TEST(AccelerateImport, OtherTypes) {
  const ImportedJob zero = accelerate(
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: 4\n"
      "  offload_param_device: cpu\n  gradient_clipping: auto\n");
  expect_values(zero, "parallel.zero: 3; batch.microbatches: 4; offload.parameters: cpu");
  const ImportedJob megatron = accelerate(
      "distributed_type: MEGATRON_LM\nnum_processes: 8\nmixed_precision: fp16\nmegatron_lm_config:\n  megatron_lm_tp_degree: 2\n"
      "  megatron_lm_pp_degree: 2\n  megatron_lm_num_micro_batches: 8\n  megatron_lm_sequence_parallelism: true\n");
  expect_values(megatron,
                "parallel.tensor: 2; parallel.pipeline: 2; parallel.data: 2; parallel.sequence_parallel: true; "
                "batch.microbatches: 8; precision: fp16");
}

// Hybrid sharding by axes: 2 replicas of shard groups of 4.
TEST(AccelerateImport, AxesOfParallelism) {
  const std::string head =
      "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 2}\nparallelism_config:\n"
      "  parallelism_config_dp_replicate_size: 2\n";
  const ImportedJob job = accelerate(head + "  parallelism_config_dp_shard_size: 4\n");
  expect_values(job, "parallel.data: 8; parallel.shard: 4");
  const std::string context = head + "  parallelism_config_dp_shard_size: 2\n  parallelism_config_cp_size: 2\n";
  EXPECT_EQ(value(accelerate(context), "parallel.context"), "2");
}

}  // namespace
}  // namespace panpipe::jobs
