// Arguments of Megatron-LM as scenarios: what each becomes, and what is reported. What is refused stands in tests/input_errors.
#include "jobs/megatron/import.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/scenario/scenario.hpp"
#include "tests/jobs/job_values.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kGpt =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --micro-batch-size 4 --global-batch-size 64 ";
const std::string kLlama =
    "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --group-query-attention --num-query-groups 4 --ffn-hidden-size "
    "2816 "
    "--seq-length 2048 --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
    "--untie-embeddings-and-output-weights --vocab-size 32000 --hidden-dropout 0 --attention-dropout 0 --micro-batch-size 1 "
    "--global-batch-size 64 --bf16 ";

ImportedJob job(const std::string& text, const JobOptions& options = {}) { return import_megatron(text, "job.sh", options); }

TEST(MegatronImport, AGptOfEarlyReleases) {
  const ImportedJob gpt = job("torchrun --nproc_per_node=8 pretrain_gpt.py " + kGpt + "--fp16 --tensor-model-parallel-size 2");
  EXPECT_EQ(
      value(gpt, "workload.config"),
      "{model_type: gpt2, num_hidden_layers: 24, hidden_size: 1024, num_attention_heads: 16, n_inner: 4096, vocab_size: 50432, "
      "n_positions: 1024, tie_word_embeddings: true}");  // 50257 padded to a multiple of 128 x 2
  expect_values(gpt,
                "workload.sequence: 1024; workload.dropout: 0.1; parallel.tensor: 2; parallel.data: 4; batch.micro: 4; "
                "batch.global: 64; precision: fp16; schedule: 1f1b; recompute: absent");
  EXPECT_THAT(gpt.not_understood, IsEmpty());
  EXPECT_THAT(gpt.assumptions, Contains("a vocabulary of GPT-2's 50257 tokens; --vocabulary N states the tokenizer's."));
  EXPECT_THAT(gpt.assumptions, Contains("the vocabulary of 50257 tokens is padded to 50432, a multiple of 128 x tensor 2."));
}

TEST(MegatronImport, ALlamaWithVirtualStages) {
  const ImportedJob llama =
      job(kLlama +
              "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 --use-distributed-optimizer "
              "--overlap-grad-reduce --recompute-granularity full --recompute-method block --recompute-num-layers 1",
          {.gpus = 8});
  EXPECT_EQ(value(llama, "workload.config"),
            "{model_type: llama, num_hidden_layers: 8, hidden_size: 1024, num_attention_heads: 16, intermediate_size: 2816, "
            "num_key_value_heads: 4, rms_norm_eps: 1e-05, vocab_size: 32000, max_position_embeddings: 2048, tie_word_embeddings: "
            "false, "
            "attention_bias: false, mlp_bias: false}");
  // parallel.virtual_stages: 8 layers / 2 stages / 2
  expect_values(llama,
                "parallel.virtual_stages: 2; schedule: interleaved-1f1b; parallel.data: 4; parallel.zero: 1; recompute: {first: "
                "1}; partition: [h.2.attention, h.4.attention, h.6.attention]; framework: {overlap_all_reduce: true, "
                "overlap_reduce_scatter: true}; workload.dropout: absent");
}

// The class is Mixtral's where its layers are, and Qwen 2 MoE's where an expert for all tokens, a bias or a dense layer is.
TEST(MegatronImport, AMixtureIsCalledByItsLayers) {
  const std::string mixtral = kLlama + "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512 --disable-bias-linear ";
  const auto config = [](const std::string& text) { return value(job(text), "workload.config"); };
  EXPECT_THAT(config(mixtral), HasSubstr("model_type: mixtral,"));
  EXPECT_THAT(config(mixtral), HasSubstr("intermediate_size: 512,"));
  EXPECT_THAT(config(mixtral), HasSubstr("num_local_experts: 8, num_experts_per_tok: 2}"));
  for (const char* other : {"--moe-shared-expert-intermediate-size 512", "--add-qkv-bias", "--moe-layer-freq 2"})
    EXPECT_THAT(config(mixtral + other), HasSubstr("model_type: qwen2_moe,"));
  EXPECT_THAT(config(mixtral + "--moe-router-pre-softmax"), HasSubstr("norm_topk_prob: false,"));
  EXPECT_THAT(config(mixtral + "--moe-router-pre-softmax --moe-router-score-function sigmoid"), HasSubstr("mixtral"));
  const Workload workload = make_workload(parse_scenario(scenario_text(job(mixtral)), "job.yaml", "."));
  EXPECT_EQ(workload.name, "MixtralForCausalLM");
}

TEST(MegatronImport, ExpertsAndLatentAttention) {
  const ImportedJob mixture =
      job(kLlama + "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512 --moe-layer-freq ([0]*2+[1]*6)");
  EXPECT_THAT(value(mixture, "workload.config"),
              HasSubstr("num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 512, norm_topk_prob: true, "
                        "shared_expert_intermediate_size: 0, mlp_only_layers: [0, 1]}"));
  const ImportedJob spread =
      job(kLlama +
              "--num-experts 8 --moe-ffn-hidden-size 512 --tensor-model-parallel-size 2 --sequence-parallel "
              "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --moe-expert-capacity-factor 1.25 "
              "--moe-pad-expert-input-to-capacity",
          {.gpus = 8});
  expect_values(spread, "parallel.expert: 4; parallel.expert_tensor: 1; experts.capacity: 1.25; experts.padded: absent");
  const ImportedJob dropping = job(kLlama + "--num-experts 8 --moe-ffn-hidden-size 512 --moe-expert-capacity-factor 1.25");
  EXPECT_EQ(value(dropping, "experts.capacity") + value(dropping, "experts.padded"), "1.25false");
  const std::string deepseek =
      kLlama +
      "--multi-latent-attention --q-lora-rank 256 --kv-lora-rank 64 --qk-head-dim 32 --qk-pos-emb-head-dim 16 "
      "--v-head-dim 32 --num-experts 8 --moe-ffn-hidden-size 256 --moe-shared-expert-intermediate-size 512 ";
  const ImportedJob latent = job(deepseek);
  EXPECT_THAT(value(latent, "workload.config"), HasSubstr("model_type: deepseek_v3"));
  EXPECT_THAT(value(latent, "workload.config"),
              HasSubstr("q_lora_rank: 256, kv_lora_rank: 64, qk_nope_head_dim: 32, qk_rope_head_dim: 16, v_head_dim: 32"));
  EXPECT_THAT(value(latent, "workload.config"), HasSubstr("n_shared_experts: 2"));  // 512 / 256
  // Megatron routes in groups where arguments state so, and sends a row to each expert but with flex.
  EXPECT_THAT(value(latent, "workload.config"), HasSubstr("n_group: 1, topk_group: 1"));
  const ImportedJob grouped = job(deepseek + "--moe-router-num-groups 4 --moe-router-group-topk 2");
  EXPECT_THAT(value(grouped, "workload.config"), HasSubstr("n_group: 4, topk_group: 2"));
  EXPECT_EQ(value(grouped, "framework"), "{expert_dispatch: rows, expert_products: loop}");
  EXPECT_THAT(grouped.not_modelled, IsEmpty());
  const ImportedJob further = job(deepseek + "--mtp-num-layers 2");
  EXPECT_THAT(value(further, "workload.config"), HasSubstr("num_nextn_predict_layers: 2, mtp_num_layers: 2"));
  EXPECT_THAT(further.not_modelled, IsEmpty());
  EXPECT_THAT(job(kLlama + "--mtp-num-layers 2").not_modelled, ElementsAre("--mtp-num-layers 2")) << "no layer of Llama's kind";
}

// Without --moe-grouped-gemm Megatron-LM runs one expert after another. Fused permutation launches 3 instead of 8 operators
// forward, and 3 instead of 13 backward: 50 - 5 and 38 - 10. A graph of the whole iteration never waits for the host.
TEST(MegatronImport, HowExpertsAreLaunched) {
  const std::string experts = kLlama + "--num-experts 8 --moe-ffn-hidden-size 512 ";
  EXPECT_EQ(value(job(experts), "framework"), "{expert_products: loop}");
  EXPECT_EQ(value(job(experts + "--moe-grouped-gemm"), "framework"), "absent");
  EXPECT_EQ(value(job(experts + "--moe-grouped-gemm --moe-permute-fusion"), "framework"),
            "{expert_forward_operators: 45, expert_backward_operators: 28}");
  const ImportedJob graph = job(experts + "--moe-grouped-gemm --cuda-graph-impl full_iteration");
  EXPECT_EQ(value(graph, "framework"), "{cuda_graphs: full, expert_counts: device}");
  EXPECT_THAT(graph.not_modelled, IsEmpty());
  EXPECT_EQ(value(job(experts + "--moe-grouped-gemm --cuda-graph-impl local"), "framework"), "{cuda_graphs: layers}");
  EXPECT_EQ(value(job(kLlama), "framework"), "absent");
}

TEST(MegatronImport, StagesThatAreNotEqual) {
  // Stages of 1, 3 and 4 layers start at layers 1 and 4.
  const ImportedJob layout =
      job(kLlama + "--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout Et|t*3|(t*4)L", {.gpus = 3});
  EXPECT_EQ(value(layout, "partition"), "[h.1.attention, h.4.attention]");
  const ImportedJob ends = job(kLlama +
                               "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
                               "--decoder-last-pipeline-num-layers 1");
  EXPECT_EQ(value(ends, "partition"), "[h.1.attention, h.4.attention, h.7.attention]");
  // A layer that predicts a further token stands alone, or with the loss.
  const std::string further = kLlama + "--multi-latent-attention --mtp-num-layers 1 ";
  EXPECT_EQ(value(job(further + "--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout Et*8|m|L", {.gpus = 3}),
                  "partition"),
            "[mtp.1.join, head]");
  EXPECT_EQ(value(job(further + "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*8|mL"), "partition"),
            "[mtp.1.join]");
  EXPECT_EQ(value(job(further + "--pipeline-model-parallel-size 2"), "partition"), "[h.4.attention]");
}

// An importer writes a scenario that loads.
TEST(MegatronImport, TheTextIsAScenario) {
  const ImportedJob imported = job(kLlama +
                                       "--pipeline-model-parallel-size 2 --recompute-granularity full --recompute-method uniform "
                                       "--recompute-num-layers 2 --use-distributed-optimizer --overlap-param-gather",
                                   {.gpus = 16});
  const Scenario scenario = parse_scenario(scenario_text(imported), "job.yaml", ".");
  EXPECT_EQ(scenario.degrees.pipeline, 2);
  EXPECT_EQ(scenario.degrees.data, 8);
  EXPECT_EQ(scenario.recompute_scope.chunk, 2);
  EXPECT_EQ(scenario.degrees.microbatches, 8);  // 64 / 1 / 8
  EXPECT_EQ(scenario.partition, (std::vector<std::string>{"h.4.attention"}));
}

TEST(MegatronImport, NothingIsGuessedInSilence) {
  const ImportedJob reported = job(
      kLlama + "--lr 1e-4 --save /tmp/x --cuda-graph-scope full --fancy-flag 3 4\n--tokenizer-type Llama2Tokenizer", {.gpus = 8});
  EXPECT_THAT(reported.not_understood, ElementsAre("--fancy-flag 3 4"));
  EXPECT_THAT(reported.not_modelled, ElementsAre("--cuda-graph-scope full"));
  EXPECT_THAT(reported.without_effect, ElementsAre("--lr 1e-4", "--save /tmp/x", "--tokenizer-type Llama2Tokenizer"));
  EXPECT_THAT(scenario_text(reported), HasSubstr("# NOT UNDERSTOOD: --fancy-flag 3 4\n"));
  EXPECT_THAT(scenario_text(reported), HasSubstr("  micro: 1  # --micro-batch-size\n"));
}

// A line's end within a word of the job begins no key, and a word that is YAML stays a word.
TEST(MegatronImport, NoWordOfAJobBecomesAKey) {
  const std::string text = scenario_text(
      job(kLlama + "--fp8-format hybrid --fp8-recipe 'x\nseed: 7\n#' --recompute-activations "
                   "--recompute-modules 'mlp], seed: [7' core_attn --fancy 'a\nseed: 7' --expert-tensor-parallel-size 1"
                   " --optimizer 'b\r\nseed: 7'",
          {.gpus = 8}));
  EXPECT_THAT(text, HasSubstr("precision: fp8  # --fp8-format (recipe x seed: 7 #)\n"));
  EXPECT_THAT(text, HasSubstr("recompute: {modules: [\"mlp], seed: [7\", core_attn]}  # --recompute-modules\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nseed")));
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ');
}

TEST(MegatronImport, ControlCharactersAreSpaces) {
  EXPECT_EQ(fault_of([] { job(kGpt + "--tensor-model-parallel-size '2\n3'"); }),
            fmt::format("error: job.sh:1:{}: --tensor-model-parallel-size is '2 3', which is no whole number", kGpt.size() + 1));
  EXPECT_EQ(without_controls("a\nb\x1b[2Jc\x7f\xc2\x9b"
                             "d\xc3\xa9"),
            "a b [2Jc   d\xc3\xa9");
}

TEST(MegatronImport, ArraysOfBash) {
  const ImportedJob arrays = job("MODEL_ARGS=(\n" + kLlama +
                                 "\n)\nTRAINING_ARGS=( --recompute-granularity selective "
                                 "--recompute-modules core_attn mlp \n )\nOTHER_ARGS+=(--sequence-parallel)\n"
                                 "torchrun pretrain_gpt.py ${MODEL_ARGS[@]} \"${TRAINING_ARGS[@]}\"\n");
  // parallel.sequence_parallel: the command does not take that array
  expect_values(arrays, "recompute: {modules: [core_attn, mlp]}; parallel.sequence_parallel: absent");
  EXPECT_THAT(arrays.not_understood, IsEmpty());
}

TEST(MegatronImport, HowContextTravels) {
  const auto exchange = [](const std::string& types) {
    const ImportedJob of = job(kLlama + "--context-parallel-size 2 --cp-comm-type " + types, {.gpus = 8});
    return value(of, "parallel.context_exchange") + (of.not_modelled.empty() ? "" : "; " + of.not_modelled[0]);
  };
  EXPECT_EQ(exchange("p2p"), "ring");
  EXPECT_EQ(exchange("all_gather"), "all-gather");
  EXPECT_EQ(exchange("allgather"), "all-gather");
  EXPECT_EQ(exchange("a2a"), "ulysses");
  EXPECT_EQ(exchange("a2a+p2p"), "absent; --cp-comm-type a2a+p2p (predicted as a ring)");
  EXPECT_EQ(exchange("p2p a2a"), "absent; --cp-comm-type p2p a2a (predicted as a ring)");
  const ImportedJob whole = job(kLlama + "--cp-comm-type a2a");
  EXPECT_EQ(value(whole, "parallel.context_exchange"), "absent");
  EXPECT_THAT(whole.without_effect, ElementsAre("--cp-comm-type a2a"));
}

TEST(MegatronImport, MomentsOfTheOptimizer) {
  const auto optimizer = [](const std::string& types) {
    const ImportedJob of = job(kLlama + "--use-precision-aware-optimizer " + types);
    return value(of, "optimizer") + (of.not_modelled.empty() ? "" : "; " + of.not_modelled[0]);
  };
  EXPECT_EQ(optimizer("--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"), "{name: adamw, states: bf16}");
  EXPECT_EQ(optimizer("--exp-avg-dtype fp8 --exp-avg-sq-dtype uint8"), "{name: adamw, states: 8bit}");
  EXPECT_EQ(optimizer(""), "adamw");
  EXPECT_EQ(optimizer("--exp-avg-dtype bf16"), "adamw; --exp-avg-dtype bf16 --exp-avg-sq-dtype fp32 (predicted in fp32)");
  EXPECT_EQ(optimizer("--exp-avg-dtype fp16 --exp-avg-sq-dtype fp16"),
            "adamw; --exp-avg-dtype fp16 --exp-avg-sq-dtype fp16 (predicted in fp32)");
}

// Defaults are Megatron-LM's: momentum 0.9, no Nesterov, updates scaled by the root of the larger side.
TEST(MegatronImport, OffloadOfBlocks) {
  EXPECT_EQ(value(job(kLlama + "--cpu-offloading --cpu-offloading-num-layers 12"), "offload.blocks"), "12");
  EXPECT_THAT(job(kLlama + "--cpu-offloading --cpu-offloading-num-layers 12").not_modelled, IsEmpty());
}

TEST(MegatronImport, Muon) {
  const auto optimizer = [](const std::string& arguments) { return value(job(kLlama + arguments), "optimizer"); };
  EXPECT_EQ(
      optimizer("--optimizer muon --muon-no-split-qkv"),
      "{name: muon, momentum: 0.9, nesterov: false, newton_schulz_steps: 5, update_scale: spectral, tensor_mode: duplicated}");
  EXPECT_EQ(optimizer("--optimizer muon --muon-momentum 0.95 --muon-nesterov --muon-num-ns-steps 6 --muon-tp-mode layer_sharded "
                      "--muon-extra-scale-factor 0.2"),
            "{name: muon, momentum: 0.95, nesterov: true, newton_schulz_steps: 6, update_scale: match-rms, tensor_mode: layers}");
  EXPECT_THAT(job(kLlama + "--optimizer muon --muon-no-split-qkv").not_modelled, IsEmpty());
  EXPECT_THAT(job(kLlama + "--optimizer muon --muon-tp-mode auto").not_modelled,
              ElementsAre("--muon-tp-mode auto (predicted as duplicated)",
                          "orthogonal updates of query, key and value apart (predicted of the fused matrix)"));
  EXPECT_EQ(optimizer("--optimizer soap"), "soap");
  EXPECT_EQ(value(job(kLlama + "--optimizer dist_muon"), "parallel.zero"), "1");
}

TEST(MegatronImport, ArgumentsThatPredictionsHave) {
  const std::string experts = kLlama + "--num-experts 8 --moe-grouped-gemm --no-position-embedding --moe-token-dispatcher-type ";
  EXPECT_THAT(job(experts + "alltoall").not_modelled, IsEmpty());
  EXPECT_THAT(job(experts + "alltoall").not_understood, IsEmpty());
  EXPECT_THAT(job(experts + "allgather").not_modelled,
              ElementsAre("--moe-token-dispatcher-type allgather (predicted as alltoall)"));
  EXPECT_EQ(value(job(experts + "flex"), "framework"), "{expert_dispatch: nodes}");
  EXPECT_THAT(job(experts + "flex").not_modelled, IsEmpty());
  EXPECT_THAT(job(kLlama + "--use-tp-pp-dp-mapping").not_modelled, IsEmpty());
  EXPECT_EQ(value(job(kLlama + "--attention-backend fused"), "framework"), "{attention: cudnn}");
  const std::string turns = "--pipeline-model-parallel-size 2 --microbatch-group-size-per-virtual-pipeline-stage 4 ";
  EXPECT_EQ(value(job(kLlama + turns + "--num-virtual-stages-per-pipeline-rank 2"), "schedule"),
            "{name: interleaved-1f1b, group: 4}");
  const std::string overlap = kLlama + "--pipeline-model-parallel-size 2 --overlap-moe-expert-parallel-comm ";
  EXPECT_EQ(value(job(overlap + "--num-virtual-stages-per-pipeline-rank 2"), "schedule"),
            "{name: interleaved-1f1b, combined: true}");
  EXPECT_THAT(job(overlap + "--num-virtual-stages-per-pipeline-rank 2").not_modelled, IsEmpty());
  EXPECT_THAT(job(overlap).not_modelled, ElementsAre("--overlap-moe-expert-parallel-comm"));
  // Without a pipeline: F0, then each forward with the backward before it.
  EXPECT_EQ(value(job(kLlama + "--overlap-moe-expert-parallel-comm"), "schedule"),
            "{name: interleaved-1f1b, stages_per_rank: 1, combined: true}");
  EXPECT_EQ(value(job(kLlama + turns), "schedule"), "1f1b");
}

// The numbers are a rank's: 2 + 4 + 2 layers on 3 ranks are 1 + 2 + 1 a virtual stage, twice.
TEST(MegatronImport, LayersOfTheFirstAndTheLastRank) {
  const std::string ends = "--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers ";
  const ImportedJob twice =
      job(kLlama + "--pipeline-model-parallel-size 3 --num-virtual-stages-per-pipeline-rank 2 " + ends + "2", {.gpus = 3});
  EXPECT_EQ(value(twice, "partition"), "[h.1.attention, h.3.attention, h.4.attention, h.5.attention, h.7.attention]");
  EXPECT_EQ(value(job(kLlama + "--pipeline-model-parallel-size 2 " + ends + "6"), "partition"), "[h.2.attention]");
}

TEST(MegatronImport, DegreesOfContextAndExperts) {
  const std::string context = kLlama + "--context-parallel-size 2",
                    expert = kLlama + "--num-experts 8 --expert-model-parallel-size 4";
  EXPECT_EQ(value(job(context, {.gpus = 8}), "parallel.context"), "2");
  EXPECT_EQ(value(job(expert, {.gpus = 8}), "parallel.expert"), "4");
  const std::string whole = kLlama +
                            "--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1 "
                            "--moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity";
  EXPECT_EQ(value(job(whole, {.gpus = 8}), "parallel.expert_tensor"), "1");
  EXPECT_EQ(value(job(whole, {.gpus = 8}), "experts.capacity"), "1.25");
  EXPECT_EQ(value(job(kLlama + "--fp8-format hybrid --fp8-recipe mxfp8"), "precision"), "mxfp8");
}

TEST(MegatronImport, RecipesOfPrecision) {
  const ImportedJob nvfp4 = job(kLlama +
                                "--bf16 --fp4-format e2m1 --fp4-recipe nvfp4 --fp4-param-gather --first-last-layers-bf16 "
                                "--num-layers-at-start-in-bf16 2 --num-layers-at-end-in-bf16 8");
  EXPECT_EQ(value(nvfp4, "precision"), "nvfp4");
  EXPECT_THAT(value(nvfp4, "framework"), HasSubstr("fp8_parameters: true, bf16_first: 2, bf16_last: 8"));
  EXPECT_THAT(nvfp4.not_understood, IsEmpty());
  EXPECT_THAT(value(job(kLlama + "--fp8-format e4m3 --fp8-recipe blockwise"), "framework"), HasSubstr("fp8_scaling: blocks"));
  // One block at either end where no number is stated.
  EXPECT_THAT(value(job(kLlama + "--fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16"), "framework"),
              HasSubstr("fp8_scaling: current, bf16_first: 1, bf16_last: 1"));
  EXPECT_THAT(job(kLlama + "--fp8-format hybrid --fp8-recipe custom").not_modelled, Contains("recipe custom (predicted as fp8)"));
}

}  // namespace
}  // namespace panpipe::jobs
