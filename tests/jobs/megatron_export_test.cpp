// Plans as arguments of Megatron-LM, and that they are read back as the same plan.
#include "jobs/megatron/export.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/megatron/import.hpp"
#include "tests/jobs/exports.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// An export for Megatron-LM, imported, is the plan and the model that were exported.
void expect_same_job(const std::string& text) {
  SCOPED_TRACE(text);
  const Experiment ours(scenario(text));
  const Plan plan = ours.plan("");
  const ExportedJob job = exported("megatron", ours, plan);
  SCOPED_TRACE(job.text);
  EXPECT_THAT(job.cannot, IsEmpty());
  const ImportedJob imported = import_megatron(job.text, "job.sh", {});
  EXPECT_THAT(imported.not_understood, IsEmpty());
  const Experiment theirs(parse_scenario(scenario_text(imported), "imported.yaml", "."));
  const Plan back = theirs.plan("");
  const Degrees &degrees = plan, &degrees_back = back;
  EXPECT_EQ(degrees, degrees_back);
  EXPECT_EQ(units_of(plan), units_of(back));
  EXPECT_EQ(plan.schedule.order, back.schedule.order);
  EXPECT_EQ(plan.schedule.stage_to_rank, back.schedule.stage_to_rank);
  EXPECT_EQ(plan.stages.front().recompute, back.stages.front().recompute);
  EXPECT_EQ(ours.workload.trained_parameters, theirs.workload.trained_parameters);
  EXPECT_EQ(ours.scenario.precision, theirs.scenario.precision);
}

TEST(Export, TheLayoutStatesEveryStage) {
  EXPECT_EQ(layout_text({2, 3, 1}), "Et*2|t*3|tL");
  EXPECT_EQ(layout_text({0, 8, 0}), "E|t*8|L");
  EXPECT_EQ(layout_text({4}), "Et*4L");
}

TEST(Export, MegatronsArgumentsAreReadBackAsTheSamePlan) {
  expect_same_job(kGpt +
                  "parallel: {pipeline: 2, data: 4}\nbatch: {micro: 2, microbatches: 4}\nschedule: 1f1b\n"
                  "partition: [h.3.attention]\noptimizer: adamw\n");
  expect_same_job(kGpt +
                  "parallel: {pipeline: 4, tensor: 2, sequence_parallel: true}\nbatch: {micro: 1, microbatches: 8}\n"
                  "schedule: 1f1b\nrecompute: full\noptimizer: adamw\n");
  // Virtual stages whose cuts are not even, in Megatron's order: stage s on rank s mod 2.
  expect_same_job(kLlama +
                  "parallel: {pipeline: 2, tensor: 2, data: 2, virtual_stages: 3, zero: 1}\n"
                  "batch: {micro: 1, microbatches: 4}\nschedule: interleaved-1f1b\n"
                  "partition: [h.1.attention, h.3.attention, h.4.attention, h.5.attention, h.7.attention]\noptimizer: adamw\n");
  // Six microbatches over four ranks go in one turn of six.
  expect_same_job(kLlama +
                  "parallel: {pipeline: 4, data: 2, virtual_stages: 2}\nbatch: {micro: 1, microbatches: 6}\n"
                  "schedule: interleaved-1f1b\nrecompute: selective\noptimizer: adamw\n");
  // One replica whose two context ranks divide the optimizer's state, and moments in two bytes.
  expect_same_job(kLlama +
                  "parallel: {pipeline: 4, data: 1, context: 2, zero: 1}\nbatch: {micro: 1, microbatches: 4}\n"
                  "schedule: 1f1b\noptimizer: {name: adamw, states: bf16}\n");
  // The last stage holds norm, head and loss alone; parameters are divided.
  expect_same_job(kLlama +
                  "parallel: {pipeline: 2, data: 4, zero: 3}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n"
                  "partition: [head]\noptimizer: adamw\n");
}

TEST(Export, MegatronHasExpertsAndLatentAttention) {
  const std::string experts =
      kCluster +
      "workload: {config: {model_type: qwen3_moe, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4, "
      "num_key_value_heads: 2, head_dim: 16, intermediate_size: 128, moe_intermediate_size: 32, num_experts: 8, "
      "num_experts_per_tok: 2, norm_topk_prob: true, mlp_only_layers: [0], vocab_size: 1024, max_position_embeddings: 64}, "
      "sequence: 32}\nparallel: {pipeline: 2, data: 4}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n"
      "partition: [h.1.attention]\noptimizer: adamw\n";
  expect_same_job(experts + "precision: bf16\n");
  EXPECT_THAT(exported("megatron", experts + "precision: bf16\n").text, HasSubstr("--moe-layer-freq '([0]*1+[1]*3)'"));
  EXPECT_THAT(exported("megatron", experts + "precision: bf16\n").text, HasSubstr("--moe-grouped-gemm"));
  EXPECT_THAT(exported("megatron", experts + "precision: fp32\n").text, Not(HasSubstr("\n  --moe-grouped-gemm")));
  EXPECT_THAT(exported("megatron", experts + "precision: fp32\n").cannot, ElementsAre(HasSubstr("(--moe-grouped-gemm)")));
}

// Layers with a state, and the gate behind attention, are no arguments that this writes.
TEST(Export, LayersOfSeveralKindsAreReported) {
  const std::string hybrid =
      kCluster +
      "workload: {config: {model_type: qwen3_5_text, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4, "
      "num_key_value_heads: 4, head_dim: 16, intermediate_size: 128, vocab_size: 1024, linear_num_key_heads: 4, "
      "linear_num_value_heads: 4, linear_key_head_dim: 16, linear_value_head_dim: 16}, sequence: 32}\n"
      "parallel: {pipeline: 2, data: 4}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\noptimizer: adamw\n";
  EXPECT_THAT(exported("megatron", hybrid + "precision: bf16\n").cannot,
              ::testing::IsSupersetOf({HasSubstr("layers of several kinds"), HasSubstr("a gate behind the attention")}));
}

TEST(Export, MegatronsFlagsNeedEachOther) {
  const std::string overlap =
      "framework: {name: megatron-core, overlap_reduce_scatter: true, overlap_parameter_gather: true, "
      "overlap_tensor_collectives: "
      "true}\nbatch: {micro: 1, microbatches: 4}\noptimizer: adamw\nschedule: 1f1b\n";
  const std::string sharded = exported("megatron", kGpt + overlap + "parallel: {pipeline: 2, data: 4, zero: 1}\n").text;
  EXPECT_THAT(sharded, HasSubstr("--use-distributed-optimizer"));
  EXPECT_THAT(sharded, HasSubstr("--overlap-grad-reduce --overlap-param-gather"));
  EXPECT_THAT(sharded, Not(HasSubstr("--tp-comm-overlap")));  // tensor 1
  const std::string whole = exported("megatron", kGpt + overlap + "parallel: {pipeline: 2, data: 4, zero: 3}\n").text;
  EXPECT_THAT(whole,
              HasSubstr("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --use-distributed-optimizer"));
  EXPECT_THAT(whole, HasSubstr("--no-gradient-accumulation-fusion --ckpt-format fsdp_dtensor"));
  const std::string tensor =
      exported("megatron", kGpt + overlap + "parallel: {pipeline: 2, tensor: 4, sequence_parallel: true}\n").text;
  EXPECT_THAT(tensor, HasSubstr("--tp-comm-overlap"));
  EXPECT_THAT(tensor, Not(HasSubstr("--overlap-grad-reduce")));  // one replica
}

TEST(Export, MegatronsMomentsHaveTheirFormat) {
  const std::string plan = kLlama + "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n";
  const std::string eight = "optimizer: {name: adamw, states: 8bit}\n";
  EXPECT_THAT(exported("megatron", plan + eight + "parallel: {pipeline: 2, data: 4, zero: 1}\n").text,
              HasSubstr("--use-precision-aware-optimizer \\\n  --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8"));
  EXPECT_THAT(exported("megatron", plan + eight + "parallel: {pipeline: 8, data: 1}\n").text,
              HasSubstr("--use-precision-aware-optimizer --use-distributed-optimizer \\\n  --exp-avg-dtype fp8"));
  // It needs the distributed optimizer.
  EXPECT_THAT(exported("megatron", plan + eight + "parallel: {pipeline: 2, data: 4}\n").cannot,
              ElementsAre("optimizer.states: 8bit"));
}

TEST(Export, MegatronsMuon) {
  const std::string plan = kLlama + "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n";
  const std::string muon = "optimizer: {name: muon, tensor_mode: distributed, update_scale: match-rms}\n";
  const std::string text = exported("megatron", plan + muon + "parallel: {pipeline: 2, tensor: 2, data: 2, zero: 1}\n").text;
  EXPECT_THAT(text, HasSubstr("--optimizer muon --muon-momentum 0.95 --muon-num-ns-steps 5 --muon-nesterov --muon-no-split-qkv"));
  EXPECT_THAT(text, HasSubstr("--muon-scale-mode spectral --muon-extra-scale-factor 0.2"));
  EXPECT_THAT(text, HasSubstr("--muon-tp-mode distributed"));
  EXPECT_THAT(text, HasSubstr("--use-distributed-optimizer"));
  EXPECT_THAT(exported("megatron", plan + muon + "parallel: {data: 8, zero: 3}\n").cannot, Contains("Muon with Megatron's FSDP"));
  EXPECT_THAT(exported("megatron", plan + "optimizer: shampoo\nparallel: {data: 8}\n").cannot,
              Contains("optimizer shampoo: it has Muon and SOAP"));
}

// What decides how experts are launched comes back, and with it the prediction.
TEST(Export, MegatronLaunchesExpertsAlike) {
  const std::string text = kExperts + kPlain + "parallel: {pipeline: 2, data: 4, expert: 4}\n";
  for (const std::string choices :
       {"framework: megatron-core\n", "framework: {name: megatron-core, expert_products: loop}\n",
        "framework: {name: megatron-core, expert_forward_operators: 45, expert_backward_operators: 28}\n",
        "framework: megatron-core\nexperts: {capacity: 1.25}\n"}) {
    SCOPED_TRACE(choices);
    const Experiment ours(scenario(text + choices));
    const ExportedJob job = exported("megatron", ours, ours.plan(""));
    EXPECT_THAT(job.cannot, IsEmpty());
    const Experiment theirs(parse_scenario(scenario_text(import_megatron(job.text, "job.sh", {})), "imported.yaml", "."));
    EXPECT_EQ(ours.scenario.framework.expert_products, theirs.scenario.framework.expert_products);
    EXPECT_EQ(ours.scenario.framework.expert_forward_operators, theirs.scenario.framework.expert_forward_operators);
    EXPECT_EQ(ours.scenario.expert_load.capacity, theirs.scenario.expert_load.capacity);
    const auto forward = [](const Experiment& made) {
      Duration sum(0);
      for (const UnitCost& unit : made.model.workload(0).units) sum += unit.forward.breakdown.total + unit.forward.host.other;
      return sum.base();
    };
    EXPECT_NEAR(forward(ours), forward(theirs), 1e-12);
  }
}

TEST(Export, MegatronRecomputesModules) {
  const std::string text = kExperts + kPlain + "parallel: {pipeline: 2, data: 4}\n";
  const ExportedJob job = exported("megatron", text + "recompute: {modules: [core_attn, moe_act, layernorm]}\n");
  EXPECT_THAT(job.text, HasSubstr("--recompute-granularity selective --recompute-modules core_attn moe_act layernorm"));
  EXPECT_THAT(exported("megatron", text + "recompute: {modules: [moe]}\n").text, HasSubstr("--recompute-modules moe \\\n"));
}

TEST(Export, MegatronsModelArguments) {
  const std::string of_eight = kPlain + "parallel: {pipeline: 2, data: 4}\n";
  const auto scaled = [&](const std::string& scaling) {
    std::string text = kLlama;
    text.insert(text.find("vocab_size"), "rope_scaling: " + scaling + ", ");
    return exported("megatron", text + of_eight);
  };
  const std::string llama3 = "{rope_type: llama3, factor: 32, low_freq_factor: 1, high_freq_factor: 4, ";
  EXPECT_THAT(scaled(llama3 + "original_max_position_embeddings: 8192}").text,
              HasSubstr("--use-rope-scaling --rope-scaling-factor 32"));
  EXPECT_THAT(scaled(llama3 + "original_max_position_embeddings: 4096}").cannot,
              ElementsAre("the scaling of rotary positions: llama3 32 1 4 4096"));
  EXPECT_THAT(scaled("{rope_type: linear, factor: 4}").text, HasSubstr("--rotary-seq-len-interpolation-factor 4"));
  EXPECT_THAT(exported("megatron", kExperts + kPlain + "parallel: {pipeline: 2, data: 4, expert: 4}\n").text,
              HasSubstr("--moe-token-dispatcher-type alltoall"));
  EXPECT_THAT(fault("megatron", kExperts + kPlain + "parallel: {pipeline: 2, tensor: 2, data: 2}\n"),
              HasSubstr("trains experts beside tensor parallelism with sequence parallelism only, and the plan has tensor 2"));
  const ExportedJob context =
      exported("megatron", kLlama + kPlain + "parallel: {pipeline: 2, data: 2, context: 2, context_exchange: all-gather}\n");
  EXPECT_THAT(context.text, HasSubstr("--cp-comm-type all_gather"));
  EXPECT_THAT(context.text, HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1"));
  EXPECT_THAT(context.cannot, IsEmpty());
  const std::string latent =
      kCluster +
      "workload: {config: {model_type: deepseek_v3, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, q_lora_rank: "
      "16, kv_lora_rank: 16, qk_nope_head_dim: 16, qk_rope_head_dim: 8, v_head_dim: 16, intermediate_size: 128, "
      "n_routed_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32, n_shared_experts: 1, n_group: 1, topk_group: 1, "
      "first_k_dense_replace: 1, vocab_size: 1024, max_position_embeddings: 64, num_nextn_predict_layers: 0}, sequence: 32}\n"
      "precision: bf16\n";
  EXPECT_THAT(exported("megatron", latent + of_eight).text, HasSubstr("--qk-layernorm --rope-type rope \\\n  --multi-latent"));
}

}  // namespace
}  // namespace panpipe::jobs
