// Families of transformers that scenarios name: their traits, and the names of their published weights.
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

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
constexpr ModuleNames gemma2_names() {
  ModuleNames names = kLlamaNames;
  names.attention_after_norm = ".post_attention_layernorm";
  names.mlp_norm = ".pre_feedforward_layernorm";
  names.mlp_after_norm = ".post_feedforward_layernorm";
  return names;
}
constexpr ModuleNames kGemma2Names = gemma2_names();

constexpr ModuleNames olmo2_names() {
  ModuleNames names = kGemma2Names;
  names.attention_norm = names.mlp_norm = {};
  return names;
}
constexpr ModuleNames kOlmo2Names = olmo2_names();

constexpr ModuleNames phi_names() {
  ModuleNames names = kLlamaNames;
  names.output = ".self_attn.dense";
  names.query_norm = ".self_attn.q_layernorm";
  names.key_norm = ".self_attn.k_layernorm";
  names.gate = {};
  names.up = ".mlp.fc1";
  names.activation = ".mlp.activation_fn";
  names.down = ".mlp.fc2";
  names.final_norm = "model.final_layernorm";
  return names;
}
constexpr ModuleNames kPhiNames = phi_names();

constexpr ModuleNames phi3_names() {
  ModuleNames names = kLlamaNames;
  names.query = names.key = names.value = {};
  names.fused = ".self_attn.qkv_proj";
  names.gate = names.up = {};
  names.gate_up = ".mlp.gate_up_proj";
  names.activation = ".mlp.activation_fn";
  return names;
}
constexpr ModuleNames kPhi3Names = phi3_names();

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

constexpr ModuleNames falcon_names() {
  ModuleNames names = kBloomNames;
  names.activation = ".mlp.act";
  return names;
}
constexpr ModuleNames kFalconNames = falcon_names();

constexpr ModuleNames falcon_two_norms() {
  ModuleNames names = kFalconNames;
  names.attention_norm = ".ln_attn";
  names.mlp_norm = ".ln_mlp";
  return names;
}
constexpr ModuleNames kFalconTwoNormNames = falcon_two_norms();

// Llama's modules, norms of queries and keys, and a router in place of the MLP.
constexpr ModuleNames experts_names() {
  ModuleNames names = kLlamaNames;
  names.router = ".mlp.gate";
  names.experts = ".mlp.experts";
  names.shared = ".mlp.shared_experts";
  return names;
}
constexpr ModuleNames kExpertsNames = experts_names();

constexpr ModuleNames qwen2_experts_names() {
  ModuleNames names = kExpertsNames;
  names.shared = ".mlp.shared_expert";
  return names;
}
constexpr ModuleNames kQwen2ExpertsNames = qwen2_experts_names();

constexpr ModuleNames gpt_oss_names() {
  ModuleNames names = kExpertsNames;
  names.router = ".mlp.router";
  return names;
}
constexpr ModuleNames kGptOssNames = gpt_oss_names();

// The result of applying `change` to other traits.
template <class Change>
TransformerTraits changed(TransformerTraits traits, Change change) {
  change(traits);
  return traits;
}

}  // namespace

const TransformerTraits& gpt_traits() {
  static const TransformerTraits traits = {.names = &kGptNames,
                                           .projections = FusedProjections::InTurn,
                                           .query_bias = true,
                                           .output_bias = true,
                                           .mlp_bias = true,
                                           .scaled_residual_init = true};
  return traits;
}

const TransformerTraits& llama_traits() {
  static const TransformerTraits traits = {.names = &kLlamaNames,
                                           .norm = NormKind::Rms,
                                           .positions = Positions::Rotary,
                                           .activation = Activation::Silu,
                                           .gated = true};
  return traits;
}

const TransformerTraits& bert_traits() {
  static const TransformerTraits traits = {.names = &kBertNames,
                                           .epsilon = 1e-12,
                                           .form = BlockForm::PostNorm,
                                           .embedding_norm = true,
                                           .causal = false,
                                           .query_bias = true,
                                           .output_bias = true,
                                           .mlp_bias = true,
                                           .activation = Activation::Gelu};
  return traits;
}

const TransformerTraits& vit_traits() {
  static const TransformerTraits traits = {.names = &kVitNames,
                                           .epsilon = 1e-6,
                                           .causal = false,
                                           .query_bias = true,
                                           .output_bias = true,
                                           .mlp_bias = true,
                                           .activation = Activation::Gelu};
  return traits;
}

namespace {

// Llama's layers under other names of their modules.
TransformerTraits llama_named(const ModuleNames& names) {
  return changed(llama_traits(), [&names](TransformerTraits& t) { t.names = &names; });
}

}  // namespace

const TransformerTraits& gemma2_traits() {
  static const TransformerTraits traits = changed(llama_traits(), [](TransformerTraits& t) {
    t.names = &kGemma2Names;
    t.form = BlockForm::Sandwich;
    t.activation = Activation::GeluTanh;
  });
  return traits;
}

const TransformerTraits& phi_traits() {
  static const TransformerTraits traits = {.names = &kPhiNames,
                                           .form = BlockForm::Parallel,
                                           .positions = Positions::Rotary,
                                           .query_bias = true,
                                           .output_bias = true,
                                           .mlp_bias = true,
                                           .head_bias = true,
                                           .query_key_norm_kind = NormKind::Layer};
  return traits;
}

const TransformerTraits& phi3_traits() {
  static const TransformerTraits traits = changed(llama_traits(), [](TransformerTraits& t) {
    t.names = &kPhi3Names;
    t.projections = FusedProjections::InTurn;
    t.fused_gate = true;
  });
  return traits;
}

const TransformerTraits& gpt_neox_traits() {
  static const TransformerTraits traits = {.names = &kGptNeoxNames,
                                           .form = BlockForm::ParallelTwoNorms,
                                           .positions = Positions::Rotary,
                                           .projections = FusedProjections::ByHead,
                                           .query_bias = true,
                                           .output_bias = true,
                                           .mlp_bias = true,
                                           .activation = Activation::Gelu};
  return traits;
}

const TransformerTraits& opt_traits() {
  static const TransformerTraits traits = {.names = &kOptNames, .extra_positions = 2, .activation = Activation::Relu};
  return traits;
}

const TransformerTraits& bloom_traits() {
  static const TransformerTraits traits = {.names = &kBloomNames,
                                           .positions = Positions::Alibi,
                                           .embedding_norm = true,
                                           .projections = FusedProjections::ByHead,
                                           .query_bias = true,
                                           .output_bias = true,
                                           .mlp_bias = true};
  return traits;
}

const TransformerTraits& falcon_traits() {
  static const TransformerTraits traits = {.names = &kFalconNames,
                                           .form = BlockForm::Parallel,
                                           .positions = Positions::Rotary,
                                           .projections = FusedProjections::ByHead,
                                           .activation = Activation::Gelu};
  return traits;
}

const ModuleNames& falcon_two_norm_names() { return kFalconTwoNormNames; }

const TransformerTraits& experts_traits() {
  static const TransformerTraits traits = llama_named(kExpertsNames);
  return traits;
}

const TransformerTraits& qwen2_experts_traits() {
  static const TransformerTraits traits = llama_named(kQwen2ExpertsNames);
  return traits;
}

const TransformerTraits& gpt_oss_traits() {
  static const TransformerTraits traits = llama_named(kGptOssNames);
  return traits;
}

const TransformerTraits& olmo2_traits() {
  static const TransformerTraits traits = llama_named(kOlmo2Names);
  return traits;
}

const TransformerTraits& squared_relu_traits() {
  static const TransformerTraits traits = changed(llama_traits(), [](TransformerTraits& t) {
    t.activation = Activation::ReluSquared;
    t.gated = false;
  });
  return traits;
}

}  // namespace panpipe
