// Attention of some queries to some keys of the same sequence, with the data for combining several of these: each row's logarithm
// of its sum of exponentials (online softmax, Milakov and Gimelshein, arXiv 1805.02867). Tensors are (sample, head, token,
// feature); there may be fewer key-value heads than heads. No autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// The settings of an attention operator.
struct AttentionForm {
  bool causal = false;
  std::optional<double> scale{};  // of the scores; default: 1 / sqrt(features)
  std::int64_t window = 0;        // tokens that a query sees, itself included; 0: all
  double cap = 0;                 // soft cap on scores, by tanh; 0: none
  at::Tensor slopes{};            // of linear biases, one per head; undefined: none
  at::Tensor sinks{};             // one score per head that every query sees in addition, without a value; undefined: none
  double dropout = 0;             // of the attention weights; the backward draws the same from `seed` and the first query and key
  std::uint64_t seed = 0;
};

// Of an attention operator. `by_head`: the values of a graph tensor with a number for each head.
AttentionForm attention_form(const Operator& op, const std::function<at::Tensor(int graph_tensor)>& by_head);

// The arguments that this attention knows; others are refused.
inline constexpr std::string_view kFormArguments[] = {"query",     "key",   "value",      "sinks",  "slopes", "dropout_p",
                                                      "is_causal", "scale", "enable_gqa", "window", "cap"};

// `count` tokens starting at `first`.
struct Tokens {
  std::int64_t first = 0, count = 0;
};

// True if any of these queries sees any of these keys.
bool any_visible(const AttentionForm& form, Tokens queries, Tokens keys);

// The queries' attention so far: (sample, head, token, feature) and (sample, head, token), at least in fp32. At first, that to
// the sinks alone.
struct Attended {
  at::Tensor output, log_sum;
};
Attended attended_to_nothing(const AttentionForm& form, const at::Tensor& query, std::int64_t features_of_values);

// Adds attention to these keys and values, in place.
void attend(const AttentionForm& form, const at::Tensor& query, Tokens queries, const at::Tensor& key, const at::Tensor& value,
            Tokens keys, Attended& so_far);

// The backward of attend(), once the queries have attended to all keys. Adds to the three gradients (at least fp32). `weight`:
// per row the output's gradient times the output, summed over features.
struct OperandGradients {
  at::Tensor query, key, value;
  at::Tensor sinks{};  // undefined: none
};
void attend_backward(const AttentionForm& form, const at::Tensor& query, Tokens queries, const at::Tensor& key,
                     const at::Tensor& value, Tokens keys, const at::Tensor& log_sum, const at::Tensor& output_gradient,
                     const at::Tensor& weight, const OperandGradients& sums);

// The gradient of the sinks: their share of each row times what a share without a value takes away.
at::Tensor sinks_gradient(const AttentionForm& form, const at::Tensor& log_sum, const at::Tensor& weight);

// Per row: the output's gradient times the output, summed over features, as attend_backward() wants it.
at::Tensor weight_of_rows(const at::Tensor& output_gradient, const at::Tensor& output);
// Zeros for the sum of a tensor's gradients: in fp32, or in fp64 for an fp64 one.
at::Tensor sums_like(const at::Tensor& tensor);

}  // namespace panpipe::exec
