// Classes of dense models up to 2024, and SmolLM 3 and Arcee.
#include <cmath>

#include "costmodel/workload/bounds.hpp"
#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

void mistral(ConfigReader& r, ModelDimensions& d) { d.traits.window = r.window("sliding_window", 4096); }

void qwen2(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = true;
  read_qwen_windows(r, d);
}

void gemma(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.scaled_embedding = true;
  d.traits.zero_centered_norms = true;
  d.traits.activation = r.activation({"hidden_activation", "hidden_act"}, Activation::GeluTanh);
}

void gemma2(ConfigReader& r, ModelDimensions& d) {
  gemma(r, d);
  d.traits.score_cap = r.number_or_none("attn_logit_softcapping", 50);
  d.traits.logit_cap = r.number_or_none("final_logit_softcapping", 30);
  d.traits.attention_scale = 1 / std::sqrt(r.number({"query_pre_attn_scalar"}, 256));
  read_windows(r, d, 4096, every(d.layers, 2, 1));
}

void gemma3(ConfigReader& r, ModelDimensions& d) {
  gemma(r, d);
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  d.traits.score_cap = r.number_or_none("attn_logit_softcapping", 0);
  d.traits.logit_cap = r.number_or_none("final_logit_softcapping", 0);
  d.traits.attention_scale = 1 / std::sqrt(r.number({"query_pre_attn_scalar"}, 256));
  const int pattern = r.integer("", {"sliding_window_pattern", "_sliding_window_pattern"}, 1, 6);
  read_windows(r, d, 4096, inverted(every(d.layers, pattern, 0)));
  d.traits.rotary_base = r.rotary("rope_theta", {"rope_theta"}, 1e6, "full_attention");
  d.traits.rotary_local_base = r.rotary("rope_theta", {"rope_local_base_freq"}, 1e4, "sliding_attention");
}

void phi(ConfigReader& r, ModelDimensions& d) {
  read_part_of_rotary(r, d, {"partial_rotary_factor"}, 0.5);
  if (r.flag({"qk_layernorm"}, false)) d.traits.query_key_norm = QueryKeyNorm::PerHead;
}

void phi3(ConfigReader& r, ModelDimensions& d) {
  read_part_of_rotary(r, d, {"partial_rotary_factor"}, 1);
  d.traits.window = r.window("sliding_window", 0);
}

void gpt_neox(ConfigReader& r, ModelDimensions& d) {
  read_part_of_rotary(r, d, {"partial_rotary_factor", "rotary_pct"}, 0.25);
  if (!r.flag({"use_parallel_residual"}, true)) d.traits.form = BlockForm::PreNorm;
  read_biases(r, d, true);
}

void opt(ConfigReader& r, ModelDimensions& d) {
  const bool bias = r.flag({"enable_bias"}, true);
  d.traits.query_bias = d.traits.output_bias = d.traits.mlp_bias = bias;
  const int width = r.integer("", {"word_embed_proj_dim"}, 1, d.hidden);
  if (width != d.hidden) d.traits.embedding_width = width;
  if (r.flag({"_remove_final_layer_norm"}, false)) d.traits.final_norm = false;
  if (!r.flag({"layer_norm_elementwise_affine"}, true))
    r.assume("normalizations have weights and biases, which layer_norm_elementwise_affine: false leaves out");
  if (r.flag({"do_layer_norm_before"}, true)) return;
  d.traits.form = BlockForm::PostNorm;
  d.traits.final_norm = false;
}

void bloom(ConfigReader& r, ModelDimensions& d) {
  d.ffn = 4 * std::min(d.hidden, kMostHidden);
  if (r.flag({"apply_residual_connection_post_layernorm"}, false))
    r.error(r.find({"apply_residual_connection_post_layernorm"}), "a residual connection behind the normalization is not known");
}

// One product for queries, keys and values: per head, one group for all heads (multi-query), or several groups.
void falcon(ConfigReader& r, ModelDimensions& d) {
  const bool grouped = r.flag({"new_decoder_architecture"}, false);
  const int heads = r.integer("", {"num_kv_heads", "n_head_kv"}, 1, d.heads);
  d.kv_heads = grouped ? heads : r.flag({"multi_query"}, true) ? 1 : d.heads;
  const bool bias = r.flag({"bias"}, false);
  d.traits.query_bias = d.traits.output_bias = d.traits.mlp_bias = bias;
  if (r.flag({"alibi"}, false)) d.traits.positions = Positions::Alibi;
  const bool two = grouped && r.integer("", {"num_ln_in_parallel_attn"}, 1, 2) == 2;
  const bool parallel = grouped || r.flag({"parallel_attn"}, true);
  d.traits.form = two ? BlockForm::ParallelTwoNorms : parallel ? BlockForm::Parallel : BlockForm::PreNorm;
  if (two) d.traits.names = &falcon_two_norm_names();
}

void olmo2(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.form = BlockForm::NormAfter;
  d.traits.query_key_norm = QueryKeyNorm::Whole;
}

// Layers without rotary positions: the list names those with them.
void smollm3(ConfigReader& r, ModelDimensions& d) {
  read_llama(r, d);
  const int interval = r.integer("", {"no_rope_layer_interval"}, 1, 4);
  d.traits.no_rotary = every(d.layers, interval, 0);
  const std::vector<int> listed = r.list("no_rope_layers");
  for (std::size_t i = 0; i < std::min(listed.size(), d.traits.no_rotary.size()); ++i) d.traits.no_rotary[i] = listed[i] == 0;
  if (r.flag({"use_sliding_window"}, false)) read_windows(r, d, 0, d.traits.no_rotary);  // windows where positions are not rotary
}

void plain(ConfigReader& /*r*/, ModelDimensions& /*d*/) {}

void bert(ConfigReader& r, ModelDimensions& d) {
  const Node* list = r.find({"architectures"});
  const bool masked =
      list && list->kind == NodeKind::Sequence && !list->items.empty() && list->items[0]->text == "BertForMaskedLM";
  d.traits.next_sentence = !masked;
  if (r.integer("", {"type_vocab_size"}, 1, 2) != 2) r.error(r.find({"type_vocab_size"}), "BERT has two token types here");
}

}  // namespace

// Defaults: transformers 5.23, the configuration classes of src/transformers/models/*.
std::vector<ConfigClass> dense_classes() {
  using F = FamilyTraits;
  return {
      {"llama", "LlamaForCausalLM", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::llama, read_llama},
      {"mistral", "MistralForCausalLM", {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-6}, &F::llama, mistral},
      {"qwen2", "Qwen2ForCausalLM", {151936, 4096, 32, 32, 32, 0, 22016, 32768, 1e-6}, &F::llama, qwen2},
      {"qwen3", "Qwen3ForCausalLM", {151936, 4096, 32, 32, 32, 128, 22016, 32768, 1e-6}, &F::llama, read_qwen3},
      {"gemma", "GemmaForCausalLM", {256000, 3072, 28, 16, 16, 256, 24576, 8192, 1e-6, true}, &F::llama, gemma},
      {"gemma2", "Gemma2ForCausalLM", {256000, 2304, 26, 8, 4, 256, 9216, 8192, 1e-6, true}, &F::gemma2, gemma2},
      {"gemma3_text", "Gemma3ForCausalLM", {262208, 2304, 26, 8, 4, 256, 9216, 131072, 1e-6, true}, &F::gemma2, gemma3},
      {"phi", "PhiForCausalLM", {51200, 2048, 24, 32, 0, 0, 8192, 2048, 1e-5}, &F::phi, phi},
      {"phi3", "Phi3ForCausalLM", {32064, 3072, 32, 32, 0, 0, 8192, 4096, 1e-5}, &F::phi3, phi3},
      {"gpt2", "GPT2LMHeadModel", {50257, 768, 12, 12, 0, 0, 0, 1024, 1e-5, true}, &F::gpt, plain},
      {"gpt_neox", "GPTNeoXForCausalLM", {50432, 6144, 44, 64, 0, 0, 24576, 2048, 1e-5}, &F::gpt_neox, gpt_neox},
      {"opt", "OPTForCausalLM", {50272, 768, 12, 12, 0, 0, 3072, 2048, 1e-5, true}, &F::opt, opt},
      {"bloom", "BloomForCausalLM", {250880, 64, 2, 8, 0, 0, 0, 2048, 1e-5, true}, &F::bloom, bloom},
      {"falcon", "FalconForCausalLM", {65024, 4544, 32, 71, 0, 0, 0, 2048, 1e-5, true}, &F::falcon, falcon},
      {"olmo2", "Olmo2ForCausalLM", {50304, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5}, &F::olmo2, olmo2},
      {"smollm3", "SmolLM3ForCausalLM", {128256, 2048, 36, 16, 4, 0, 11008, 32768, 1e-6, true, 2e6}, &F::llama, smollm3},
      {"arcee", "ArceeForCausalLM", {32000, 2560, 32, 32, 0, 0, 18432, 4096, 1e-5}, &F::squared_relu, read_llama},
      {"bert", "BertForPreTraining", {30522, 768, 12, 12, 0, 0, 3072, 512, 1e-12, true}, &F::bert, bert},
  };
}

}  // namespace panpipe
