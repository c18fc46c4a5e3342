// Layers with a state against their recurrences, token by token, in fp64: results, and gradients of every operand. Lengths that
// chunks do not divide, single tokens, and chunks longer than the sequence.
#include "exec/engine/stage/state_operators.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <vector>

namespace panpipe::exec {
namespace {

using Values = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Values&)>;

struct Sizes {
  std::int64_t batch, tokens, key_heads, heads, keys, values, chunk;
};
const std::vector<Sizes> kSizes = {
    {2, 12, 2, 4, 3, 5, 4}, {1, 13, 1, 3, 4, 2, 5}, {2, 1, 2, 2, 3, 3, 4}, {1, 7, 2, 2, 5, 4, 64}, {1, 130, 1, 2, 8, 8, 64}};

at::Tensor drawn(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

void expect_near(const at::Tensor& one, const at::Tensor& other, double tolerance = 1e-11) {
  ASSERT_EQ(one.sizes(), other.sizes());
  EXPECT_LT((one - other).abs().max().item<double>(), tolerance * std::max(1.0, other.abs().max().item<double>()));
}

// The same values and the same gradients of a sum with random factors.
void expect_equal(const Values& operands, const Function& made, const Function& wanted) {
  Values leaves[2];
  at::Tensor results[2];
  for (const int side : {0, 1}) {
    for (const at::Tensor& operand : operands) leaves[side].push_back(operand.detach().clone().requires_grad_());
    results[side] = (side == 0 ? made : wanted)(leaves[side]);
  }
  expect_near(results[0], results[1]);
  const at::Tensor factors = drawn(results[0].sizes());
  Values gradients[2];
  for (const int side : {0, 1}) gradients[side] = torch::autograd::grad({(results[side] * factors).sum()}, leaves[side]);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "the gradient of operand " << i);
    expect_near(gradients[0][i], gradients[1][i], 1e-10);
  }
}

// Each head of keys serves its neighbouring heads of values. Token t of (batch, tokens, heads, features).
at::Tensor at_token(const at::Tensor& x, std::int64_t heads, std::int64_t t) {
  return x.select(1, t).repeat_interleave(heads / x.size(2), 1);
}

// One token after the other: `update` changes the state (batch, heads, keys, values), the result is the state times the query.
at::Tensor recurrence(const at::Tensor& query, const at::Tensor& value, const Sizes& s,
                      const std::function<at::Tensor(const at::Tensor& state, std::int64_t t)>& update) {
  at::Tensor state = at::zeros({s.batch, s.heads, s.keys, s.values}, value.options());
  Values made;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    state = update(state, t);
    made.push_back((state * at_token(query, s.heads, t).unsqueeze(-1)).sum(-2));
  }
  return at::stack(made, 1);
}

Values queries_keys_values(const Sizes& s) {
  return {drawn({s.batch, s.tokens, s.key_heads, s.keys}), drawn({s.batch, s.tokens, s.key_heads, s.keys}),
          drawn({s.batch, s.tokens, s.heads, s.values})};
}

at::Tensor log_of_one_plus_exp(const at::Tensor& x) { return at::log1p(at::exp(x)); }

TEST(StateOperators, GatedDeltaRuleIsItsRecurrence) {
  at::manual_seed(1);
  for (const Sizes& s : kSizes)
    for (const bool by_feature : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.tokens << " tokens in chunks of " << s.chunk << (by_feature ? ", by feature" : ""));
      const std::int64_t decays = by_feature ? s.heads * s.keys : s.heads;
      Values operands = queries_keys_values(s);
      for (const at::Tensor& number :
           {drawn({s.batch, s.tokens, decays}), drawn({s.batch, s.tokens, s.heads}), drawn({decays}), drawn({s.heads})})
        operands.push_back(number);
      const Function made = [&](const Values& v) { return gated_delta_rule(v[0], v[1], v[2], s.chunk, v[3], v[4], v[5], v[6]); };
      const Function wanted = [&](const Values& v) {
        const auto unit = [](const at::Tensor& x) { return x / (x.pow(2).sum(-1, true) + 1e-6).sqrt(); };
        const at::Tensor key = unit(v[1]), strength = 1 / (1 + at::exp(-v[4]));
        const at::Tensor rate = log_of_one_plus_exp(v[3] + v[5]).reshape({s.batch, s.tokens, s.heads, -1});
        const at::Tensor kept = at::exp(-at::exp(v[6]).view({s.heads, 1}) * rate);
        return recurrence(
            unit(v[0]) / std::sqrt(static_cast<double>(s.keys)), v[2], s, [&](const at::Tensor& state, std::int64_t t) {
              const at::Tensor k = at_token(key, s.heads, t).unsqueeze(-1), left = state * kept.select(1, t).unsqueeze(-1);
              const at::Tensor missing = v[2].select(1, t) - (left * k).sum(-2);
              return left + k * (missing * strength.select(1, t).unsqueeze(-1)).unsqueeze(-2);
            });
      };
      expect_equal(operands, made, wanted);
    }
}

TEST(StateOperators, StateSpaceIsItsRecurrence) {
  at::manual_seed(2);
  for (const Sizes& s : kSizes)
    for (const double least : {0.0, 0.5}) {  // half of the steps are shorter than the second
      SCOPED_TRACE(testing::Message() << s.tokens << " tokens in chunks of " << s.chunk << ", steps from " << least);
      Values operands = queries_keys_values(s);
      for (const at::Tensor& number : {drawn({s.batch, s.tokens, s.heads}), drawn({s.heads}), drawn({s.heads}), drawn({s.heads})})
        operands.push_back(number);
      const Function made = [&](const Values& v) {
        return state_space(v[0], v[1], v[2], s.chunk, v[3], v[4], v[5], v[6], least);
      };
      const Function wanted = [&](const Values& v) {
        const at::Tensor step = at::clamp_min(log_of_one_plus_exp(v[3] + v[4]), least);
        const at::Tensor made_of_state = recurrence(v[0], v[2], s, [&](const at::Tensor& state, std::int64_t t) {
          const at::Tensor dt = step.select(1, t).view({s.batch, s.heads, 1, 1}), a = -at::exp(v[5]).view({s.heads, 1, 1});
          return state * at::exp(a * dt) + dt * at_token(v[1], s.heads, t).unsqueeze(-1) * v[2].select(1, t).unsqueeze(-2);
        });
        return made_of_state + v[6].view({s.heads, 1}) * v[2];
      };
      expect_equal(operands, made, wanted);
    }
}

// Two channels with states of two numbers, two tokens, written out: S = exp(a dt) S + dt x B, y = C S + D x.
TEST(StateOperators, SelectiveScanIsItsRecurrence) {
  at::manual_seed(6);
  const Values operands = {drawn({1, 2, 2}), drawn({1, 2, 2}), drawn({1, 2, 2}), drawn({1, 2, 2}), drawn({2, 2}), drawn({2})};
  const Function made = [](const Values& v) { return selective_scan(v[0], v[1], v[2], v[3], v[4], v[5]); };
  const Function wanted = [](const Values& v) {
    Values channels;
    for (int d = 0; d < 2; ++d) {
      const auto at_token = [d](const at::Tensor& x, int t) { return x.select(0, 0).select(0, t).select(0, d); };
      const auto dt = [&](int t) { return log_of_one_plus_exp(at_token(v[3], t)); };
      const auto change = [&](int t) { return dt(t) * at_token(v[2], t) * v[1].select(0, 0).select(0, t); };
      const at::Tensor first = change(0), second = at::exp(-at::exp(v[4].select(0, d)) * dt(1)) * first + change(1);
      const auto result = [&](const at::Tensor& state, int t) {
        return (v[0].select(0, 0).select(0, t) * state).sum() + v[5].select(0, d) * at_token(v[2], t);
      };
      channels.push_back(at::stack({result(first, 0), result(second, 1)}));
    }
    return at::stack(channels, 1).unsqueeze(0);
  };
  expect_equal(operands, made, wanted);
}

TEST(StateOperators, LightningAttentionIsItsRecurrence) {
  at::manual_seed(3);
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(testing::Message() << s.tokens << " tokens in chunks of " << s.chunk);
    Values operands = queries_keys_values(s);
    operands.push_back(drawn({s.heads}).abs());
    const Function made = [&](const Values& v) { return lightning_attention(v[0], v[1], v[2], s.chunk, v[3]); };
    const Function wanted = [&](const Values& v) {
      return recurrence(v[0], v[2], s, [&](const at::Tensor& state, std::int64_t t) {
        return state * at::exp(-v[3]).view({s.heads, 1, 1}) +
               at_token(v[1], s.heads, t).unsqueeze(-1) * v[2].select(1, t).unsqueeze(-2);
      });
    };
    expect_equal(operands, made, wanted);
  }
}

// Decays that leave nothing of a state, e^-1000 over a chunk, are no division of zero by zero.
TEST(StateOperators, StrongDecaysAreFinite) {
  at::manual_seed(4);
  const Sizes s{1, 40, 1, 2, 4, 4, 16};
  Values v = queries_keys_values(s);
  const at::Tensor step = at::full({1, 40, 2}, 60.0, at::kFloat).requires_grad_();
  const at::Tensor one = at::ones({2}, at::kFloat);
  for (at::Tensor& value : v) value = value.to(at::kFloat);
  for (const at::Tensor& made : {state_space(v[0], v[1], v[2], s.chunk, step, one, one, one, 0),
                                 gated_delta_rule(v[0], v[1], v[2], s.chunk, step, step, one, one)}) {
    EXPECT_TRUE(made.isfinite().all().item<bool>());
    EXPECT_TRUE(torch::autograd::grad({made.sum()}, {step})[0].isfinite().all().item<bool>());
  }
}

// Three taps w: token t has w2 x_t + w1 x_(t-1) + w0 x_(t-2) + b, with zeros in front of the first.
TEST(StateOperators, CausalConvolutionLooksBackOnly) {
  at::manual_seed(5);
  const Values operands = {drawn({2, 5, 3}), drawn({3, 1, 3}), drawn({3})};
  for (const bool silu : {false, true}) {
    const Function made = [&](const Values& v) { return causal_convolution(v[0], v[1], v[2], silu); };
    const Function wanted = [&](const Values& v) {
      Values tokens;
      for (std::int64_t t = 0; t < 5; ++t) {
        at::Tensor sum = v[2].expand({2, 3});
        for (std::int64_t back = 0; back <= std::min<std::int64_t>(t, 2); ++back)
          sum = sum + v[0].select(1, t - back) * v[1].select(2, 2 - back).select(1, 0);
        tokens.push_back(silu ? sum / (1 + at::exp(-sum)) : sum);
      }
      return at::stack(tokens, 1);
    };
    expect_equal(operands, made, wanted);
  }
}

TEST(StateOperators, ShiftedTokensEndWithWhatIsIgnored) {
  const at::Tensor labels = at::tensor({5, -100, 7, 8}, at::kLong).view({1, 4});
  const auto is = [](const at::Tensor& made, std::vector<std::int64_t> wanted) {
    EXPECT_TRUE(at::equal(made, at::tensor(wanted, at::kLong).view({1, 4}))) << made;
  };
  is(shift_tokens(labels, 1, -100), {-100, 7, 8, -100});
  is(shift_tokens(labels, 0, 0), {5, 0, 7, 8});
  is(shift_tokens(labels, 4, -100), {-100, -100, -100, -100});
  is(shift_tokens(labels, 9, 0), {0, 0, 0, 0});
}

}  // namespace
}  // namespace panpipe::exec
