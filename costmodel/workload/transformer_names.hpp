// The module names of the published classes, and of what stands around their layers. Internal to this folder.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "costmodel/workload/transformer.hpp"

namespace panpipe {

// Others with those of the text, "query=.attn.q key=.attn.k"; without a name behind "=" there is no such module.
consteval ModuleNames with(ModuleNames names, std::string_view text) {
  using N = ModuleNames;
  constexpr std::array kMembers = [](auto... members) { return std::array{members...}; }(
                                      &N::embedding, &N::positions, &N::embedding_norm, &N::layer, &N::attention_norm,
                                      &N::attention_after_norm, &N::mlp_norm, &N::mlp_after_norm, &N::core, &N::query, &N::key,
                                      &N::value, &N::fused, &N::output, &N::query_norm, &N::key_norm, &N::output_gate, &N::linear,
                                      &N::gate, &N::up, &N::gate_up, &N::activation, &N::down, &N::router, &N::experts,
                                      &N::shared, &N::final_norm, &N::head);
  constexpr std::string_view kWords =
      " embedding positions embedding_norm layer attention_norm attention_after_norm mlp_norm mlp_after_norm core query key "
      "value fused output query_norm key_norm output_gate linear gate up gate_up activation down router experts shared "
      "final_norm head ";
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const std::size_t equals = entry.find('=');
    std::size_t at = 0, member = 0;  // the compiler refuses a word that is not there
    for (; kWords.substr(at + 1, equals) != entry.substr(0, equals) || kWords[at + 1 + equals] != ' '; ++member)
      at = kWords.find(' ', at + 1);
    names.*kMembers[member] = entry.substr(equals + 1);
  }
  return names;
}

consteval ModuleNames module_names(std::string_view text) { return with({}, text); }

// Hugging Face's GPT2LMHeadModel. Linear weights are (out, in); the published checkpoints keep the transpose (Conv1D) under the
// same names.
inline constexpr ModuleNames kGptNames = module_names(
    "embedding=transformer.wte positions=transformer.wpe layer=transformer.h. attention_norm=.ln_1 mlp_norm=.ln_2 "
    "core=.attn fused=.attn.c_attn output=.attn.c_proj up=.mlp.c_fc activation=.mlp.act down=.mlp.c_proj "
    "final_norm=transformer.ln_f head=lm_head");
// LlamaForCausalLM.
inline constexpr ModuleNames kLlamaNames = module_names(
    "embedding=model.embed_tokens layer=model.layers. attention_norm=.input_layernorm mlp_norm=.post_attention_layernorm "
    "core=.self_attn query=.self_attn.q_proj key=.self_attn.k_proj value=.self_attn.v_proj output=.self_attn.o_proj "
    "query_norm=.self_attn.q_norm key_norm=.self_attn.k_norm gate=.mlp.gate_proj up=.mlp.up_proj activation=.mlp.act_fn "
    "down=.mlp.down_proj final_norm=model.norm head=lm_head");
// BertForPreTraining.
inline constexpr ModuleNames kBertNames = module_names(
    "embedding=bert.embeddings.word_embeddings positions=bert.embeddings.position_embeddings "
    "embedding_norm=bert.embeddings.LayerNorm layer=bert.encoder.layer. attention_norm=.attention.output.LayerNorm "
    "mlp_norm=.output.LayerNorm core=.attention.self query=.attention.self.query key=.attention.self.key "
    "value=.attention.self.value output=.attention.output.dense up=.intermediate.dense down=.output.dense");
// ViTForImageClassification.
inline constexpr ModuleNames kVitNames = module_names(
    "layer=vit.encoder.layer. attention_norm=.layernorm_before mlp_norm=.layernorm_after core=.attention.attention "
    "query=.attention.attention.query key=.attention.attention.key value=.attention.attention.value "
    "output=.attention.output.dense up=.intermediate.dense down=.output.dense final_norm=vit.layernorm");
// Gemma2ForCausalLM: four norms a layer.
inline constexpr ModuleNames kGemma2Names =
    with(kLlamaNames,
         "attention_after_norm=.post_attention_layernorm mlp_norm=.pre_feedforward_layernorm "
         "mlp_after_norm=.post_feedforward_layernorm");
inline constexpr ModuleNames kOlmo2Names = with(kGemma2Names, "attention_norm= mlp_norm=");
inline constexpr ModuleNames kPhiNames =
    with(kLlamaNames,
         "output=.self_attn.dense query_norm=.self_attn.q_layernorm key_norm=.self_attn.k_layernorm gate= up=.mlp.fc1 "
         "activation=.mlp.activation_fn down=.mlp.fc2 final_norm=model.final_layernorm");
inline constexpr ModuleNames kPhi3Names =
    with(kLlamaNames,
         "query= key= value= fused=.self_attn.qkv_proj gate= up= gate_up=.mlp.gate_up_proj activation=.mlp.activation_fn");
// GPTNeoXForCausalLM, as its published weights name the head.
inline constexpr ModuleNames kGptNeoxNames = module_names(
    "embedding=gpt_neox.embed_in layer=gpt_neox.layers. attention_norm=.input_layernorm mlp_norm=.post_attention_layernorm "
    "core=.attention fused=.attention.query_key_value output=.attention.dense up=.mlp.dense_h_to_4h activation=.mlp.act "
    "down=.mlp.dense_4h_to_h final_norm=gpt_neox.final_layer_norm head=embed_out");
inline constexpr ModuleNames kOptNames = module_names(
    "embedding=model.decoder.embed_tokens positions=model.decoder.embed_positions layer=model.decoder.layers. "
    "attention_norm=.self_attn_layer_norm mlp_norm=.final_layer_norm core=.self_attn query=.self_attn.q_proj "
    "key=.self_attn.k_proj value=.self_attn.v_proj output=.self_attn.out_proj up=.fc1 activation=.activation_fn down=.fc2 "
    "final_norm=model.decoder.final_layer_norm head=lm_head");
// BloomForCausalLM; FalconForCausalLM has the same modules without the norm of the embedding.
inline constexpr ModuleNames kBloomNames = module_names(
    "embedding=transformer.word_embeddings embedding_norm=transformer.word_embeddings_layernorm layer=transformer.h. "
    "attention_norm=.input_layernorm mlp_norm=.post_attention_layernorm core=.self_attention "
    "fused=.self_attention.query_key_value output=.self_attention.dense up=.mlp.dense_h_to_4h activation=.mlp.gelu_impl "
    "down=.mlp.dense_4h_to_h final_norm=transformer.ln_f head=lm_head");
inline constexpr ModuleNames kFalconNames = with(kBloomNames, "activation=.mlp.act");
inline constexpr ModuleNames kFalconTwoNormNames = with(kFalconNames, "attention_norm=.ln_attn mlp_norm=.ln_mlp");
// Llama's modules, norms of queries and keys, and a router in place of the MLP.
inline constexpr ModuleNames kExpertsNames =
    with(kLlamaNames, "router=.mlp.gate experts=.mlp.experts shared=.mlp.shared_experts");
inline constexpr ModuleNames kQwen2ExpertsNames = with(kExpertsNames, "shared=.mlp.shared_expert");
inline constexpr ModuleNames kGptOssNames = with(kExpertsNames, "router=.mlp.router");
inline constexpr ModuleNames kGlmNames = with(kLlamaNames, "gate= up= gate_up=.mlp.gate_up_proj activation=.mlp.activation_fn");
inline constexpr ModuleNames kGlm4Names =
    with(kGlmNames, "attention_after_norm=.post_self_attn_layernorm mlp_after_norm=.post_mlp_layernorm");
inline constexpr ModuleNames kHunyuanNames =
    with(kLlamaNames, "query_norm=.self_attn.query_layernorm key_norm=.self_attn.key_layernorm");
inline constexpr ModuleNames kStarcoder2Names = with(kLlamaNames, "gate= up=.mlp.c_fc down=.mlp.c_proj activation=.mlp.act");
inline constexpr ModuleNames kHunyuanExpertsNames =
    with(kHunyuanNames, "router=.mlp.gate.wg experts=.mlp.experts shared=.mlp.shared_mlp");
inline constexpr ModuleNames kGraniteExpertsNames =
    with(kLlamaNames, "router=.block_sparse_moe.router experts=.block_sparse_moe.experts shared=.shared_mlp linear=.mamba");
inline constexpr ModuleNames kLlama4Names = with(
    kLlamaNames,
    "gate=.feed_forward.gate_proj up=.feed_forward.up_proj down=.feed_forward.down_proj activation=.feed_forward.activation_fn "
    "router=.feed_forward.router experts=.feed_forward.experts shared=.feed_forward.shared_expert");
inline constexpr ModuleNames kAfmoeNames =
    with(kExpertsNames,
         "attention_after_norm=.post_attention_layernorm mlp_norm=.pre_mlp_layernorm mlp_after_norm=.post_mlp_layernorm "
         "output_gate=.self_attn.gate_proj router=.mlp.router.gate");
inline constexpr ModuleNames kFlexOlmoNames = with(kOlmo2Names, "router=.mlp.gate experts=.mlp.experts");
inline constexpr ModuleNames kQwen3NextNames = with(kQwen2ExpertsNames, "linear=.linear_attn");
inline constexpr ModuleNames kInAttentionNames = with(kExpertsNames, "linear=.self_attn");
inline constexpr ModuleNames kBambaNames =
    with(kLlama4Names, "mlp_norm=.pre_ff_layernorm final_norm=model.final_layernorm linear=.mamba");
inline constexpr ModuleNames kNemotronHNames = module_names(
    "embedding=backbone.embeddings layer=backbone.layers. attention_norm=.norm mlp_norm=.norm core=.mixer "
    "query=.mixer.q_proj key=.mixer.k_proj value=.mixer.v_proj output=.mixer.o_proj linear=.mixer up=.mixer.up_proj "
    "activation=.mixer.act_fn down=.mixer.down_proj router=.mixer.gate experts=.mixer.experts shared=.mixer.shared_experts "
    "final_norm=backbone.norm_f head=lm_head");
inline constexpr ModuleNames kLfm2Names =
    with(kLlama4Names,
         "attention_norm=.operator_norm mlp_norm=.ffn_norm output=.self_attn.out_proj query_norm=.self_attn.q_layernorm "
         "key_norm=.self_attn.k_layernorm gate=.feed_forward.w1 up=.feed_forward.w3 down=.feed_forward.w2 "
         "activation=.feed_forward router=.feed_forward.gate final_norm=model.embedding_norm linear=.conv");

// Towers: Qwen's, with patches of two frames; those with separate projections.
inline constexpr ModuleNames kQwenTower = module_names(
    "layer=model.visual.blocks. attention_norm=.norm1 mlp_norm=.norm2 core=.attn fused=.attn.qkv output=.attn.proj "
    "activation=.mlp.act");
inline constexpr ModuleNames kQwen2Tower = with(kQwenTower, "up=.mlp.fc1 down=.mlp.fc2");
inline constexpr ModuleNames kQwen3Tower = with(kQwenTower, "up=.mlp.linear_fc1 down=.mlp.linear_fc2");
inline constexpr ModuleNames kGatedTower = with(kQwenTower, "gate=.mlp.gate_proj up=.mlp.up_proj down=.mlp.down_proj");
inline constexpr ModuleNames kSiglipTower = module_names(
    "layer=model.vision_tower.encoder.layers. attention_norm=.layer_norm1 mlp_norm=.layer_norm2 core=.self_attn "
    "query=.self_attn.q_proj key=.self_attn.k_proj value=.self_attn.v_proj output=.self_attn.out_proj up=.mlp.fc1 "
    "activation=.mlp.activation_fn down=.mlp.fc2");
inline constexpr ModuleNames kLlama4Tower = with(kSiglipTower,
                                                 "layer=vision_model.model.layers. attention_norm=.input_layernorm "
                                                 "mlp_norm=.post_attention_layernorm output=.self_attn.o_proj");
inline constexpr ModuleNames kAttentionTower =
    with(kSiglipTower, "core=.attention query=.attention.q_proj key=.attention.k_proj value=.attention.v_proj");
inline constexpr ModuleNames kPixtralTower =
    with(kAttentionTower,
         "layer=model.vision_tower.transformer.layers. attention_norm=.attention_norm mlp_norm=.ffn_norm "
         "output=.attention.o_proj gate=.feed_forward.gate_proj up=.feed_forward.up_proj down=.feed_forward.down_proj");
inline constexpr ModuleNames kInternTower = with(kAttentionTower,
                                                 "layer=model.vision_tower.encoder.layer. attention_norm=.layernorm_before "
                                                 "mlp_norm=.layernorm_after output=.attention.projection_layer");
inline constexpr ModuleNames kMoonTower =
    with(kSiglipTower,
         "layer=model.vision_tower.layers. attention_norm=.norm1 mlp_norm=.norm2 core=.attn query=.attn.q_proj key=.attn.k_proj "
         "value=.attn.v_proj output=.attn.proj");

}  // namespace panpipe
