// The work of mixers with a state, chunk by chunk, of streams side by side, and of the choice of keys. With C tokens a chunk, N
// features of a key and P of a value, a token and head take these operations in the forward:
//   Mamba 2 (arXiv 2405.21060, section 6)      2 C N a group for scores, 2 C P for their sum, 2 N P for the state, 2 N P from it
//   lightning attention (arXiv 2401.04658)     the same, with a group a head
//   gated delta rule (arXiv 2412.06464, 3.3)   2 C (3 N + 2 P) + 6 N P + C C / 3: scores of keys and of queries, the inverse of a
//                                              triangle, keys and values changed by it, the state's part of both, its update
//   selective scan (arXiv 2312.00752, section 3.3), for each channel 9 N on vector units, with one exponential for each number of
//   the state (state-spaces/mamba issue 110: 9 B L D N)
// The backward has two products for each, and repeats those whose results kernels do not keep: states, changed keys and values
// (state-spaces/mamba, ssd_combined.py; fla-org/flash-linear-attention, ops/gated_delta_rule/chunk.py).
#include <algorithm>
#include <cmath>

#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_rules.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kWide = 4;  // bytes of sums of decays, in 32 bits

struct Chunks {
  std::int64_t batch, tokens, groups, keys, heads, values, chunk, count;  // `count`: of all samples
};

Chunks chunks_of(const OperatorView& v) {
  const Shape &key = v.in("key").shape, &value = v.in("value").shape;
  Chunks c{key[0], key[1], key[2], key[3], value[2], value[3], 0, 0};
  c.chunk = std::min(std::max<std::int64_t>(value_argument<std::int64_t>(v.op, "chunk").value_or(1), 1), c.tokens);
  c.count = c.batch * ((c.tokens + c.chunk - 1) / c.chunk);
  return c;
}

void add_gemm(PassWork& pass, const GemmShape& s) {
  pass.flops += work_rules::product_flops(s);
  pass.gemms.push_back(s);
}

// The gradients of both factors.
void add_gradients(PassWork& pass, const GemmShape& s) {
  add_gemm(pass, {s.batch, s.m, s.k, s.n});
  add_gemm(pass, {s.batch, s.k, s.n, s.m});
}

OperatorWork chunked(const OperatorView& v, const std::vector<GemmShape>& products, const std::vector<GemmShape>& repeated) {
  OperatorWork work;
  work.kind = OperatorClass::Gemm;
  Bytes inputs(0);
  for_each_operand(v.op, [&](int t) { inputs += v.tensor(t).bytes(); });
  for (const GemmShape& shape : products) add_gemm(work.forward, shape);
  work.forward.read = inputs;
  work.forward.written = v.out().bytes();
  for_each_operand(v.op, [&](int t) { work_rules::keep(v, work, t); });
  if (!v.out().requires_gradient) return work;
  for (const GemmShape& shape : repeated) add_gemm(work.input_gradient, shape);
  for (const GemmShape& shape : products) add_gradients(work.input_gradient, shape);
  work.input_gradient.read = inputs + v.out().bytes();
  work.input_gradient.written = inputs;
  return work;
}

OperatorWork linear_attention(const OperatorView& v) {
  const Chunks c = chunks_of(v);
  const GemmShape scores{c.count * c.groups, c.chunk, c.chunk, c.keys}, summed{c.count * c.heads, c.chunk, c.values, c.chunk};
  const GemmShape state{c.count * c.heads, c.keys, c.values, c.chunk}, from_state{c.count * c.heads, c.chunk, c.values, c.keys};
  return chunked(v, {scores, summed, state, from_state}, {state});
}

// Its backward reads the result, too, and sums of decays.
OperatorWork state_space(const OperatorView& v) {
  OperatorWork work = linear_attention(v);
  const Chunks c = chunks_of(v);
  work_rules::keep(v, work, v.op.outputs.front());
  work.saved_extra = Bytes(kWide * c.batch * c.tokens * c.heads);
  return work;
}

OperatorWork gated_delta(const OperatorView& v) {
  const Chunks c = chunks_of(v);
  const std::int64_t all = c.count * c.heads;  // queries and keys are repeated for each head of values
  const GemmShape scores{all, c.chunk, c.chunk, c.keys}, changed_keys{all, c.chunk, c.keys, c.chunk};
  const GemmShape changed_values{all, c.chunk, c.values, c.chunk}, from_state{all, c.chunk, c.values, c.keys};
  const GemmShape state{all, c.keys, c.values, c.chunk};
  OperatorWork work = chunked(v, {scores, scores, changed_keys, changed_values, changed_values, from_state, from_state, state},
                              {changed_keys, changed_values, from_state, state});
  const auto side = static_cast<double>(c.chunk);
  work.forward.flops += Flops(static_cast<double>(all) * side * side * side / 3);
  // The inverse, chunk x chunk for each chunk and head, and sums of decays.
  work.saved_extra = size_of(v.out().dtype) * (all * c.chunk * c.chunk) + Bytes(kWide * c.batch * c.tokens * c.heads);
  return work;
}

// What every implementation has to do, the state's products: two of N x P for a token and head, three with the delta rule.
template <int products>
ModelProduct state_of_model(const OperatorView& v) {
  const Chunks c = chunks_of(v);
  return {Flops(2.0 * products * v.graph.degrees.tensor * static_cast<double>(c.batch * c.tokens * c.heads) *
                static_cast<double>(c.keys * c.values))};
}

// A fused kernel: states stay in registers and are made again in the backward, from those that each block of tokens ended with,
// kept with the product of its decays in fp32 (selective_scan_fwd_kernel.cuh, state-spaces/mamba).
OperatorWork selective_scan(const OperatorView& v) {
  constexpr std::int64_t kBlock = 2048;
  constexpr double kOperations = 9;
  const Tensor& x = v.in("value");
  const std::int64_t state = v.in("key").shape.back(), channels = x.shape[0] * x.shape[2];
  OperatorWork work;
  work.kind = OperatorClass::Elementwise;
  Bytes inputs(0);
  for_each_operand(v.op, [&](int t) { inputs += v.tensor(t).bytes(); });
  const Flops once(kOperations * static_cast<double>(x.elements()) * static_cast<double>(state));
  work.forward = {once, inputs, v.out().bytes(), {}};
  if (!v.out().requires_gradient) return work;
  work.input_gradient = {3 * once, inputs + v.out().bytes(), inputs, {}};
  for_each_operand(v.op, [&](int t) { work_rules::keep(v, work, t); });
  work.saved_extra = Bytes(2 * kWide * channels * ((x.shape[1] + kBlock - 1) / kBlock) * state);
  return work;
}

// The state's two products for each channel.
ModelProduct scan_of_model(const OperatorView& v) {
  return {Flops(4.0 * v.graph.degrees.tensor * static_cast<double>(v.in("value").elements()) *
                static_cast<double>(v.in("key").shape.back()))};
}

// One pass over memory; the weight's gradient comes from the input's pass.
OperatorWork causal_convolution(const OperatorView& v) {
  const Tensor &x = v.in("input"), &w = v.in("weight");
  const double operations = 2.0 * static_cast<double>(x.elements()) * static_cast<double>(w.shape.back());
  OperatorWork work;
  work.kind = OperatorClass::Elementwise;
  work.forward = {Flops(operations), x.bytes() + w.bytes() + v.bytes("bias"), v.out().bytes(), {}};
  if (!v.out().requires_gradient) return work;
  work.input_gradient = {Flops(2 * operations), v.out().bytes() + x.bytes() + w.bytes(), x.bytes() + w.bytes(), {}};
  work_rules::keep(v, work, v.operand("input"));
  work_rules::keep(v, work, v.operand("weight"));
  return work;
}

ModelProduct convolution_of_tokens(const OperatorView& v) {
  const Tensor &x = v.in("input"), &w = v.in("weight");
  return {Flops(2.0 * v.graph.degrees.tensor * static_cast<double>(x.elements()) * static_cast<double>(w.shape.back())), &x, &w};
}

// A small product for each token, in one pass over memory.
OperatorWork mix_streams(const OperatorView& v) {
  const Tensor &x = v.in("streams"), &w = v.in("weights");
  const double operations = 2.0 * static_cast<double>(x.elements()) * std::sqrt(static_cast<double>(w.shape.back()));
  OperatorWork work;
  work.kind = OperatorClass::Elementwise;
  work.forward = {Flops(operations), x.bytes() + w.bytes(), v.out().bytes(), {}};
  if (!v.out().requires_gradient) return work;
  work.input_gradient = {Flops(2 * operations), v.out().bytes() + x.bytes() + w.bytes(), x.bytes() + w.bytes(), {}};
  for (const char* kept : {"streams", "weights"}) work_rules::keep(v, work, v.operand(kept));
  return work;
}

// With sequence parallelism each rank has tokens of its own.
ModelProduct mix_of_model(const OperatorView& v) {
  const Degrees& degrees = v.graph.degrees;
  return {Flops(2.0 * (degrees.sequence_parallel ? degrees.tensor : 1) * static_cast<double>(v.in("streams").elements()) *
                std::sqrt(static_cast<double>(v.in("weights").shape.back())))};
}

// Scores of narrow heads, rectified, weighted and summed in one kernel, as attention without values (DeepSeek-V3.2, equation 1).
OperatorWork choose_keys(const OperatorView& v) {
  const Tensor &q = v.in("query"), &k = v.in("key"), &weights = v.in("weights");
  const std::int64_t heads = value_argument<std::int64_t>(v.op, "heads").value_or(1);
  OperatorWork work;
  work.kind = OperatorClass::Attention;
  work.attention = {q.shape[0], heads, 1, q.shape[1], k.shape[1], k.shape[2], true, 1};
  const double operations = 2.0 * static_cast<double>(q.elements()) * static_cast<double>(k.shape[1]);
  const Bytes inputs = q.bytes() + k.bytes() + weights.bytes();
  work.forward = {Flops(operations), inputs, v.out().bytes(), {}};
  work.input_gradient = {Flops(2 * operations), inputs, inputs, {}};
  for (const char* kept : {"query", "key", "weights"}) work_rules::keep(v, work, v.operand(kept));
  return work;
}

ModelProduct choice_of_model(const OperatorView& v) {
  return {Flops(2.0 * static_cast<double>(v.in("query").elements()) * static_cast<double>(v.in("key").shape[1]))};
}

}  // namespace

namespace work_rules {

const WorkRule kCausalConvolution{causal_convolution, {3, 3}, convolution_of_tokens};
const WorkRule kGatedDelta{gated_delta, {4, 4, 4}, state_of_model<3>};
const WorkRule kStateSpace{state_space, {4, 4, 4}, state_of_model<2>};
const WorkRule kLightning{linear_attention, {4, 4, 4}, state_of_model<2>};
const WorkRule kMixStreams{mix_streams, {3, 3}, mix_of_model};
const WorkRule kSelectiveScan{selective_scan, {3, 3, 3}, scan_of_model};
const WorkRule kChooseKeys{choose_keys, {3, 3, 3}, choice_of_model};

}  // namespace work_rules
}  // namespace panpipe
