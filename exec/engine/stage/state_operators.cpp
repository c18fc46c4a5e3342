#include "exec/engine/stage/state_operators.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace panpipe::exec {
namespace {

using Part = at::Tensor;             // Tensor is the graph's
constexpr double kLeastNorm = 1e-6;  // added to a squared length

Part wide(const Part& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

// (batch, tokens, heads or key heads, features) to (batch, heads, chunks, tokens of a chunk, features). The last chunk ends with
// zeros: such tokens change no state and lose nothing of it.
Part in_chunks(const Part& x, std::int64_t heads, std::int64_t chunk) {
  const std::int64_t tokens = x.size(1), count = (tokens + chunk - 1) / chunk;
  const Part by_head = wide(x.size(2) == heads ? x : x.repeat_interleave(heads / x.size(2), 2)).transpose(1, 2);
  return at::constant_pad_nd(by_head, {0, 0, 0, count * chunk - tokens}).reshape({x.size(0), heads, count, chunk, x.size(3)});
}

// Scores of each token's `left` with `right` of the tokens of its chunk up to itself, decayed by what lies between them. `sums`:
// of the logarithms of decays from the chunk's beginning on, one for all features or one for each.
Part decayed_scores(const Part& left, const Part& right, const Part& sums) {
  const std::int64_t chunk = left.size(-2);
  const Part later = at::ones({chunk, chunk}, left.options().dtype(at::kBool)).triu(1);
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  if (sums.size(-1) == 1) {
    const Part between = (sums - sums.transpose(-1, -2)).masked_fill(later, kNothing).exp();
    return at::matmul(left, right.transpose(-1, -2)) * between;
  }
  const Part between = (sums.unsqueeze(-2) - sums.unsqueeze(-3)).masked_fill(later.unsqueeze(-1), kNothing).exp();
  return (left.unsqueeze(-2) * right.unsqueeze(-3) * between).sum(-1);
}

// S_t = exp(g_t) S_(t-1) + k_t (x) v_t, result S_t^T q_t, all in chunks. `reading`: the part of a value that the state in front
// of its chunk takes away is that state, transposed, times the token's row of it.
Part pass_state(const Part& query, const Part& key, const Part& value, const Part& sums, const Part& reading = {}) {
  const Part inside = decayed_scores(query, key, sums), end = sums.narrow(-2, sums.size(-2) - 1, 1);
  const Part from_state = query * sums.exp(), to_state = (key * (end - sums).exp()).transpose(-1, -2);
  const Part kept = end.exp().transpose(-1, -2);
  Part state = at::zeros({key.size(0), key.size(1), key.size(4), value.size(4)}, value.options());
  std::vector<Part> made;
  for (std::int64_t i = 0; i < value.size(2); ++i) {
    Part own = value.select(2, i);
    if (reading.defined()) own = own - at::matmul(reading.select(2, i), state);
    made.push_back(at::matmul(from_state.select(2, i), state) + at::matmul(inside.select(2, i), own));
    state = state * kept.select(2, i) + at::matmul(to_state.select(2, i), own);
  }
  return at::stack(made, 2);
}

// From chunks to (batch, tokens, heads, features).
Part in_tokens(const Part& made, std::int64_t tokens) { return made.flatten(2, 3).narrow(2, 0, tokens).transpose(1, 2); }

Part of_length_one(const Part& x) { return x * (x * x).sum(-1, true).add(kLeastNorm).rsqrt(); }

std::int64_t tokens_of_chunk(const Part& value, std::int64_t chunk) { return std::min(chunk, value.size(1)); }

}  // namespace

at::Tensor causal_convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              bool silu) {
  const Part before = at::constant_pad_nd(input.transpose(1, 2), {weight.size(2) - 1, 0});
  const Part made =
      at::conv1d(before, weight, bias, at::IntArrayRef({1}), at::IntArrayRef({0}), at::IntArrayRef({1}), weight.size(0))
          .transpose(1, 2);
  return silu ? at::silu(made) : made;
}

at::Tensor gated_delta_rule(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t chunk,
                            const at::Tensor& decay, const at::Tensor& strength, const at::Tensor& dt_bias,
                            const at::Tensor& A_log) {
  chunk = tokens_of_chunk(value, chunk);
  const std::int64_t heads = value.size(2), tokens = value.size(1);
  const Part rate = at::softplus(wide(decay) + wide(dt_bias)).view({value.size(0), tokens, heads, -1});
  const Part sums = in_chunks(-wide(A_log).exp().view({heads, 1}) * rate, heads, chunk).cumsum(-2);
  const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
  const Part q = in_chunks(of_length_one(wide(query)) * scale, heads, chunk),
             k = in_chunks(of_length_one(wide(key)), heads, chunk);
  const Part weights = in_chunks(wide(strength).sigmoid().unsqueeze(-1), heads, chunk);
  const Part v = in_chunks(value, heads, chunk) * weights, weighted = k * weights;
  // Inside a chunk each value depends on those before it: a triangle of ones on its diagonal and of scores (section 3.3).
  const Part triangle = decayed_scores(weighted, k, sums);
  const Part sides = at::cat({v, weighted * sums.exp()}, -1);
  const Part solved = at::linalg_solve_triangular(triangle, sides, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  const std::int64_t width = v.size(-1);
  const Part made = pass_state(q, k, solved.narrow(-1, 0, width), sums, solved.narrow(-1, width, k.size(-1)));
  return in_tokens(made, tokens).to(value.scalar_type()).contiguous();
}

at::Tensor state_space(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t chunk,
                       const at::Tensor& step, const at::Tensor& dt_bias, const at::Tensor& A_log, const at::Tensor& D,
                       double least_step) {
  chunk = tokens_of_chunk(value, chunk);
  const std::int64_t heads = value.size(2), tokens = value.size(1);
  const Part free_step = at::softplus(wide(step) + wide(dt_bias)).unsqueeze(-1);
  const Part dt = least_step > 0 ? free_step.clamp_min(least_step) : free_step, x = wide(value);
  const Part sums = in_chunks(-wide(A_log).exp().view({heads, 1}) * dt, heads, chunk).cumsum(-2);
  const Part made =
      pass_state(in_chunks(query, heads, chunk), in_chunks(key, heads, chunk), in_chunks(x * dt, heads, chunk), sums);
  return (in_tokens(made, tokens) + wide(D).view({heads, 1}) * x).to(value.scalar_type()).contiguous();
}

at::Tensor selective_scan(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& step,
                          const at::Tensor& A_log, const at::Tensor& D) {
  const Part x = wide(value), dt = at::softplus(wide(step)), decay = -wide(A_log).exp();
  const Part change = dt * x, into = wide(key).unsqueeze(2), out = wide(query).unsqueeze(-1);
  Part state = at::zeros({x.size(0), x.size(2), key.size(2)}, x.options());
  std::vector<Part> made;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    state = (dt.select(1, t).unsqueeze(-1) * decay).exp() * state + change.select(1, t).unsqueeze(-1) * into.select(1, t);
    made.push_back(at::matmul(state, out.select(1, t)).squeeze(-1));
  }
  return (at::stack(made, 1) + wide(D) * x).to(value.scalar_type());
}

at::Tensor lightning_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t chunk,
                               const at::Tensor& slopes) {
  chunk = tokens_of_chunk(value, chunk);
  const std::int64_t heads = value.size(2), tokens = value.size(1);
  const Part decay = (-wide(slopes)).view({1, 1, heads, 1}).expand({value.size(0), tokens, heads, 1});
  const Part sums = in_chunks(decay, heads, chunk).cumsum(-2);
  const Part made =
      pass_state(in_chunks(query, heads, chunk), in_chunks(key, heads, chunk), in_chunks(value, heads, chunk), sums);
  return in_tokens(made, tokens).to(value.scalar_type()).contiguous();
}

at::Tensor shift_tokens(const at::Tensor& self, std::int64_t by, std::int64_t behind) {
  const std::int64_t left = std::max<std::int64_t>(self.size(1) - by, 0);
  const Part moved = at::constant_pad_nd(self.narrow(1, self.size(1) - left, left), {0, self.size(1) - left}, behind);
  return moved.masked_fill(moved.lt(0), behind);
}

void define_state_operators(torch::Library& library) {
  library.def("causal_convolution(Tensor input, Tensor weight, Tensor? bias, bool silu) -> Tensor", causal_convolution);
  library.def(
      "gated_delta_rule(Tensor query, Tensor key, Tensor value, int chunk, Tensor decay, Tensor strength, Tensor dt_bias, Tensor "
      "A_log) -> Tensor",
      gated_delta_rule);
  library.def(
      "state_space(Tensor query, Tensor key, Tensor value, int chunk, Tensor step, Tensor dt_bias, Tensor A_log, Tensor D, float "
      "least_step) -> Tensor",
      state_space);
  library.def("selective_scan(Tensor query, Tensor key, Tensor value, Tensor step, Tensor A_log, Tensor D) -> Tensor",
              selective_scan);
  library.def("lightning_attention(Tensor query, Tensor key, Tensor value, int chunk, Tensor slopes) -> Tensor",
              lightning_attention);
  library.def("shift_tokens(Tensor self, int by, int behind) -> Tensor", shift_tokens);
}

}  // namespace panpipe::exec
