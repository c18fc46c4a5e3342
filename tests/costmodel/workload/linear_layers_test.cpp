// Layers with a state, and keys that queries choose: operations against closed forms, what is kept, cuts over ranks, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

Workload make(const std::string& text, int tokens,
              const WorkloadShape& shape = {.degrees = {.micro = 1}, .precision = Precision::Bf16}) {
  WorkloadRequest request;
  request.config = std::make_shared<ModelConfig>(read_model_config(*parse_document(text, "config.json", "."), tokens));
  return make_workload(request, shape);
}

struct Found {
  const Operator* op = nullptr;
  OperatorWork work;
};

// The first operator of the name.
Found find(const Workload& workload, const std::string& target) {
  const auto works = count_work(*workload.graph);
  for (std::size_t i = 0; i < works.size(); ++i)
    if (workload.graph->operators[i].target == target) return {&workload.graph->operators[i], works[i]};
  return {};
}

const char* const kDelta =
    "{model_type: qwen3_5_text, hidden_size: 64, num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 4, "
    "head_dim: 16, intermediate_size: 96, vocab_size: 512, linear_num_key_heads: 4, linear_num_value_heads: 8, "
    "linear_key_head_dim: 16, linear_value_head_dim: 32}";
const char* const kMamba =
    "{model_type: mamba2, hidden_size: 64, num_hidden_layers: 1, vocab_size: 512, num_heads: 8, head_dim: 16, n_groups: 2, "
    "state_size: 32, chunk_size: 64}";
const char* const kScan =
    "{model_type: jamba, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4, "
    "intermediate_size: 96, vocab_size: 512, num_experts: 1, attn_layer_period: 2, attn_layer_offset: 1, mamba_d_state: 16, "
    "mamba_dt_rank: 8}";
const char* const kLightning =
    "{model_type: minimax, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4, "
    "head_dim: 16, intermediate_size: 96, num_local_experts: 4, vocab_size: 512, block_size: 32}";

// Gated delta rule, 128 tokens in chunks of 64, 8 heads, keys of 16 features (repeated for two heads of values each), values of
// 32. A token and head: 2 C (3 N + 2 P) + 6 N P + C C / 3 = 128 (48 + 64) + 6 x 512 + 4096/3. The backward has two products for
// each of the forward and repeats W, U, the state and what comes from it: 2 C N + 2 C P + 4 N P.
TEST(LinearLayers, GatedDeltaRule) {
  const Found found = find(make(kDelta, 128), "panpipe_nn::gated_delta_rule");
  const double products = 128.0 * (48 + 64) + 6 * 512, rows = 128 * 8;
  EXPECT_DOUBLE_EQ(found.work.forward.flops.base(), rows * (products + 4096.0 / 3));
  EXPECT_DOUBLE_EQ(found.work.input_gradient.flops.base(), rows * (2 * products + 128.0 * (16 + 32) + 4 * 512));
  // The inverse in 2 bytes, 64 numbers a token and head, and sums of decays in 4.
  EXPECT_EQ(found.work.saved_extra, Bytes(128 * 8 * (64 * 2 + 4)));
}

// Mamba 2, 128 tokens in chunks of 64, 2 groups, 8 heads of 16 features, a state of 32: 2 C N a group, 2 C P + 4 N P a head.
TEST(LinearLayers, StateSpace) {
  const Found found = find(make(kMamba, 128), "panpipe_nn::state_space");
  const double forward = 128.0 * (2 * 128 * 32 + 8 * (128 * 16 + 4 * 32 * 16));
  EXPECT_DOUBLE_EQ(found.work.forward.flops.base(), forward);
  EXPECT_DOUBLE_EQ(found.work.input_gradient.flops.base(), 2 * forward + 128.0 * 8 * 2 * 32 * 16);
  EXPECT_EQ(found.work.saved_extra, Bytes(128 * 8 * 4));
}

// Mamba 1, 128 channels with states of 16: 9 N operations a token and channel, three times that in the backward; kept: a state
// and a product of decays in 4 bytes for the one block of up to 2048 tokens.
TEST(LinearLayers, SelectiveScan) {
  const Found found = find(make(kScan, 256), "panpipe_nn::selective_scan");
  EXPECT_DOUBLE_EQ(found.work.forward.flops.base(), 256.0 * 128 * 9 * 16);
  EXPECT_DOUBLE_EQ(found.work.input_gradient.flops.base(), 3 * 256.0 * 128 * 9 * 16);
  EXPECT_EQ(found.work.saved_extra, Bytes(8 * 128 * 16));
  // Values, steps, keys and queries, logarithms of decays, and D, in 2 bytes.
  EXPECT_EQ(found.work.forward.read, Bytes(2 * (256 * (2 * 128 + 2 * 16) + 128 * 16 + 128)));
}

// Mamba 1 cuts channels: the narrow product that makes steps, keys and queries is summed over the ranks, 8 + 2 x 16 features of
// each token, and so are the gradients of what comes from it.
TEST(LinearLayers, RanksSumWhatTheScanIsMadeFrom) {
  const Workload one = make(kScan, 128),
                 cut = make(kScan, 128, {.degrees = {.tensor = 2, .micro = 1, .sequence_parallel = true}});
  EXPECT_EQ(cut.parameters, one.parameters);
  EXPECT_DOUBLE_EQ(cut.model_flops.base(), one.model_flops.base());
  const Found sum = find(cut, "panpipe::reduce_from_tensor_parallel"), entry = find(cut, "panpipe::copy_to_tensor_parallel");
  EXPECT_EQ(sum.op->forward_collective, CollectiveKind::AllReduce);
  EXPECT_EQ(entry.op->backward_collective, CollectiveKind::AllReduce);
  EXPECT_EQ(cut.graph->tensors[sum.op->outputs[0]].shape, (Shape{1, 128, 40}));
}

// Lightning attention, 64 tokens in chunks of 32, 4 heads of 16: 2 C (16 + 16) + 4 x 16 x 16.
TEST(LinearLayers, LightningAttention) {
  const Found found = find(make(kLightning, 64), "panpipe_nn::lightning_attention");
  EXPECT_DOUBLE_EQ(found.work.forward.flops.base(), 64.0 * 4 * (2 * 32 * 32 + 4 * 256));
}

// A convolution of 4 tokens over 2 x 4 x 16 + 8 x 32 channels: 2 x 4 operations each, one pass over memory in 2 bytes.
TEST(LinearLayers, CausalConvolution) {
  const Found found = find(make(kDelta, 128), "panpipe_nn::causal_convolution");
  EXPECT_DOUBLE_EQ(found.work.forward.flops.base(), 128.0 * 384 * 8);
  EXPECT_EQ(found.work.forward.read, Bytes(2 * (128 * 384 + 384 * 4)));
  EXPECT_EQ(found.work.forward.written, Bytes(2 * 128 * 384));
}

// What a model's operations count does not depend on chunks: the state's two products of N x P, and the convolution. One layer of
// Mamba 2: 2 T (64 (2 x 128 + 2 x 64 + 8) + 128 x 64) products, 4 T 8 x 32 x 16, 2 T 4 (128 + 128), and the head's 2 T 64 x 512.
TEST(LinearLayers, OperationsOfTheModelAreThoseOfTheRecurrence) {
  const double tokens = 128, products = 64 * (2 * 128 + 2 * 64 + 8) + 128 * 64 + 64 * 512;
  const double state = 4 * 8 * 32 * 16, convolution = 2 * 4 * 256;
  EXPECT_DOUBLE_EQ(make(kMamba, 128).model_flops.base(), 3 * tokens * (2 * products + state + convolution));
}

// Heads, groups and channels are cut: two ranks hold the parameters of one and do its operations; exchanged features for tokens
// keep the sequence whole where the state passes.
TEST(LinearLayers, RanksShareHeads) {
  for (const char* text :
       {kDelta,
        "{model_type: mamba2, hidden_size: 64, num_hidden_layers: 1, vocab_size: 512, num_heads: 8, head_dim: 16, "
        "n_groups: 4, state_size: 32}",
        "{model_type: nemotron_h, hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 4, "
        "head_dim: 16, intermediate_size: 96, vocab_size: 512, hybrid_override_pattern: 'M-*E', "
        "mamba_num_heads: 8, mamba_head_dim: 16, n_groups: 4, ssm_state_size: 32, n_routed_experts: 4, "
        "moe_intermediate_size: 32, moe_shared_expert_intermediate_size: 32}"}) {
    const Workload one = make(text, 128);
    for (const WorkloadShape& shape : {WorkloadShape{.degrees = {.tensor = 2, .micro = 1}},
                                       WorkloadShape{.degrees = {.tensor = 2, .micro = 1, .sequence_parallel = true}},
                                       WorkloadShape{.degrees = {.micro = 1, .context = 2}},
                                       WorkloadShape{.degrees = {.tensor = 2, .micro = 1, .context = 2}}}) {
      const Workload cut = make(text, 128, shape);
      EXPECT_EQ(cut.parameters, one.parameters);
      EXPECT_DOUBLE_EQ(cut.model_flops.base(), one.model_flops.base());
      EXPECT_NO_THROW(cut.graph->check());
    }
  }
  const Workload context = make(kDelta, 128, {.degrees = {.micro = 1, .context = 2}});
  const Found state = find(context, "panpipe_nn::gated_delta_rule");
  EXPECT_EQ(context.graph->tensors[state.op->outputs[0]].shape, (Shape{1, 128, 4, 32})) << "all tokens, half of the heads";
}

TEST(LinearLayers, RefusalsSayWhatIsNotDivided) {
  const auto fault = [](const char* text, const WorkloadShape& shape) { return test::fault_of([&] { make(text, 128, shape); }); };
  EXPECT_THAT(fault(kLightning, {.degrees = {.tensor = 2, .micro = 1}}), HasSubstr("normalizes the result of all heads"));
  EXPECT_THAT(
      fault(kMamba, {.degrees = {.micro = 1, .context = 4}}),
      HasSubstr("has 2 groups in its linear layers: tensor parallelism of 1 and context parallelism of 4, which exchanges "
                "them for tokens, does not divide them"));
  EXPECT_THAT(fault(kScan, {.degrees = {.micro = 1, .context = 2}}), HasSubstr("makes each step of its scan from all channels"));
  const char* const indexed =
      "{model_type: deepseek_v32, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 4, q_lora_rank: 16, kv_lora_rank: "
      "8, "
      "qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 6, intermediate_size: 96, vocab_size: 512, index_n_heads: 2, "
      "index_head_dim: 8, index_topk: 16}";
  EXPECT_THAT(fault(indexed, {.degrees = {.micro = 1, .context = 2}}), HasSubstr("are chosen from the whole sequence"));
}

// DeepSeek-V3.2: scores of 2 heads of 8 features for all pairs, 2 T T 2 x 8; then 16 of 64 keys a query: the pairs of a window of
// 16, 16/64 (1 - 16/128) = 7/32 of all. A sequence of 16 tokens chooses nothing.
TEST(LinearLayers, QueriesChooseTheirKeys) {
  const std::string text =
      "{model_type: deepseek_v32, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 4, q_lora_rank: 16, kv_lora_rank: "
      "8, "
      "qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 6, intermediate_size: 96, vocab_size: 512, index_n_heads: 2, "
      "index_head_dim: 8, index_topk: 16, first_k_dense_replace: 1}";
  const Workload workload = make(text, 64);
  EXPECT_DOUBLE_EQ(find(workload, "panpipe_nn::choose_keys").work.forward.flops.base(), 2.0 * 64 * 64 * 2 * 8);
  const Found attention = find(workload, "panpipe_nn::sparse_attention");
  EXPECT_DOUBLE_EQ(attention.work.attention.attended_share(), 7.0 / 32);
  EXPECT_EQ(find(make(text, 16), "panpipe_nn::sparse_attention").op, nullptr);
  const Workload cut = make(text, 64, {.degrees = {.tensor = 2, .micro = 1, .sequence_parallel = true}});
  EXPECT_EQ(cut.parameters, workload.parameters);
  EXPECT_DOUBLE_EQ(cut.model_flops.base(), workload.model_flops.base());
}

}  // namespace
}  // namespace panpipe
