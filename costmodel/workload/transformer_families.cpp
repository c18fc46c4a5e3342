// Families of transformers that scenarios name: their traits, and the names of their published weights.
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

template <class Change>
constexpr ModuleNames changed(ModuleNames other, Change change) {
  change(other);
  return other;
}

// Hugging Face's GPT2LMHeadModel. Linear weights are (out, in); the published checkpoints keep the transpose (Conv1D) under the
// same names.
constexpr ModuleNames kGptNames = {.embedding = "transformer.wte",
                                   .positions = "transformer.wpe",
                                   .layer = "transformer.h.",
                                   .attention_norm = ".ln_1",
                                   .mlp_norm = ".ln_2",
                                   .core = ".attn",
                                   .fused = ".attn.c_attn",
                                   .output = ".attn.c_proj",
                                   .up = ".mlp.c_fc",
                                   .activation = ".mlp.act",
                                   .down = ".mlp.c_proj",
                                   .final_norm = "transformer.ln_f",
                                   .head = "lm_head"};

// LlamaForCausalLM.
constexpr ModuleNames kLlamaNames = {.embedding = "model.embed_tokens",
                                     .layer = "model.layers.",
                                     .attention_norm = ".input_layernorm",
                                     .mlp_norm = ".post_attention_layernorm",
                                     .core = ".self_attn",
                                     .query = ".self_attn.q_proj",
                                     .key = ".self_attn.k_proj",
                                     .value = ".self_attn.v_proj",
                                     .output = ".self_attn.o_proj",
                                     .query_norm = ".self_attn.q_norm",
                                     .key_norm = ".self_attn.k_norm",
                                     .gate = ".mlp.gate_proj",
                                     .up = ".mlp.up_proj",
                                     .activation = ".mlp.act_fn",
                                     .down = ".mlp.down_proj",
                                     .final_norm = "model.norm",
                                     .head = "lm_head"};

// BertForPreTraining.
constexpr ModuleNames kBertNames = {.embedding = "bert.embeddings.word_embeddings",
                                    .positions = "bert.embeddings.position_embeddings",
                                    .embedding_norm = "bert.embeddings.LayerNorm",
                                    .layer = "bert.encoder.layer.",
                                    .attention_norm = ".attention.output.LayerNorm",
                                    .mlp_norm = ".output.LayerNorm",
                                    .core = ".attention.self",
                                    .query = ".attention.self.query",
                                    .key = ".attention.self.key",
                                    .value = ".attention.self.value",
                                    .output = ".attention.output.dense",
                                    .up = ".intermediate.dense",
                                    .down = ".output.dense"};

// ViTForImageClassification.
constexpr ModuleNames kVitNames = {.layer = "vit.encoder.layer.",
                                   .attention_norm = ".layernorm_before",
                                   .mlp_norm = ".layernorm_after",
                                   .core = ".attention.attention",
                                   .query = ".attention.attention.query",
                                   .key = ".attention.attention.key",
                                   .value = ".attention.attention.value",
                                   .output = ".attention.output.dense",
                                   .up = ".intermediate.dense",
                                   .down = ".output.dense",
                                   .final_norm = "vit.layernorm"};

// Gemma2ForCausalLM: four norms a layer.
constexpr ModuleNames kGemma2Names = changed(kLlamaNames, [](ModuleNames& n) {
  n.attention_after_norm = ".post_attention_layernorm";
  n.mlp_norm = ".pre_feedforward_layernorm";
  n.mlp_after_norm = ".post_feedforward_layernorm";
});

constexpr ModuleNames kOlmo2Names = changed(kGemma2Names, [](ModuleNames& n) { n.attention_norm = n.mlp_norm = {}; });

constexpr ModuleNames kPhiNames = changed(kLlamaNames, [](ModuleNames& n) {
  n.output = ".self_attn.dense";
  n.query_norm = ".self_attn.q_layernorm";
  n.key_norm = ".self_attn.k_layernorm";
  n.gate = {};
  n.up = ".mlp.fc1";
  n.activation = ".mlp.activation_fn";
  n.down = ".mlp.fc2";
  n.final_norm = "model.final_layernorm";
});

constexpr ModuleNames kPhi3Names = changed(kLlamaNames, [](ModuleNames& n) {
  n.query = n.key = n.value = {};
  n.fused = ".self_attn.qkv_proj";
  n.gate = n.up = {};
  n.gate_up = ".mlp.gate_up_proj";
  n.activation = ".mlp.activation_fn";
});

// GPTNeoXForCausalLM, as its published weights name the head.
constexpr ModuleNames kGptNeoxNames = {.embedding = "gpt_neox.embed_in",
                                       .layer = "gpt_neox.layers.",
                                       .attention_norm = ".input_layernorm",
                                       .mlp_norm = ".post_attention_layernorm",
                                       .core = ".attention",
                                       .fused = ".attention.query_key_value",
                                       .output = ".attention.dense",
                                       .up = ".mlp.dense_h_to_4h",
                                       .activation = ".mlp.act",
                                       .down = ".mlp.dense_4h_to_h",
                                       .final_norm = "gpt_neox.final_layer_norm",
                                       .head = "embed_out"};

constexpr ModuleNames kOptNames = {.embedding = "model.decoder.embed_tokens",
                                   .positions = "model.decoder.embed_positions",
                                   .layer = "model.decoder.layers.",
                                   .attention_norm = ".self_attn_layer_norm",
                                   .mlp_norm = ".final_layer_norm",
                                   .core = ".self_attn",
                                   .query = ".self_attn.q_proj",
                                   .key = ".self_attn.k_proj",
                                   .value = ".self_attn.v_proj",
                                   .output = ".self_attn.out_proj",
                                   .up = ".fc1",
                                   .activation = ".activation_fn",
                                   .down = ".fc2",
                                   .final_norm = "model.decoder.final_layer_norm",
                                   .head = "lm_head"};

// BloomForCausalLM; FalconForCausalLM has the same modules without the norm of the embedding.
constexpr ModuleNames kBloomNames = {.embedding = "transformer.word_embeddings",
                                     .embedding_norm = "transformer.word_embeddings_layernorm",
                                     .layer = "transformer.h.",
                                     .attention_norm = ".input_layernorm",
                                     .mlp_norm = ".post_attention_layernorm",
                                     .core = ".self_attention",
                                     .fused = ".self_attention.query_key_value",
                                     .output = ".self_attention.dense",
                                     .up = ".mlp.dense_h_to_4h",
                                     .activation = ".mlp.gelu_impl",
                                     .down = ".mlp.dense_4h_to_h",
                                     .final_norm = "transformer.ln_f",
                                     .head = "lm_head"};

constexpr ModuleNames kFalconNames = changed(kBloomNames, [](ModuleNames& n) { n.activation = ".mlp.act"; });

constexpr ModuleNames kFalconTwoNormNames = changed(kFalconNames, [](ModuleNames& n) {
  n.attention_norm = ".ln_attn";
  n.mlp_norm = ".ln_mlp";
});

// Llama's modules, norms of queries and keys, and a router in place of the MLP.
constexpr ModuleNames kExpertsNames = changed(kLlamaNames, [](ModuleNames& n) {
  n.router = ".mlp.gate";
  n.experts = ".mlp.experts";
  n.shared = ".mlp.shared_experts";
});

constexpr ModuleNames kQwen2ExpertsNames = changed(kExpertsNames, [](ModuleNames& n) { n.shared = ".mlp.shared_expert"; });

constexpr ModuleNames kGptOssNames = changed(kExpertsNames, [](ModuleNames& n) { n.router = ".mlp.router"; });

}  // namespace

const FamilyTraits& family_traits() {
  static const FamilyTraits all = [] {
    FamilyTraits f;
    f.gpt = {.names = &kGptNames,
             .projections = FusedProjections::InTurn,
             .query_bias = true,
             .output_bias = true,
             .mlp_bias = true,
             .scaled_residual_init = true};
    f.bert = {.names = &kBertNames,
              .epsilon = 1e-12,
              .form = BlockForm::PostNorm,
              .embedding_norm = true,
              .causal = false,
              .query_bias = true,
              .output_bias = true,
              .mlp_bias = true,
              .activation = Activation::Gelu};
    f.vit = {.names = &kVitNames,
             .epsilon = 1e-6,
             .causal = false,
             .query_bias = true,
             .output_bias = true,
             .mlp_bias = true,
             .activation = Activation::Gelu};
    f.phi = {.names = &kPhiNames,
             .form = BlockForm::Parallel,
             .positions = Positions::Rotary,
             .query_bias = true,
             .output_bias = true,
             .mlp_bias = true,
             .head_bias = true,
             .query_key_norm_kind = NormKind::Layer};
    f.gpt_neox = {.names = &kGptNeoxNames,
                  .form = BlockForm::ParallelTwoNorms,
                  .positions = Positions::Rotary,
                  .projections = FusedProjections::ByHead,
                  .query_bias = true,
                  .output_bias = true,
                  .mlp_bias = true,
                  .activation = Activation::Gelu};
    f.opt = {.names = &kOptNames, .extra_positions = 2, .activation = Activation::Relu};
    f.bloom = {.names = &kBloomNames,
               .positions = Positions::Alibi,
               .embedding_norm = true,
               .projections = FusedProjections::ByHead,
               .query_bias = true,
               .output_bias = true,
               .mlp_bias = true};
    f.falcon = {.names = &kFalconNames,
                .form = BlockForm::Parallel,
                .positions = Positions::Rotary,
                .projections = FusedProjections::ByHead,
                .activation = Activation::Gelu};
    f.llama = {.names = &kLlamaNames,
               .norm = NormKind::Rms,
               .positions = Positions::Rotary,
               .activation = Activation::Silu,
               .gated = true};
    // Llama's layers with other modules.
    f.gemma2 = f.phi3 = f.experts = f.qwen2_experts = f.gpt_oss = f.olmo2 = f.squared_relu = f.llama;
    f.gemma2.names = &kGemma2Names;
    f.gemma2.form = BlockForm::Sandwich;
    f.gemma2.activation = Activation::GeluTanh;
    f.phi3.names = &kPhi3Names;
    f.phi3.projections = FusedProjections::InTurn;
    f.phi3.fused_gate = true;
    f.experts.names = &kExpertsNames;
    f.qwen2_experts.names = &kQwen2ExpertsNames;
    f.gpt_oss.names = &kGptOssNames;
    f.olmo2.names = &kOlmo2Names;
    f.squared_relu.activation = Activation::ReluSquared;
    f.squared_relu.gated = false;
    add_recent_families(f);
    return f;
  }();
  return all;
}

const ModuleNames& falcon_two_norm_names() { return kFalconTwoNormNames; }

}  // namespace panpipe
