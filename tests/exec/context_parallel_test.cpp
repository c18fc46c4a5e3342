// Stages of ranks that share sequences compute what one process computes: losses and every gradient.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/context/block_attention.hpp"
#include "exec/engine/context/context_graph.hpp"
#include "exec/engine/context/sequence_share.hpp"
#include "tests/exec/pipeline_equality.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

constexpr ContextExchange kExchanges[] = {ContextExchange::Ring, ContextExchange::AllGather, ContextExchange::Ulysses};

std::string text_of(ContextExchange exchange) {
  return exchange == ContextExchange::Ring ? "ring" : exchange == ContextExchange::AllGather ? "all-gather" : "ulysses";
}

Trained together(const SharedModel& model, const Plan& plan, bool ignore_labels = false) {
  return train(*model.whole.graph, plan, &model.part, ignore_labels);
}

// 16 tokens: of four ranks each has two chunks of two.
TEST(ContextParallel, EqualsOneProcess) {
  for (const std::string model : {"gpt", "llama"}) {
    const Trained one = alone(model, 2);
    for (const ContextExchange exchange : kExchanges)
      for (const int degree : {2, 4}) {
        SCOPED_TRACE(model + " " + text_of(exchange) + " over " + std::to_string(degree));
        const SharedModel both = small_shared(model, degree, exchange);
        expect_equal(one, together(both, plan_of(both.part.graph, "gpipe", 1, 2)));
      }
  }
}

TEST(ContextParallel, EqualsOneProcessInsideAPipeline) {
  for (const ContextExchange exchange : kExchanges)
    for (const std::string model : {"gpt", "llama"}) {
      const Trained one = alone(model, 4);
      const SharedModel both = small_shared(model, 2, exchange);
      for (const std::string family : {"1f1b", "zb-h1", "zb-v"}) {
        SCOPED_TRACE(model + " " + text_of(exchange) + " " + family);
        expect_equal(one, together(both, plan_of(both.part.graph, family, 2, 4)));
      }
    }
}

// A forward and a backward whose steps take turns: both use the same group.
TEST(ContextParallel, EqualsOneProcessWhenWoven) {
  const Trained one = alone("llama", 8);
  for (const ContextExchange exchange : kExchanges) {
    SCOPED_TRACE(text_of(exchange));
    const SharedModel both = small_shared("llama", 2, exchange);
    expect_equal(one, together(both, plan_of(both.part.graph, "interleaved-1f1b", 2, 8, 1, {{"combined", "true"}})));
  }
}

TEST(ContextParallel, EqualsOneProcessWithTensorParallelRanks) {
  for (const ContextExchange exchange : kExchanges)
    for (const std::string model : {"gpt", "llama"})
      for (const bool sequence_parallel : {false, true}) {
        SCOPED_TRACE(model + " " + text_of(exchange) + (sequence_parallel ? ", the sequence cut too" : ""));
        const SharedModel both = small_shared(model, 2, exchange, 2, sequence_parallel);
        expect_equal(alone(model, 2), together(both, plan_of(both.part.graph, "1f1b", 2, 2)));
      }
}

TEST(ContextParallel, EqualsOneProcessWithReplicasAndRecompute) {
  const Trained one = alone("llama", 4);
  for (const ContextExchange exchange : kExchanges) {
    SCOPED_TRACE(text_of(exchange));
    const SharedModel both = small_shared("llama", 2, exchange);
    const OperatorGraph& graph = both.part.graph;
    expect_equal(one, together(both, plan_of(graph, "1f1b", 2, 2, 2)));
    for (const Recompute recompute : {Recompute::Full, Recompute::Selective})
      for (const std::string family : {"1f1b", "zb-h1"}) {
        SCOPED_TRACE(family + (recompute == Recompute::Full ? ", full" : ", selective"));
        expect_equal(one, together(both, plan_over(graph, make_schedule(family, 2, 4), 1, recompute)));
      }
  }
}

// A rank's mean counts by its share of the labels that count: here the ranks with the sequence's beginning have fewer.
TEST(ContextParallel, WeighsLossesByTheLabelsThatCount) {
  const SharedModel both = small_shared("gpt", 4, ContextExchange::Ring);
  expect_equal(alone("gpt", 4, true), together(both, plan_of(both.part.graph, "gpipe", 1, 4), true));
}

// Dropout of the ranks differs from one process, not from forward to backward.
TEST(ContextParallel, RecomputesTheSameDropout) {
  WorkloadRequest request = small_request("gpt");
  request.dropout = 0.3;
  for (const ContextExchange exchange : kExchanges) {
    SCOPED_TRACE(text_of(exchange));
    const SharedModel both =
        shared_model(request, {.degrees = {.micro = 2, .context = 2}, .precision = Precision::Fp32, .exchange = exchange});
    const Trained kept = together(both, plan_of(both.part.graph, "gpipe", 1, 2));
    EXPECT_GT(std::abs(kept.loss - alone("gpt", 2).loss), 1e-4);
    for (const Recompute recompute : {Recompute::Full, Recompute::Selective})
      expect_equal(kept, together(both, plan_over(both.part.graph, make_schedule("gpipe", 1, 2), 1, recompute)));
  }
}

// Of 12 tokens over three ranks: chunks of two, the first and the last, the second and the last but one ...
TEST(SequenceShare, IsTheFirstAndTheLastThatAreLeft) {
  const at::Tensor tokens = at::arange(12, at::kLong).reshape({1, 12});
  EXPECT_TRUE((SequenceShare{0, 3}.part(tokens, 1).equal(at::tensor({0, 1, 10, 11}, at::kLong).unsqueeze(0))));
  EXPECT_TRUE((SequenceShare{2, 3}.part(tokens, 1).equal(at::tensor({4, 5, 6, 7}, at::kLong).unsqueeze(0))));
  EXPECT_TRUE(in_order(by_ranks(tokens, 1, 3), 1, 3).equal(tokens));
  EXPECT_FALSE(by_ranks(tokens, 1, 3).equal(tokens));
}

// Ring and all-gather have an attention of their own: what it does not know is not left out in silence.
TEST(ContextParallel, RefusesArgumentsOfAttentionThatItDoesNotKnow) {
  const SharedModel both = small_shared("gpt", 2, ContextExchange::Ring);
  OperatorGraph part = both.part.graph;
  for (Operator& op : part.operators)
    if (row_of(op).role == OperatorRole::Attention) op.arguments[3] = TensorRef{part.inputs.front()};
  EXPECT_EQ(test::diagnostic_of([&] { context_graph(part, *both.whole.graph); }).message,
            "the attention of 'transformer.h.0.attn' over a divided sequence has no rule for its 'attn_mask'; run with "
            "context_exchange: ulysses, or with parallel.context 1");
}

// Softmax over the scores and one number more for each head, whose share goes to no value.
at::Tensor attention_with_sinks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& seen,
                                const at::Tensor& sinks) {
  const at::Tensor scores = at::matmul(query, key.repeat_interleave(2, 1).transpose(2, 3)) / std::sqrt(5.0);
  const at::Tensor hidden = scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  const at::Tensor column = sinks.view({1, -1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
  const at::Tensor shares = at::softmax(at::cat({hidden, column}, 3), 3).narrow(3, 0, scores.size(3));
  return at::matmul(shares, value.repeat_interleave(2, 1));
}

// Blocks of keys one after the other, against all at once through autograd.
TEST(BlockAttention, EqualsAttentionToAllKeysAtOnce) {
  constexpr std::int64_t kTokens = 12, kBlock = 4, kWindow = 6;
  const at::Tensor sinks = at::tensor({0.5, -1.0, 2.0, 0.0}, at::kDouble).requires_grad_(true);
  for (const AttentionForm& form :
       {AttentionForm{}, AttentionForm{.causal = true, .scale = 0.3}, AttentionForm{.causal = true, .window = kWindow},
        AttentionForm{.causal = true, .window = kWindow, .sinks = sinks.detach()}}) {
    SCOPED_TRACE(form.sinks.defined() ? "sinks" : form.causal ? (form.window > 0 ? "window" : "causal") : "all");
    const auto numbers = [](std::int64_t heads, double from) {
      return at::sin(at::arange(2 * heads * kTokens * 5, at::kDouble) * 0.7 + from).reshape({2, heads, kTokens, 5});
    };
    const at::Tensor query = numbers(4, 0).requires_grad_(true), key = numbers(2, 1).requires_grad_(true),
                     value = numbers(2, 2).requires_grad_(true), gradient = numbers(4, 3);
    const at::Tensor back = at::arange(kTokens).unsqueeze(1) - at::arange(kTokens).unsqueeze(0);
    at::Tensor seen = form.causal ? back.ge(0) : at::ones_like(back, at::kBool);
    if (form.window > 0) seen = seen.logical_and(back.lt(form.window));
    const at::Tensor expected = form.sinks.defined()
                                    ? attention_with_sinks(query, key, value, seen, sinks)
                                    : at::scaled_dot_product_attention(query, key, value, seen, 0, false, form.scale, true);
    expected.backward(gradient);

    const at::Tensor q = query.detach(), k = key.detach(), v = value.detach();
    const Tokens all{0, kTokens};
    Attended attended = attended_to_nothing(form, q, 5);
    const auto block = [](const at::Tensor& tensor, std::int64_t first) { return tensor.narrow(2, first, kBlock); };
    for (std::int64_t first = kTokens - kBlock; first >= 0; first -= kBlock)  // the first queries see nothing at first
      attend(form, q, all, block(k, first), block(v, first), {first, kBlock}, attended);
    EXPECT_LT((attended.output - expected.detach()).abs().max().item<double>(), 1e-12);
    const OperandGradients sums{at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)};
    const at::Tensor weight = (gradient * attended.output).sum(3);
    for (std::int64_t first = 0; first < kTokens; first += kBlock)
      attend_backward(form, q, all, block(k, first), block(v, first), {first, kBlock}, attended.log_sum, gradient, weight,
                      {sums.query, block(sums.key, first), block(sums.value, first)});
    EXPECT_LT((sums.query - query.grad()).abs().max().item<double>(), 1e-12);
    EXPECT_LT((sums.key - key.grad()).abs().max().item<double>(), 1e-12);
    EXPECT_LT((sums.value - value.grad()).abs().max().item<double>(), 1e-12);
    if (!form.sinks.defined()) continue;
    EXPECT_GT(sinks.grad().abs().min().item<double>(), 1e-3) << "sinks take part";
    EXPECT_LT((sinks_gradient(form, attended.log_sum, weight) - sinks.grad()).abs().max().item<double>(), 1e-12);
  }
}

}  // namespace
}  // namespace panpipe::exec
