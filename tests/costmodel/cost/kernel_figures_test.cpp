// Published times of single kernels next to the cost model's, a priori: docs/models/classes.md states these errors with their
// sources. A change of a rate or of a count moves them, and the page with them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "costmodel/cost/compute.hpp"
#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {
namespace {

// Products of the operator in the forward, or in both passes, one after the other, in milliseconds.
double predicted(const std::string& cluster, const std::string& config, int samples, int tokens, const std::string& target,
                 bool both) {
  const auto made = make(fmt::format(
      "panpipe: 1\ncluster: clusters/{}.yaml\nworkload: {{sequence: {}, config: {{num_hidden_layers: 2, hidden_size: 256, "
      "intermediate_size: 256, vocab_size: 512, {}}}}}\nbatch: {{micro: {}, microbatches: 1}}\nprecision: bf16\n",
      cluster, tokens, config, samples));
  const DeviceRates rates = device_rates(made->scenario.cluster.types[0], made->model->calibration(0), made->scenario);
  const WorkloadRequest request = made->scenario.workload;
  const Workload workload = make_workload(request, {.degrees = {.micro = samples}, .precision = Precision::Bf16});
  const std::vector<OperatorWork> works = count_work(*workload.graph);
  double seconds = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (workload.graph->operators[i].target != target || seconds > 0) continue;  // of the first layer
    for (const GemmShape& shape : works[i].forward.gemms) seconds += gemm_cost(shape, rates).total.base();
    if (!both) continue;
    for (const GemmShape& shape : works[i].input_gradient.gemms) seconds += gemm_cost(shape, rates).total.base();
  }
  return seconds * 1e3;
}

struct Figure {
  int samples, tokens, heads, features;
  double forward_ms, both_ms;        // published
  double forward_error, both_error;  // of the prediction
};

// fla-org/flash-linear-attention, README of 22 August 2026: one GB200, CUDA 12.9, PyTorch 2.9.0.
TEST(KernelFigures, OfFlashLinearAttentionOnGb200) {
  for (const Figure& f :
       {Figure{1, 8192, 96, 128, 1.265, 4.738, -0.43, -0.46}, Figure{2, 16384, 16, 128, 1.029, 3.616, -0.53, -0.53},
        Figure{4, 4096, 64, 128, 1.581, 5.964, -0.39, -0.43}}) {
    const std::string config = fmt::format(
        "model_type: qwen3_5_text, num_attention_heads: 4, num_key_value_heads: 4, head_dim: 64, linear_num_key_heads: {0}, "
        "linear_num_value_heads: {0}, linear_key_head_dim: {1}, linear_value_head_dim: {1}",
        f.heads, f.features);
    const auto error = [&](bool both, double ms) {
      return predicted("gb200-nvl72", config, f.samples, f.tokens, "panpipe_nn::gated_delta_rule", both) / ms - 1;
    };
    EXPECT_NEAR(error(false, f.forward_ms), f.forward_error, 0.01) << f.tokens;
    EXPECT_NEAR(error(true, f.both_ms), f.both_error, 0.01) << f.tokens;
  }
  for (const Figure& f :
       {Figure{1, 8192, 96, 128, 0.787, 2.618, -0.51, -0.51}, Figure{2, 16384, 16, 128, 0.792, 2.122, -0.68, -0.60},
        Figure{4, 4096, 64, 128, 0.997, 3.459, -0.49, -0.51}}) {
    const std::string config = fmt::format(
        "model_type: minimax, num_attention_heads: {0}, num_key_value_heads: {0}, head_dim: {1}, block_size: 64, "
        "num_local_experts: 2, num_experts_per_tok: 1",
        f.heads, f.features);
    const auto error = [&](bool both, double ms) {
      return predicted("gb200-nvl72", config, f.samples, f.tokens, "panpipe_nn::lightning_attention", both) / ms - 1;
    };
    EXPECT_NEAR(error(false, f.forward_ms), f.forward_error, 0.01) << f.tokens;
    EXPECT_NEAR(error(true, f.both_ms), f.both_error, 0.01) << f.tokens;
  }
}

// vllm-project/vllm pull request 27299, 25 October 2025: the forward of Mamba 2's kernels on one H100, 128 heads of 64 in one
// group, a state of 128, in chunks of 256; published as tokens a second.
TEST(KernelFigures, OfMamba2OnH100) {
  const std::string config = "model_type: mamba2, num_heads: 128, head_dim: 64, n_groups: 1, state_size: 128, chunk_size: 256";
  for (const auto& [tokens, rate, error] : {std::tuple(4096, 1.206409e7, -0.09),
                                            {8192, 1.262327e7, -0.05},
                                            {16384, 1.292440e7, -0.03},
                                            {32768, 1.180002e7, -0.11},
                                            {65536, 1.106830e7, -0.17}})
    EXPECT_NEAR(predicted("h100x8", config, 1, tokens, "panpipe_nn::state_space", false) / (tokens / rate * 1e3) - 1, error, 0.01)
        << tokens;
}

// pytorch/benchmark pull request 2391, July 2024: the forward of FlashAttention-3 on an H100, 16 heads of 128 without a mask,
// 16384 tokens in all. Its rate at 4096 tokens comes from the paper.
TEST(KernelFigures, OfFlashAttention3OnH100) {
  const auto made = make(
      "panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 1}\nprecision: bf16\n"
      "framework: {name: megatron-core, attention: flash-3}\n");
  const DeviceRates rates = device_rates(made->scenario.cluster.types[0], made->model->calibration(0), made->scenario);
  for (const auto& [tokens, tflops, error] : {std::tuple(512, 430.32, 0.29),
                                              {1024, 517.1, 0.17},
                                              {2048, 565.5, 0.08},
                                              {4096, 590.2, 0.02},
                                              {8192, 614.2, 0.0},
                                              {16384, 620.7, -0.01}}) {
    const AttentionShape shape{16384 / tokens, 16, 16, tokens, tokens, 128, false};
    const double work = 4.0 * 16384 * 16 * tokens * 128;
    EXPECT_NEAR(attention_cost(shape, rates).forward.total.base() / (work / (tflops * 1e12)) - 1, error, 0.01) << tokens;
  }
}

}  // namespace
}  // namespace panpipe
