#include "exec/engine/stage/own_operators.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <vector>

#include "exec/engine/stage/state_operators.hpp"

namespace panpipe::exec {
namespace {

using Value = at::Tensor;  // Tensor is the graph's
using OptionalValue = std::optional<Value>;

// Which keys a query looks at: none behind it, none `window` or more before it. The last query stands at the last key: the
// queries of a slice of a sequence come with the keys of the slices before it, too.
Value visible(const Value& query, const Value& key, bool causal, std::int64_t window) {
  const auto options = query.options().dtype(at::kLong);
  const std::int64_t first = key.size(2) - query.size(2);
  const Value distance = at::arange(first, key.size(2), options).unsqueeze(1) - at::arange(key.size(2), options).unsqueeze(0);
  Value seen = causal ? distance.ge(0) : at::ones_like(distance, query.options().dtype(at::kBool));
  return window > 0 ? seen.logical_and(distance.lt(window)) : seen;
}

// query (batch, heads, tokens, features); `sinks` and `slopes` a number a head. The softmax is taken in fp32.
Value attention(const Value& query, const Value& key, const Value& value, const OptionalValue& sinks, const OptionalValue& slopes,
                double dropout_p, bool causal, std::optional<double> scale, bool grouped, std::int64_t window, double cap) {
  const Value seen = visible(query, key, causal, window);
  if (!sinks && !slopes && cap <= 0)
    return at::scaled_dot_product_attention(query, key, value, seen, dropout_p, false, scale, grouped);
  const std::int64_t group = query.size(1) / key.size(1);
  const Value keys = group > 1 ? key.repeat_interleave(group, 1) : key;
  const Value values = group > 1 ? value.repeat_interleave(group, 1) : value;
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  Value scores = at::matmul(query, keys.transpose(2, 3)).to(at::kFloat) * factor;
  if (cap > 0) scores = at::tanh(scores / cap) * cap;
  if (slopes) {
    const Value places = at::arange(key.size(2), scores.options());
    scores = scores + slopes->to(at::kFloat).view({1, -1, 1, 1}) * places;
  }
  scores = scores.masked_fill(seen.logical_not(), -std::numeric_limits<float>::infinity());
  Value shares;
  if (sinks) {
    const Value column = sinks->to(at::kFloat).view({1, -1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
    shares = at::softmax(at::cat({scores, column}, 3), 3).narrow(3, 0, scores.size(3));
  } else {
    shares = at::softmax(scores, 3);
  }
  shares = shares.to(query.scalar_type());
  if (dropout_p > 0) shares = at::dropout(shares, dropout_p, true);
  return at::matmul(shares, values);
}

// DeepSeek-V3.2 (arXiv 2512.02556, equation 1): query (batch, tokens, heads x features), key (batch, tokens, features), weights
// (batch, tokens, heads). The `count` keys up to each query with the largest sums over heads of weighted, rectified scores,
// (batch, tokens, count). A query with fewer keys before it also names later ones, which its attention does not see.
Value choose_keys(const Value& query, const Value& key, const Value& weights, std::int64_t heads, std::int64_t count) {
  const Value queries = query.detach().to(at::kFloat).unflatten(2, {heads, -1});
  const Value keys = key.detach().to(at::kFloat).transpose(1, 2), weighted = weights.detach().to(at::kFloat);
  Value sum = at::zeros({query.size(0), query.size(1), key.size(1)}, queries.options());
  for (std::int64_t head = 0; head < heads; ++head)
    sum = sum + weighted.select(2, head).unsqueeze(-1) * at::relu(at::matmul(queries.select(2, head), keys));
  const Value later = at::ones({query.size(1), key.size(1)}, query.options().dtype(at::kBool)).triu(1);
  return std::get<1>(at::topk(sum.masked_fill(later, -std::numeric_limits<float>::infinity()), count, 2)).to(at::kInt);
}

// Each query attends to those of its chosen keys that are not behind it. `window`, the number of them, is for predictions.
Value sparse_attention(const Value& query, const Value& key, const Value& value, const Value& chosen, double dropout_p,
                       bool causal, std::optional<double> scale, bool grouped, std::int64_t /*window*/) {
  const Value none = at::zeros({query.size(0), query.size(2), key.size(2)}, query.options().dtype(at::kBool));
  const Value seen = none.scatter(2, chosen.to(at::kLong), true).logical_and(visible(query, key, causal, 0)).unsqueeze(1);
  return at::scaled_dot_product_attention(query, key, value, seen, dropout_p, false, scale, grouped);
}

// Scales by 1 + weight. In two bytes that sum is coarser than the weight itself, so the weight's share is added apart.
Value zero_centered_rms_norm(const Value& input, at::IntArrayRef normalized_shape, const Value& weight, double eps) {
  if (input.element_size() > 2) return at::rms_norm(input, normalized_shape, weight + 1, eps);
  const Value normal = at::rms_norm(input, normalized_shape, {}, eps);
  return at::addcmul(normal, normal, weight.to(normal.scalar_type()));
}

// GPT-OSS's experts (arXiv 2508.10925, section 2.2): a gate that ends at the limit, times its sigmoid.
Value clamped_silu(const Value& self, double limit, double slope) {
  const Value gate = self.clamp_max(limit);
  return gate * at::sigmoid(gate * slope);
}
Value clamped_product(const Value& self, const Value& other, double limit) { return self * (other.clamp(-limit, limit) + 1); }

// logits (rows, experts). The best `per_token` experts of every row by score, plus the correction where there is one, and their
// weights, which do not contain it.
std::tuple<Value, Value> route(const Value& logits, const OptionalValue& correction, std::int64_t per_token, bool sigmoid,
                               bool normalized, double scale) {
  const Value wide = logits.to(at::kFloat);
  const Value scores = sigmoid ? at::sigmoid(wide) : at::softmax(wide, 1);
  const Value judged = correction ? scores.detach() + *correction : scores.detach();
  const Value chosen = std::get<1>(at::topk(judged, per_token, 1));
  Value weights = scores.gather(1, chosen);
  if (normalized) weights = weights / weights.sum(1, true);
  return {(weights * scale).to(logits.scalar_type()), chosen};
}

// Positions of (row, choice) pairs sorted by expert, in the order of the rows within an expert.
Value by_expert(const Value& chosen) { return at::argsort(chosen.flatten(), /*stable=*/true, 0, false); }

Value dispatch(const Value& rows, const Value& chosen) {
  return rows.index_select(0, at::floor_divide(by_expert(chosen), chosen.size(1)));
}

// Rows in blocks of (rank, expert), `counts` of each, to blocks of (expert, rank), or back.
Value regroup(const Value& rows, const Value& counts, bool back) {
  const Value sizes = counts.flatten();
  const Value first = (sizes.cumsum(0) - sizes).view(counts.sizes());  // of each block
  const Value sizes_by_expert = counts.t().flatten();
  const Value first_by_expert = first.t().flatten();
  // Place i of the new order: the first of its block, and how far it is from the new first of its block.
  const Value new_first = sizes_by_expert.cumsum(0) - sizes_by_expert;
  const Value order = at::arange(rows.size(0), sizes.options()) +
                      (first_by_expert - new_first).repeat_interleave(sizes_by_expert, std::nullopt, rows.size(0));
  return rows.index_select(0, (back ? order.argsort() : order).to(rows.device()));
}

// Rows sorted by expert; weight (experts, out, in), or (experts, in, out) transposed. `arrived`: (ranks, experts), where rows
// came from several ranks; else these are the rows of `chosen`.
Value grouped_linear(const Value& rows, const Value& chosen, const Value& weight, const OptionalValue& bias, bool transposed,
                     double share, const OptionalValue& arrived) {
  const Value counts = (arrived ? arrived->sum(0) : at::bincount(chosen.flatten(), {}, weight.size(0))).to(at::kCPU);
  const auto* count = counts.const_data_ptr<std::int64_t>();
  std::vector<Value> made;
  std::int64_t first = 0;
  for (std::int64_t expert = 0; expert < weight.size(0); ++expert) {
    const Value matrix = transposed ? weight.select(0, expert).t() : weight.select(0, expert);
    Value part = at::linear(rows.narrow(0, first, count[expert]), matrix);
    if (bias) part = part + bias->select(0, expert) * share;
    made.push_back(std::move(part));
    first += count[expert];
  }
  return at::cat(made, 0);
}

Value combine(const Value& rows, const Value& weights, const Value& chosen) {
  const Value order = by_expert(chosen);
  const Value weighted = rows * weights.flatten().index_select(0, order).unsqueeze(1);
  const Value sum = at::zeros({chosen.size(0), rows.size(1)}, rows.options());
  return sum.index_add(0, at::floor_divide(order, chosen.size(1)), weighted);
}

// Residual streams side by side (AltUp) are neighbours, (batch, tokens, count x hidden); the first is the one that layers
// compute. (batch, tokens, count, hidden)
Value by_stream(const Value& streams, std::int64_t count) { return streams.unflatten(2, {count, -1}); }

// Each stream, and what it takes of all: `weights` (batch, tokens, count x count), a row for each stream.
Value mix_streams(const Value& streams, const Value& weights) {
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(weights.size(2))));
  const Value parts = by_stream(streams, side), rows = weights.unflatten(2, {side, side});
  return (at::matmul(rows, parts) + parts).flatten(2);
}

// Each stream plus its share, around 1, of what the first was missed by.
Value correct_streams(const Value& streams, const Value& made, const Value& shares) {
  const Value parts = by_stream(streams, shares.size(2)), missed = made - parts.select(2, 0);
  return (parts + missed.unsqueeze(2) * (shares + 1).unsqueeze(3)).flatten(2);
}

// All streams but the first, plus x.
Value add_to_later_streams(const Value& streams, const Value& x) {
  const std::int64_t hidden = x.size(2), count = streams.size(2) / hidden;
  const Value later = by_stream(streams.narrow(2, hidden, (count - 1) * hidden), count - 1) + x.unsqueeze(2);
  return at::cat({streams.narrow(2, 0, hidden), later.flatten(2)}, 2);
}

// A token's features scaled to the root mean square of another's.
Value like_magnitude(const Value& self, const Value& other) {
  const Value wanted = other.square().mean(-1, true).sqrt();
  return self * wanted / self.square().mean(-1, true).clamp_min(1e-5).sqrt();
}

// What exceeds the mean of a token's gates by so many deviations; the others are 0.
Value sparse_gate(const Value& self, double deviations) {
  const Value edge = self.mean(-1, true) + self.std(-1, /*unbiased=*/false, /*keepdim=*/true) * deviations;
  return at::relu(self - edge);
}

}  // namespace

void register_own_operators() {
  static const torch::Library library = [] {
    torch::Library made(torch::Library::DEF, "panpipe_nn", std::nullopt, __FILE__, __LINE__);
    made.def(
        "attention(Tensor query, Tensor key, Tensor value, Tensor? sinks, Tensor? slopes, float dropout_p, bool is_causal, "
        "float? scale, bool enable_gqa, int window, float cap) -> Tensor",
        attention);
    made.def("choose_keys(Tensor query, Tensor key, Tensor weights, int heads, int count) -> Tensor", choose_keys);
    made.def(
        "sparse_attention(Tensor query, Tensor key, Tensor value, Tensor chosen, float dropout_p, bool is_causal, float? scale, "
        "bool enable_gqa, int window) -> Tensor",
        sparse_attention);
    made.def("zero_centered_rms_norm(Tensor input, int[] normalized_shape, Tensor weight, float eps) -> Tensor",
             zero_centered_rms_norm);
    made.def("clamped_silu(Tensor self, float limit, float slope) -> Tensor", clamped_silu);
    made.def("clamped_product(Tensor self, Tensor other, float limit) -> Tensor", clamped_product);
    made.def(
        "route(Tensor logits, Tensor? correction, int per_token, bool sigmoid, bool normalized, float scale) -> (Tensor, Tensor)",
        route);
    made.def("dispatch(Tensor rows, Tensor chosen) -> Tensor", dispatch);
    made.def(
        "grouped_linear(Tensor rows, Tensor chosen, Tensor weight, Tensor? bias, bool transposed, float share, "
        "Tensor? arrived=None) -> Tensor",
        grouped_linear);
    made.def("regroup(Tensor rows, Tensor counts, bool back) -> Tensor", regroup);
    made.def("combine(Tensor rows, Tensor weights, Tensor chosen) -> Tensor", combine);
    define_state_operators(made);
    made.def("mix_streams(Tensor streams, Tensor weights) -> Tensor", mix_streams);
    made.def("correct_streams(Tensor streams, Tensor made, Tensor shares) -> Tensor", correct_streams);
    made.def("add_to_later_streams(Tensor streams, Tensor x) -> Tensor", add_to_later_streams);
    made.def("like_magnitude(Tensor self, Tensor other) -> Tensor", like_magnitude);
    made.def("sparse_gate(Tensor self, float deviations) -> Tensor", sparse_gate);
    return made;
  }();
  static_cast<void>(library);
}

}  // namespace panpipe::exec
