// Classes with experts up to GPT-OSS.
#include <algorithm>

#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

void deepseek_v2(ConfigReader& r, ModelDimensions& d) {
  reads_deepseek(0, 64, 2, 0, 1407, {.sigmoid = false, .scale = 1})(r, d);
  if (d.traits.experts.per_token == 0) r.error(nullptr, "'num_experts_per_tok' is missing, and its class has no default");
  d.traits.experts.per_token = std::max(1, d.traits.experts.per_token);
}

void gpt_oss(ConfigReader& r, ModelDimensions& d) {
  reads_biases(true)(r, d);
  reads_windows(128, 2)(r, d);
  Experts& e = read_experts(r, d, {"num_local_experts", "num_experts"}, 128, 4, {"intermediate_size"}, 2880);
  e.router_bias = e.biases = e.transposed = true;
  e.gate_limit = r.number({"swiglu_limit"}, 7);
  e.gate_slope = r.number({"swiglu_alpha"}, 1.702);
  d.traits.sinks = true;
}

}  // namespace

std::vector<ConfigClass> expert_classes() {
  using F = FamilyTraits;
  using T = TransformerTraits;
  return {
      model_class("mixtral", "Mixtral", {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-5, false, 1e6}, &F::experts,
                  reads_experts({"num_local_experts", "num_experts"}, 8, 2, {"intermediate_size"}, 14336), reads_window(0)),
      model_class("qwen2_moe", "Qwen2Moe", {151936, 2048, 24, 16, 16, 0, 5632, 32768, 1e-6}, &F::qwen2_experts,
                  reads_flag("qkv_bias", true, &T::query_bias), read_qwen_windows,
                  reads_experts({"num_experts"}, 60, 4, {"moe_intermediate_size"}, 1408), reads_gated_expert(5632, false),
                  read_sparse_layers),
      model_class("qwen3_moe", "Qwen3Moe", {151936, 2048, 24, 32, 4, 0, 6144, 32768, 1e-6}, &F::experts, read_qwen3,
                  reads_experts({"num_experts", "num_local_experts"}, 128, 8, {"moe_intermediate_size"}, 768),
                  reads_normalized_experts(false), read_sparse_layers),
      model_class("deepseek_v2", "DeepseekV2", {102400, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::experts, deepseek_v2),
      model_class("deepseek_v3", "DeepseekV3", {129280, 7168, 61, 128, 0, 0, 18432, 4096, 1e-6}, &F::experts,
                  reads_deepseek(3, 256, 1, 8, 2048, {.groups = 8, .groups_per_token = 4}), reads_further_tokens(1)),
      model_class("gpt_oss", "GptOss", {201088, 2880, 36, 64, 8, 64, 2880, 131072, 1e-5, false, 1.5e5}, &F::gpt_oss, gpt_oss),
  };
}

}  // namespace panpipe
