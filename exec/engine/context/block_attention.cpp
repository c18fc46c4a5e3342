#include "exec/engine/context/block_attention.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>

#include "costmodel/workload/attention_operator.hpp"
#include "exec/engine/mixed_bits.hpp"

namespace panpipe::exec {
namespace {

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

at::ScalarType type_of_sums(at::ScalarType operands) { return operands == at::kDouble ? at::kDouble : at::kFloat; }

// Do all of these queries see all of these keys?
bool all_seen(const AttentionForm& form, Tokens queries, Tokens keys) {
  const bool behind = !form.causal || keys.first + keys.count - 1 <= queries.first;
  return behind && (form.window == 0 || queries.first + queries.count - 1 - keys.first < form.window);
}

// (query, key): how far the key lies back.
at::Tensor unseen(const AttentionForm& form, Tokens queries, Tokens keys, at::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kLong).device(device);
  const at::Tensor distance = at::arange(queries.first, queries.first + queries.count, options).unsqueeze(1) -
                              at::arange(keys.first, keys.first + keys.count, options).unsqueeze(0);
  at::Tensor hidden = form.causal ? distance.lt(0) : at::zeros_like(distance, options.dtype(at::kBool));
  return form.window > 0 ? hidden.logical_or(distance.ge(form.window)) : hidden;
}

// Heads that share a key: (sample, key head, heads of it x token, feature), so that a product serves all of them.
at::Tensor by_key_head(const at::Tensor& of_heads, std::int64_t key_heads) {
  const auto sizes = of_heads.sizes();
  return of_heads.reshape({sizes[0], key_heads, sizes[1] / key_heads * sizes[2], sizes[3]});
}

// (sample, head, query, key) in fp32 at least. `slope`: what the cap's tanh multiplies gradients with; undefined without a cap.
struct Scores {
  at::Tensor values, slope;
};

Scores scores_of(const AttentionForm& form, const at::Tensor& query, Tokens queries, const at::Tensor& key, Tokens keys) {
  const double scale = form.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  const at::ScalarType type = type_of_sums(query.scalar_type());
  at::Tensor values = at::matmul(by_key_head(query, key.size(1)), key.transpose(2, 3)).to(type).mul(scale);
  values = values.view({query.size(0), query.size(1), query.size(2), key.size(2)});
  Scores scores;
  if (form.cap > 0) {
    const at::Tensor bent = at::tanh(values / form.cap);
    scores.slope = 1 - bent * bent;
    values = bent * form.cap;
  }
  if (form.slopes.defined())
    values =
        values + form.slopes.to(type).view({1, -1, 1, 1}) * at::arange(keys.first, keys.first + keys.count, values.options());
  if (!all_seen(form, queries, keys)) values = values.masked_fill(unseen(form, queries, keys, query.device()), kUnseen);
  scores.values = std::move(values);
  return scores;
}

// The factors of the shares; undefined without dropout.
at::Tensor kept_shares(const AttentionForm& form, Tokens queries, Tokens keys, const at::Tensor& shares) {
  if (form.dropout <= 0) return {};
  const std::uint64_t seed = mixed_bits(
      form.seed ^ mixed_bits(static_cast<std::uint64_t>(queries.first) ^ mixed_bits(static_cast<std::uint64_t>(keys.first))));
  at::Generator generator =
      shares.is_cpu() ? at::detail::createCPUGenerator(seed) : at::globalContext().defaultGenerator(shares.device()).clone();
  generator.set_current_seed(seed);
  return at::empty_like(shares).bernoulli_(1 - form.dropout, generator).div_(1 - form.dropout);
}

// Rows that see nothing have a sum of 0: as if it were 1, so that nothing becomes nothing and not a number.
at::Tensor finite(const at::Tensor& log_sum) { return log_sum.masked_fill(log_sum.eq(kUnseen), 0); }

}  // namespace

AttentionForm attention_form(const Operator& op, const std::function<at::Tensor(int)>& by_head) {
  const AttentionSettings settings = attention_settings(op);
  return {.causal = settings.causal,
          .scale = settings.scale,
          .window = settings.window,
          .cap = settings.cap,
          .slopes = settings.slopes < 0 ? at::Tensor() : by_head(settings.slopes),
          .sinks = settings.sinks < 0 ? at::Tensor() : by_head(settings.sinks),
          .dropout = settings.dropout};
}

bool any_visible(const AttentionForm& form, Tokens queries, Tokens keys) {
  if (form.causal && keys.first > queries.first + queries.count - 1) return false;
  return form.window == 0 || queries.first - (keys.first + keys.count - 1) < form.window;
}

// A sink is one more exponential in every row's sum: sums that begin with it need nothing else.
Attended attended_to_nothing(const AttentionForm& form, const at::Tensor& query, std::int64_t features) {
  const at::TensorOptions options = query.options().dtype(type_of_sums(query.scalar_type()));
  const std::int64_t samples = query.size(0), heads = query.size(1), tokens = query.size(2);
  at::Tensor log_sum = at::full({samples, heads, tokens}, kUnseen, options);
  if (form.sinks.defined()) log_sum.copy_(form.sinks.view({1, -1, 1}));
  return {at::zeros({samples, heads, tokens, features}, options), std::move(log_sum)};
}

void attend(const AttentionForm& form, const at::Tensor& query, Tokens queries, const at::Tensor& key, const at::Tensor& value,
            Tokens keys, Attended& so_far) {
  const at::Tensor scores = scores_of(form, query, queries, key, keys).values;
  const at::Tensor log_sum = at::logsumexp(scores, 3), both = at::logaddexp(so_far.log_sum, log_sum), base = finite(both);
  at::Tensor shares = (scores - base.unsqueeze(3)).exp_();
  if (const at::Tensor left = kept_shares(form, queries, keys, shares); left.defined()) shares.mul_(left);
  const at::Tensor added =
      at::matmul(by_key_head(shares.to(value.scalar_type()), key.size(1)), value).to(so_far.output.scalar_type());
  so_far.output.mul_((so_far.log_sum - base).exp().unsqueeze(3)).add_(added.view(so_far.output.sizes()));
  so_far.log_sum.copy_(both);
}

void attend_backward(const AttentionForm& form, const at::Tensor& query, Tokens queries, const at::Tensor& key,
                     const at::Tensor& value, Tokens keys, const at::Tensor& log_sum, const at::Tensor& output_gradient,
                     const at::Tensor& weight, const OperandGradients& sums) {
  const std::int64_t key_heads = key.size(1);
  const double scale = form.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  const Scores scores = scores_of(form, query, queries, key, keys);
  const at::Tensor shares = (scores.values - finite(log_sum).unsqueeze(3)).exp();
  const at::Tensor left = kept_shares(form, queries, keys, shares), arrived = by_key_head(output_gradient, key_heads);
  const at::Tensor used = left.defined() ? shares * left : shares;
  sums.value.add_(at::matmul(by_key_head(used.to(value.scalar_type()), key_heads).transpose(2, 3), arrived));
  at::Tensor of_scores = at::matmul(arrived, value.transpose(2, 3)).to(shares.scalar_type()).view(shares.sizes());
  if (left.defined()) of_scores = of_scores * left;
  of_scores = (of_scores - weight.unsqueeze(3)).mul_(shares);
  if (scores.slope.defined()) of_scores = of_scores * scores.slope;
  of_scores = by_key_head(of_scores.mul(scale).to(query.scalar_type()), key_heads);
  sums.query.add_(at::matmul(of_scores, key).view(query.sizes()));
  sums.key.add_(at::matmul(of_scores.transpose(2, 3), by_key_head(query, key_heads)));
}

at::Tensor sinks_gradient(const AttentionForm& form, const at::Tensor& log_sum, const at::Tensor& weight) {
  const at::Tensor shares = (form.sinks.to(log_sum.scalar_type()).view({1, -1, 1}) - log_sum).exp();
  return (shares * weight).sum(at::IntArrayRef({0, 2})).neg().to(form.sinks.scalar_type());
}

at::Tensor weight_of_rows(const at::Tensor& output_gradient, const at::Tensor& output) {
  const at::ScalarType type = type_of_sums(output.scalar_type());
  return (output_gradient.to(type) * output.to(type)).sum(3);
}

at::Tensor sums_like(const at::Tensor& tensor) {
  return at::zeros(tensor.sizes(), tensor.options().dtype(type_of_sums(tensor.scalar_type())));
}

}  // namespace panpipe::exec
