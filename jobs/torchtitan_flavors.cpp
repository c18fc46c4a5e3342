#include "jobs/torchtitan_flavors.hpp"

#include <fmt/format.h>

namespace panpipe::jobs {
namespace {

TorchtitanFlavor llama3(const char* flavor, int layers, int hidden, int heads, int kv_heads, int ffn, int vocabulary = 128256) {
  return {
      "llama3", flavor, layers,
      fmt::format("{{model_type: llama, num_hidden_layers: {}, hidden_size: {}, num_attention_heads: {}, num_key_value_heads: "
                  "{}, intermediate_size: {}, vocab_size: {}, max_position_embeddings: 131072, rope_theta: 500000, "
                  "rms_norm_eps: 1e-05, tie_word_embeddings: false}}",
                  layers, hidden, heads, kv_heads, ffn, vocabulary)};
}

TorchtitanFlavor qwen3(const char* flavor, int layers, int hidden, int heads, int ffn, bool tied, int vocabulary = 151936) {
  return {
      "qwen3", flavor, layers,
      fmt::format("{{model_type: qwen3, num_hidden_layers: {}, hidden_size: {}, num_attention_heads: {}, num_key_value_heads: "
                  "8, head_dim: 128, intermediate_size: {}, vocab_size: {}, max_position_embeddings: 4096, rope_theta: "
                  "1000000, tie_word_embeddings: {}}}",
                  layers, hidden, heads, ffn, vocabulary, tied)};
}

TorchtitanFlavor qwen3_experts(const char* flavor, int layers, int hidden, int heads, int expert_ffn) {
  return {"qwen3", flavor, layers,
          fmt::format("{{model_type: qwen3_moe, num_hidden_layers: {}, hidden_size: {}, num_attention_heads: {}, "
                      "num_key_value_heads: 4, head_dim: 128, num_experts: 128, num_experts_per_tok: 8, moe_intermediate_size: "
                      "{}, norm_topk_prob: true, vocab_size: 151936, max_position_embeddings: 262144, rope_theta: 1000000, "
                      "tie_word_embeddings: false}}",
                      layers, hidden, heads, expert_ffn)};
}

TorchtitanFlavor deepseek(const char* flavor, const char* type, int layers, int hidden, int heads, const char* query_rank,
                          int ffn, int experts, int per_token, int expert_ffn, int shared, int dense, int vocabulary) {
  return {"deepseek_v3", flavor, layers,
          fmt::format("{{model_type: {}, num_hidden_layers: {}, hidden_size: {}, num_attention_heads: {}, q_lora_rank: {}, "
                      "kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128, intermediate_size: {}, "
                      "n_routed_experts: {}, num_experts_per_tok: {}, moe_intermediate_size: {}, n_shared_experts: {}, "
                      "first_k_dense_replace: {}, vocab_size: {}, max_position_embeddings: 16384, num_nextn_predict_layers: 0, "
                      "tie_word_embeddings: false}}",
                      type, layers, hidden, heads, query_rank, ffn, experts, per_token, expert_ffn, shared, dense, vocabulary)};
}

}  // namespace

const std::vector<TorchtitanFlavor>& torchtitan_flavors() {
  static const std::vector<TorchtitanFlavor> table = {
      llama3("debugmodel", 6, 256, 16, 16, 768, 2048),
      llama3("8B", 32, 4096, 32, 8, 14336),
      llama3("70B", 80, 8192, 64, 8, 28672),
      llama3("405B", 126, 16384, 128, 8, 53248),
      qwen3("debugmodel", 8, 256, 16, 3072, true, 2048),
      qwen3("0.6B", 28, 1024, 16, 3072, true),
      qwen3("1.7B", 28, 2048, 16, 6144, true),
      qwen3("4B", 36, 2560, 32, 9728, true),
      qwen3("8B", 36, 4096, 32, 12288, false),
      qwen3("14B", 40, 5120, 40, 17408, false),
      qwen3("32B", 64, 5120, 64, 25600, false),
      qwen3_experts("30B-A3B", 48, 2048, 32, 768),
      qwen3_experts("235B-A22B", 94, 4096, 64, 1536),
      deepseek("debugmodel", "deepseek_v2", 6, 256, 16, "null", 1024, 8, 3, 256, 2, 1, 2048),
      deepseek("16B", "deepseek_v2", 27, 2048, 16, "null", 10944, 64, 6, 1408, 2, 1, 102400),
      deepseek("236B", "deepseek_v2", 60, 5120, 128, "1536", 12288, 160, 6, 1536, 2, 1, 102400),
      deepseek("671B", "deepseek_v3", 61, 7168, 128, "1536", 18432, 256, 8, 2048, 1, 3, 129280),
  };
  return table;
}

}  // namespace panpipe::jobs
