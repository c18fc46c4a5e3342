// Classes of dense models up to 2024, and SmolLM 3 and Arcee.
#include <cmath>

#include "costmodel/workload/bounds.hpp"
#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

void gemma(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  d.traits.scaled_embedding = true;
  d.traits.zero_centered_norms = true;
  d.traits.activation = r.activation({"hidden_activation", "hidden_act"}, Activation::GeluTanh);
}

void gemma2(ConfigReader& r, ModelDimensions& d) {
  gemma(r, d);
  d.traits.score_cap = r.number_or_none("attn_logit_softcapping", 50);
  d.traits.logit_cap = r.number_or_none("final_logit_softcapping", 30);
  d.traits.attention_scale = 1 / std::sqrt(r.number({"query_pre_attn_scalar"}, 256));
  reads_windows(4096, 2)(r, d);
}

void gemma3(ConfigReader& r, ModelDimensions& d) {
  gemma(r, d);
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  d.traits.score_cap = r.number_or_none("attn_logit_softcapping", 0);
  d.traits.logit_cap = r.number_or_none("final_logit_softcapping", 0);
  d.traits.attention_scale = 1 / std::sqrt(r.number({"query_pre_attn_scalar"}, 256));
  reads_windows(4096, r.integer("", {"sliding_window_pattern", "_sliding_window_pattern"}, 1, 6))(r, d);
  d.traits.rotary_base = r.rotary("rope_theta", {"rope_theta"}, 1e6, "full_attention");
  d.traits.rotary_local_base = r.rotary("rope_theta", {"rope_local_base_freq"}, 1e4, "sliding_attention");
}

void gpt_neox(ConfigReader& r, ModelDimensions& d) {
  reads_rotary_part(0.25, {"partial_rotary_factor", "rotary_pct"})(r, d);
  if (!r.flag({"use_parallel_residual"}, true)) d.traits.form = BlockForm::PreNorm;
  reads_biases(true)(r, d);
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

// Layers without rotary positions: the list names those with them.
void smollm3(ConfigReader& r, ModelDimensions& d) {
  read_llama(r, d);
  read_no_rotary_layers(r, d);
  if (r.flag({"use_sliding_window"}, false)) read_windows(r, d, 0, d.traits.no_rotary);  // windows where positions are not rotary
}

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
  using T = TransformerTraits;
  return {
      model_class("llama", "Llama", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::llama, read_llama),
      model_class("mistral", "Mistral", {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-6}, &F::llama, reads_window(4096)),
      model_class("qwen2", "Qwen2", {151936, 4096, 32, 32, 32, 0, 22016, 32768, 1e-6}, &F::llama, has(&T::query_bias, true),
                  read_qwen_windows),
      model_class("qwen3", "Qwen3", {151936, 4096, 32, 32, 32, 128, 22016, 32768, 1e-6}, &F::llama, read_qwen3),
      model_class("gemma", "Gemma", {256000, 3072, 28, 16, 16, 256, 24576, 8192, 1e-6, true}, &F::llama, gemma),
      model_class("gemma2", "Gemma2", {256000, 2304, 26, 8, 4, 256, 9216, 8192, 1e-6, true}, &F::gemma2, gemma2),
      model_class("gemma3_text", "Gemma3", {262208, 2304, 26, 8, 4, 256, 9216, 131072, 1e-6, true}, &F::gemma2, gemma3),
      model_class("phi", "Phi", {51200, 2048, 24, 32, 0, 0, 8192, 2048, 1e-5}, &F::phi, reads_rotary_part(0.5),
                  reads_head_norms("qk_layernorm", false)),
      model_class("phi3", "Phi3", {32064, 3072, 32, 32, 0, 0, 8192, 4096, 1e-5}, &F::phi3, reads_rotary_part(1), reads_window(0)),
      model_class("gpt2", "GPT2LMHeadModel", {50257, 768, 12, 12, 0, 0, 0, 1024, 1e-5, true}, &F::gpt),
      model_class("gpt_neox", "GPTNeoX", {50432, 6144, 44, 64, 0, 0, 24576, 2048, 1e-5}, &F::gpt_neox, gpt_neox),
      model_class("opt", "OPT", {50272, 768, 12, 12, 0, 0, 3072, 2048, 1e-5, true}, &F::opt, opt),
      model_class("bloom", "Bloom", {250880, 64, 2, 8, 0, 0, 0, 2048, 1e-5, true}, &F::bloom, bloom),
      model_class("falcon", "Falcon", {65024, 4544, 32, 71, 0, 0, 0, 2048, 1e-5, true}, &F::falcon, falcon),
      model_class("olmo2", "Olmo2", {50304, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5}, &F::olmo2, reads_biases(false),
                  has(&T::form, BlockForm::NormAfter), has(&T::query_key_norm, QueryKeyNorm::Whole)),
      model_class("smollm3", "SmolLM3", {128256, 2048, 36, 16, 4, 0, 11008, 32768, 1e-6, true, 2e6}, &F::llama, smollm3),
      model_class("arcee", "Arcee", {32000, 2560, 32, 32, 0, 0, 18432, 4096, 1e-5}, &F::squared_relu, read_llama),
      model_class("bert", "BertForPreTraining", {30522, 768, 12, 12, 0, 0, 3072, 512, 1e-12, true}, &F::bert, bert),
  };
}

}  // namespace panpipe
