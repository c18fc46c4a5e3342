// Layers with a state of fixed size, chunk by chunk, composed of ATen's operators, so that autograd knows their derivatives.
//
// query, key: (batch, tokens, key heads, N); value: (batch, tokens, heads, P), with neighbouring heads for each key head. Results
// have the value's shape and type. They are computed in fp32, or in fp64 if the values are. Tokens need not be a multiple of
// `chunk`, which changes rounding alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace torch {
class Library;
}

namespace panpipe::exec {

// A depthwise convolution over each token and those before it, and its SiLU if asked for. input (batch, tokens, channels), weight
// (channels, 1, kernel), bias (channels).
at::Tensor causal_convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              bool silu);

// Gated DeltaNet (Yang, Kautz, Hatamizadeh, arXiv 2412.06464): S_t = exp(g_t) S_(t-1) + k_t (x) strength_t (v_t - exp(g_t)
// S_(t-1)^T k_t), result S_t^T q_t, with queries and keys of length 1, queries scaled by 1 over the square root of N, strengths
// behind a sigmoid, and g = -exp(A_log) softplus(decay + dt_bias). strength: (batch, tokens, heads); decay: likewise, or heads x
// N last, a decay for each feature of a key (Kimi Delta Attention, arXiv 2510.26692); dt_bias as long as its last dimension;
// A_log a number a head.
at::Tensor gated_delta_rule(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t chunk,
                            const at::Tensor& decay, const at::Tensor& strength, const at::Tensor& dt_bias,
                            const at::Tensor& A_log);

// Mamba 2 (Dao, Gu, arXiv 2405.21060): S_t = exp(-exp(A_log) dt_t) S_(t-1) + dt_t k_t (x) v_t, result S_t^T q_t + D v_t, with dt
// = softplus(step + dt_bias), at least `least_step`. Its B are the keys, its C the queries, its groups the key heads. step:
// (batch, tokens, heads); dt_bias, A_log, D: a number a head.
at::Tensor state_space(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t chunk,
                       const at::Tensor& step, const at::Tensor& dt_bias, const at::Tensor& A_log, const at::Tensor& D,
                       double least_step);

// Mamba 1 (Gu, Dao, arXiv 2312.00752): each channel d has a state of N numbers, S_t = exp(-exp(A_log_d) dt_td) S_(t-1) + dt_td
// x_td B_t, result C_t S_t + D_d x_td, with dt = softplus(step). B are the keys, C the queries, (batch, tokens, N), the same for
// all channels; value and step: (batch, tokens, channels); A_log: (channels, N); D a number a channel. Token by token.
at::Tensor selective_scan(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& step,
                          const at::Tensor& A_log, const at::Tensor& D);

// Lightning attention (Qin et al., arXiv 2401.04658): S_t = exp(-slope) S_(t-1) + k_t (x) v_t, result S_t^T q_t. slopes: a number
// a head.
at::Tensor lightning_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t chunk,
                               const at::Tensor& slopes);

// Token numbers (batch, tokens) moved to the front by so many; `behind` stands where none are left, and for negative numbers,
// which mark labels that do not count.
at::Tensor shift_tokens(const at::Tensor& self, std::int64_t by, std::int64_t behind);

void define_state_operators(torch::Library& library);

}  // namespace panpipe::exec
