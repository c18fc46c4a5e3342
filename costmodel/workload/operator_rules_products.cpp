// The work of products, with a weight or of two tensors, and of attention.
#include <algorithm>

#include "costmodel/workload/attention_operator.hpp"
#include "costmodel/workload/operator_rules.hpp"

namespace panpipe {
namespace {

using namespace work_rules;

PassWork product(const GemmShape& shape, Bytes read, Bytes written) { return {product_flops(shape), read, written, {shape}}; }

double full_elements(const Tensor& weight) {
  double elements = 1;
  for (auto extent : weight.role == TensorRole::Parameter ? weight.full_shape : weight.shape)
    elements *= static_cast<double>(extent);
  return elements;
}

// A product with a weight that all ranks hold whole, over the rank's own part of the sequence: the narrow products of latent
// attention under sequence parallelism. The other ranks do theirs.
double ranks_with_rows_of_their_own(const OperatorView& v) {
  const Shape& x = v.in("input").shape;
  if (!v.graph.degrees.sequence_parallel || !v.in("weight").gradient_partial || v.graph.inputs.empty()) return 1;
  const Tensor& ids = v.tensor(v.graph.inputs.front());
  const bool own = x.size() == 3 ? x[1] * v.graph.degrees.tensor == ids.shape.back()
                                 : x.size() == 2 && x[0] * v.graph.degrees.tensor == ids.elements();
  return own ? v.graph.degrees.tensor : 1;
}

// The products of an input and a weight; each one's gradient needs the other.
OperatorWork weighted(const OperatorView& v, const GemmShape& forward, const GemmShape& to_input, const GemmShape& to_weight) {
  const Tensor &x = v.in("input"), &w = v.in("weight"), &y = v.out();
  const Bytes bias = v.bytes("bias");
  OperatorWork work = made(OperatorClass::Gemm, product(forward, x.bytes() + w.bytes() + bias, y.bytes()));
  if (x.requires_gradient) {
    work.input_gradient = product(to_input, y.bytes() + w.bytes(), x.bytes());
    keep(v, work, v.operand("weight"));
  }
  if (w.requires_gradient) {
    work.weight_gradient = product(to_weight, y.bytes() + x.bytes(), w.bytes() + bias);
    keep(v, work, v.operand("input"));
  }
  return work;
}

// Rows x in -> rows x out.
OperatorWork linear(const OperatorView& v) {
  const Shape& w = v.in("weight").shape;
  const std::int64_t rows = rows_of(v.in("input").shape), in = w[1], out = w[0];
  return weighted(v, {1, rows, out, in}, {1, rows, in, out}, {1, out, in, rows});
}

ModelProduct linear_of_model(const OperatorView& v) {
  const Tensor &x = v.in("input"), &w = v.in("weight");
  return {Flops(2.0 * ranks_with_rows_of_their_own(v) * static_cast<double>(rows_of(x.shape)) * full_elements(w)), &x, &w};
}

// As the product of unfolded patches, one row per output pixel; a transposed one in the reverse direction.
template <bool transposed>
std::int64_t pixels_of(const OperatorView& v) {
  return (transposed ? v.in("input") : v.out()).elements() / std::max<std::int64_t>(v.in("weight").shape[0], 1);
}

template <bool transposed>
OperatorWork convolution(const OperatorView& v) {
  const Tensor& w = v.in("weight");
  const std::int64_t columns = w.shape[0], patch = w.elements() / std::max<std::int64_t>(columns, 1);
  const std::int64_t pixels = pixels_of<transposed>(v);
  const GemmShape unfolded = {1, pixels, columns, patch}, folded = {1, pixels, patch, columns};
  return weighted(v, transposed ? folded : unfolded, transposed ? unfolded : folded, {1, columns, patch, pixels});
}

template <bool transposed>
ModelProduct convolution_of_model(const OperatorView& v) {
  return {Flops(2.0 * static_cast<double>(pixels_of<transposed>(v)) * full_elements(v.in("weight")))};
}

// a [batch, m, k] times b [batch, k, n], the schema's arguments `first` and first + 1.
template <std::size_t first>
OperatorWork matrix_product(const OperatorView& v) {
  const std::string_view left = v.row.names[first], right = v.row.names[first + 1];
  const Tensor &a = v.in(left), &b = v.in(right), &y = v.out();
  const std::int64_t k = a.shape.back(), n = b.shape.size() > 1 ? b.shape.back() : 1;
  const std::int64_t batch = b.shape.size() > 2 ? b.elements() / std::max<std::int64_t>(k * n, 1) : 1;
  const std::int64_t m = y.elements() / std::max<std::int64_t>(batch * n, 1);
  OperatorWork work = made(OperatorClass::Gemm, product({batch, m, n, k}, a.bytes() + b.bytes(), y.bytes()));
  if (a.requires_gradient) {
    work.input_gradient = product({batch, m, k, n}, y.bytes() + b.bytes(), a.bytes());
    keep(v, work, v.operand(right));
  }
  if (b.requires_gradient) {
    PassWork& other = b.role == TensorRole::Parameter ? work.weight_gradient : work.input_gradient;
    const PassWork second = product({batch, k, n, m}, y.bytes() + a.bytes(), b.bytes());
    other.flops += second.flops;
    other.read += second.read;
    other.written += second.written;
    other.gemms.insert(other.gemms.end(), second.gemms.begin(), second.gemms.end());
    keep(v, work, v.operand(left));
  }
  return work;
}

template <std::size_t first>
ModelProduct product_of_model(const OperatorView& v) {
  return {Flops(2.0 * static_cast<double>(v.out().elements()) * static_cast<double>(v.in(v.row.names[first]).shape.back()))};
}

// Counts all scores, including those that a causal mask hides.
OperatorWork attention(const OperatorView& v) {
  const AttentionSettings settings = attention_settings(v.op);
  const Tensor &q = v.in("query"), &k = v.in("key"), &value = v.in("value"), &y = v.out();
  const GemmShape scores = {q.shape[0] * q.shape[1], q.shape[2], k.shape[2], q.shape[3]};
  const GemmShape sums = {q.shape[0] * q.shape[1], q.shape[2], value.shape[3], k.shape[2]};
  const double operations = product_flops(scores).base() + product_flops(sums).base();
  const Bytes inputs = q.bytes() + k.bytes() + value.bytes();
  OperatorWork work = made(OperatorClass::Attention, traffic(inputs, y.bytes(), operations),
                           traffic(inputs + y.bytes() + y.bytes(), inputs, 2.0 * operations));
  work.attention = {q.shape[0], q.shape[1],      k.shape[1],     q.shape[2],     k.shape[2],
                    q.shape[3], settings.causal, value.shape[3], settings.window};
  if (v.op.forward_collective == CollectiveKind::SendReceive) work.attention.blocks = v.graph.degree(v.op.among);
  work.collective_bytes = k.bytes() + value.bytes();  // where ranks exchange them
  for (const char* operand : {"query", "key", "value"}) keep(v, work, v.operand(operand));
  keep(v, work, v.op.outputs.front());
  work.saved_extra = Bytes(kStatisticBytes * q.shape[0] * q.shape[1] * q.shape[2]);
  return work;
}

// The window is the number of keys that a query chose: as many pairs. The choice is kept.
OperatorWork sparse_attention(const OperatorView& v) {
  OperatorWork work = attention(v);
  work.attention.chosen = true;
  keep(v, work, v.operand("chosen"));
  return work;
}

ModelProduct attention_of_model(const OperatorView& v) {
  const std::int64_t window = attention_settings(v.op).window;
  const Shape &q = v.in("query").shape, &k = v.in("key").shape, &value = v.in("value").shape;
  const std::int64_t keys = window > 0 ? std::min(window, k[2]) : k[2];
  return {Flops(2.0 * v.graph.degrees.tensor * static_cast<double>(q[0] * q[1] * q[2]) *
                static_cast<double>(keys * (q[3] + value[3])))};
}

// A product an expert, with as many rows each.
OperatorWork grouped_linear(const OperatorView& v) {
  const Tensor &x = v.in("rows"), &w = v.in("weight"), &y = v.out();
  const std::int64_t count = w.shape[0], in = x.shape[1], out = y.shape[1];
  const std::int64_t rows = std::max<std::int64_t>(1, x.shape[0] / count);
  const Bytes bias = v.bytes("bias");
  OperatorWork work = made(OperatorClass::Gemm, product({count, rows, out, in}, x.bytes() + w.bytes() + bias, y.bytes()),
                           product({count, rows, in, out}, y.bytes() + w.bytes(), x.bytes()));
  if (w.requires_gradient) work.weight_gradient = product({count, out, in, rows}, y.bytes() + x.bytes(), w.bytes() + bias);
  keep(v, work, v.operand("weight"));
  if (w.requires_gradient) keep(v, work, v.operand("rows"));
  keep(v, work, v.operand("chosen"));
  return work;
}

// For one expert, and for all rows of the model, independent of the rows of one rank.
ModelProduct grouped_linear_of_model(const OperatorView& v) {
  const Tensor &x = v.in("rows"), &w = v.in("weight");
  const auto experts = static_cast<double>(w.role == TensorRole::Parameter ? w.full_shape[0] : w.shape[0]);
  return {Flops(2.0 * static_cast<double>(x.shape[0]) / v.graph.expert_rows * full_elements(w) / experts), &x, &w};
}

}  // namespace

namespace work_rules {

const WorkRule kLinear{linear, {kAny, 2}, linear_of_model};
const WorkRule kProduct{matrix_product<0>, {kAny, kAny}, product_of_model<0>};
const WorkRule kAddedProduct{matrix_product<1>, {kAny, kAny, kAny}, product_of_model<1>};
const WorkRule kGroupedLinear{grouped_linear, {}, grouped_linear_of_model};
const WorkRule kConvolution{convolution<false>, {kAny, kAny}, convolution_of_model<false>};
const WorkRule kTransposedConvolution{convolution<true>, {kAny, kAny}, convolution_of_model<true>};
const WorkRule kAttention{attention, {4, 4, 4}, attention_of_model};
const WorkRule kSparseAttention{sparse_attention, {4, 4, 4}, attention_of_model};

}  // namespace work_rules
}  // namespace panpipe
