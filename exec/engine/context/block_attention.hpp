// Attention of some queries to some keys of the same sequence, with what is needed to put several of these together: each row's
// logarithm of its sum of exponentials (online softmax, Milakov and Gimelshein, arXiv 1805.02867). Tensors are (sample, head,
// token, feature); there may be fewer key-value heads than heads. No autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace panpipe::exec {

// What an attention operator says besides its operands.
struct AttentionForm {
  bool causal = false;
  std::optional<double> scale{};  // of the scores; else 1 / sqrt(features)
  std::int64_t window = 0;        // tokens that a query sees back, itself among them; 0: all
  double cap = 0;                 // of the scores, by tanh; 0: none
  at::Tensor slopes{};            // of linear biases, one per head; undefined: none
};

// `count` tokens from `first` on.
struct Tokens {
  std::int64_t first = 0, count = 0;
};

// Does any of these queries see any of these keys?
bool meet(const AttentionForm& form, Tokens queries, Tokens keys);

// What the queries have attended to so far: (sample, head, token, feature) and (sample, head, token), in fp32 at least.
struct Attended {
  at::Tensor output, log_sum;
};
Attended attended_to_nothing(const at::Tensor& query, std::int64_t features_of_values);

// Adds these keys and values to what the queries have attended to, in place.
void attend(const AttentionForm& form, const at::Tensor& query, Tokens queries, const at::Tensor& key, const at::Tensor& value,
            Tokens keys, Attended& so_far);

// The way back through attend(), once the queries have attended to everything: adds to the three gradients (fp32 at least).
// `weight`: per row the output's gradient times the output, summed over features.
struct OperandGradients {
  at::Tensor query, key, value;
};
void attend_backward(const AttentionForm& form, const at::Tensor& query, Tokens queries, const at::Tensor& key,
                     const at::Tensor& value, Tokens keys, const at::Tensor& log_sum, const at::Tensor& output_gradient,
                     const at::Tensor& weight, const OperandGradients& sums);

// fp32, or fp64 where the operands are.
at::ScalarType type_of_sums(at::ScalarType operands);

}  // namespace panpipe::exec
