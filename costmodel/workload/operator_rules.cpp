#include "costmodel/workload/operator_rules.hpp"

#include <algorithm>
#include <utility>

#include "costmodel/workload/aliases.hpp"
#include "costmodel/workload/attention_operator.hpp"
#include "costmodel/workload/operands.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kStatisticBytes = 4;  // mean, deviation, log-sum-exp are kept in 32 bits

Flops product_flops(const GemmShape& s) {
  return Flops(2.0 * static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.n) *
               static_cast<double>(s.k));
}

PassWork product(const GemmShape& shape, Bytes read, Bytes written) { return {product_flops(shape), read, written, {shape}}; }

PassWork traffic(Bytes read, Bytes written, double operations) { return {Flops(operations), read, written, {}}; }

// The tensor that the backward of `index` holds. Views share the storage of their source, so the source is named. The input of a
// column-parallel product under sequence parallelism is kept as this rank's part and gathered again (Korthikanti et al.).
int storage_of(const OperatorGraph& graph, int index) {
  for (;;) {
    const Tensor& tensor = graph.tensors[index];
    if (tensor.producer < 0) return index;
    const Operator& producer = graph.operators[tensor.producer];
    // Megatron's f: its backward adds up what its forward gave to all.
    const bool gathered_again =
        row_of(producer).role == OperatorRole::Collective && (producer.backward_collective == CollectiveKind::AllReduce ||
                                                              producer.backward_collective == CollectiveKind::ReduceScatter);
    const int looked_at = gathered_again ? tensor_argument(producer, "self") : viewed_tensor(graph, producer);
    if (looked_at < 0) return index;
    index = looked_at;
  }
}

void save(const OperatorView& v, OperatorWork& work, int index) {
  if (index < 0) return;
  const int storage = storage_of(v.graph, index);
  if (std::find(work.saved.begin(), work.saved.end(), storage) == work.saved.end()) work.saved.push_back(storage);
}

std::int64_t rows_of(const Shape& shape) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

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

OperatorWork made(OperatorClass kind, PassWork forward, PassWork input_gradient = {}) {
  OperatorWork work;
  work.kind = kind;
  work.forward = std::move(forward);
  work.input_gradient = std::move(input_gradient);
  return work;
}

// The products of an input and a weight; each one's gradient needs the other.
OperatorWork weighted(const OperatorView& v, const GemmShape& forward, const GemmShape& to_input, const GemmShape& to_weight) {
  const Tensor &x = v.in("input"), &w = v.in("weight"), &y = v.out();
  const Bytes bias = v.bytes("bias");
  OperatorWork work = made(OperatorClass::Gemm, product(forward, x.bytes() + w.bytes() + bias, y.bytes()));
  if (x.requires_gradient) {
    work.input_gradient = product(to_input, y.bytes() + w.bytes(), x.bytes());
    save(v, work, v.operand("weight"));
  }
  if (w.requires_gradient) {
    work.weight_gradient = product(to_weight, y.bytes() + x.bytes(), w.bytes() + bias);
    save(v, work, v.operand("input"));
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
    save(v, work, v.operand(right));
  }
  if (b.requires_gradient) {
    PassWork& other = b.role == TensorRole::Parameter ? work.weight_gradient : work.input_gradient;
    const PassWork second = product({batch, k, n, m}, y.bytes() + a.bytes(), b.bytes());
    other.flops += second.flops;
    other.read += second.read;
    other.written += second.written;
    other.gemms.insert(other.gemms.end(), second.gemms.begin(), second.gemms.end());
    save(v, work, v.operand(left));
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
  for (const char* operand : {"query", "key", "value"}) save(v, work, v.operand(operand));
  save(v, work, v.op.outputs.front());
  work.saved_extra = Bytes(kStatisticBytes * q.shape[0] * q.shape[1] * q.shape[2]);
  return work;
}

// The window is the number of keys that a query chose: as many pairs. The choice is kept.
OperatorWork sparse_attention(const OperatorView& v) {
  OperatorWork work = attention(v);
  work.attention.chosen = true;
  save(v, work, v.operand("chosen"));
  return work;
}

ModelProduct attention_of_model(const OperatorView& v) {
  const std::int64_t window = attention_settings(v.op).window;
  const Shape &q = v.in("query").shape, &k = v.in("key").shape, &value = v.in("value").shape;
  const std::int64_t keys = window > 0 ? std::min(window, k[2]) : k[2];
  return {Flops(2.0 * v.graph.degrees.tensor * static_cast<double>(q[0] * q[1] * q[2]) *
                static_cast<double>(keys * (q[3] + value[3])))};
}

// The gradients of weight and bias need the same tensors as the input's and come from the same pass.
OperatorWork normalization(const OperatorView& v, std::int64_t statistics) {
  const Tensor& x = v.in("input");
  const Bytes parameters = v.bytes("weight") + v.bytes("bias");
  const auto elements = static_cast<double>(x.elements());
  OperatorWork work = made(OperatorClass::Normalization, traffic(x.bytes() + parameters, x.bytes(), 5.0 * elements),
                           traffic(x.bytes() + x.bytes() + parameters, x.bytes() + parameters, 9.0 * elements));
  save(v, work, v.operand("input"));
  save(v, work, v.operand("weight"));
  work.saved_extra = Bytes(kStatisticBytes * statistics);
  return work;
}

OperatorWork layer_norm(const OperatorView& v) { return normalization(v, 2 * rows_of(v.in("input").shape)); }

OperatorWork rms_norm(const OperatorView& v) { return normalization(v, rows_of(v.in("input").shape)); }

OperatorWork group_norm(const OperatorView& v) {
  return normalization(v, 2 * v.in("input").shape[0] * value_argument<std::int64_t>(v.op, "num_groups").value_or(1));
}

// Element by element from one tensor to another; `backward_reads` in addition to the incoming gradient.
OperatorWork elementwise(const OperatorView& v, Bytes read, Bytes backward_reads, double per_element = 1.0) {
  const Tensor& y = v.out();
  const double operations = per_element * static_cast<double>(y.elements());
  OperatorWork work = made(OperatorClass::Elementwise, traffic(read, y.bytes(), operations));
  if (y.requires_gradient) work.input_gradient = traffic(y.bytes() + backward_reads, y.bytes(), operations);
  return work;
}

// An activation function: its input is kept (or its output, where the derivative is a function of that).
template <int per_element, bool keeps_output = false>
OperatorWork activation(const OperatorView& v) {
  const int kept = keeps_output ? v.op.outputs.front() : v.operand(v.row.names[0]);
  OperatorWork work = elementwise(v, v.first().bytes(), v.tensor(kept).bytes(), per_element);
  if (v.out().requires_gradient) save(v, work, kept);
  return work;
}

// Moves its operands, whose values its backward does not need.
OperatorWork move(const OperatorView& v) {
  Bytes read(0);
  for_each_operand(v.op, [&](int index) { read += v.tensor(index).bytes(); });
  return elementwise(v, read, Bytes(0));
}

// a + b: the gradient passes through; a broadcast operand's is summed.
OperatorWork sum(const OperatorView& v) {
  const Tensor &a = v.first(), &b = v.second(), &y = v.out();
  OperatorWork work =
      made(OperatorClass::Elementwise, traffic(a.bytes() + b.bytes(), y.bytes(), static_cast<double>(y.elements())));
  for (const Tensor* operand : {&a, &b})
    if (operand->requires_gradient && operand->elements() != y.elements())
      work.input_gradient = traffic(y.bytes(), operand->bytes(), static_cast<double>(y.elements()));
  return work;
}

// a * b: each operand's gradient needs the other. A number is no tensor, and nothing is kept (PyTorch's derivatives.yaml,
// mul.Scalar).
OperatorWork multiply(const OperatorView& v) {
  if (v.operand(v.row.names[1]) < 0) return move(v);
  const Tensor &a = v.first(), &b = v.second(), &y = v.out();
  OperatorWork work =
      made(OperatorClass::Elementwise, traffic(a.bytes() + b.bytes(), y.bytes(), static_cast<double>(y.elements())));
  Bytes read(0), written(0);
  if (a.requires_gradient) {
    read += b.bytes();
    written += a.bytes();
    save(v, work, v.operand(v.row.names[1]));
  }
  if (b.requires_gradient) {
    read += a.bytes();
    written += b.bytes();
    save(v, work, v.operand(v.row.names[0]));
  }
  if (y.requires_gradient) work.input_gradient = traffic(y.bytes() + read, written, static_cast<double>(y.elements()));
  return work;
}

// Keeps all tensors that the derivative may need.
template <bool keeps>
OperatorWork any_operator(const OperatorView& v) {
  Bytes read(0), written(0);
  std::vector<int> floats;
  for_each_operand(v.op, [&](int index) {
    read += v.tensor(index).bytes();
    if (v.tensor(index).requires_gradient) floats.push_back(index);
  });
  double elements = 0;
  for (const int made : v.op.outputs) {
    written += v.tensor(made).bytes();
    elements += static_cast<double>(v.tensor(made).elements());
  }
  OperatorWork work = made(OperatorClass::Elementwise, traffic(read, written, elements));
  if (!v.out().requires_gradient) return work;
  work.input_gradient = traffic(written + read, read, elements);
  if (keeps)
    for (const int index : floats) save(v, work, index);
  return work;
}

// a / b keeps both; divided by a number nothing.
OperatorWork divide(const OperatorView& v) { return v.operand(v.row.names[1]) < 0 ? move(v) : any_operator<true>(v); }

OperatorWork dropout(const OperatorView& v) {
  const Bytes mask(v.out().elements());  // one byte per element
  OperatorWork work = elementwise(v, v.first().bytes(), mask, 2.0);
  work.forward.written += mask;
  work.saved_extra = mask;
  return work;
}

OperatorWork concatenation(const OperatorView& v) { return elementwise(v, v.out().bytes(), Bytes(0), 0.0); }

// The gradient is dense, zeroed and added to row by row.
OperatorWork embedding(const OperatorView& v) {
  const Tensor &weight = v.in("weight"), &ids = v.in("indices"), &y = v.out();
  OperatorWork work = made(OperatorClass::Embedding, traffic(ids.bytes() + y.bytes(), y.bytes(), 0.0));
  work.weight_gradient = traffic(ids.bytes() + y.bytes(), weight.bytes() + y.bytes(), static_cast<double>(y.elements()));
  save(v, work, v.operand("indices"));
  return work;
}

// Keeps the log-softmax (or, cut over the vocabulary, the softmax) in the loss's own format. A cast of
// the logits in front of it is counted here.
template <bool vocabulary_parallel>
OperatorWork cross_entropy(const OperatorView& v) {
  const Tensor &logits = v.first(), &labels = v.in("target");
  Bytes cast_read(0), cast_written(0);
  if (const int cast = cast_before(v.graph, v.op); cast >= 0) {
    const Operator& op = v.graph.operators[cast];
    const OperatorView counted{v.graph, op, row_of(op)};
    cast_read = counted.first().bytes();
    cast_written = counted.out().bytes();
  }
  const auto elements = static_cast<double>(logits.elements());
  OperatorWork work = made(OperatorClass::Loss,
                           traffic(cast_read + logits.bytes() + labels.bytes(), cast_written + logits.bytes(), 4.0 * elements),
                           traffic(logits.bytes() + labels.bytes() + cast_written, logits.bytes() + cast_read, 2.0 * elements));
  work.saved_extra = logits.bytes();
  save(v, work, v.operand("target"));
  // Largest logit, sum of exponentials and the label's logit of every row.
  if (vocabulary_parallel) work.collective_bytes = Bytes(3 * kStatisticBytes * labels.elements());
  return work;
}

OperatorWork squared_error(const OperatorView& v) {
  const Tensor &x = v.first(), &target = v.in("target");
  const auto elements = static_cast<double>(x.elements());
  OperatorWork work = made(OperatorClass::Loss, traffic(x.bytes() + target.bytes(), v.out().bytes(), 3.0 * elements),
                           traffic(x.bytes() + target.bytes(), x.bytes(), 2.0 * elements));
  save(v, work, v.operand(v.row.names[0]));
  save(v, work, v.operand("target"));
  return work;
}

OperatorWork upsample(const OperatorView& v) {
  OperatorWork work = elementwise(v, v.first().bytes(), Bytes(0), 0.0);
  work.input_gradient = traffic(v.out().bytes(), v.first().bytes(), static_cast<double>(v.out().elements()));
  return work;
}

OperatorWork cast(const OperatorView& v) {
  OperatorWork work = elementwise(v, v.first().bytes(), Bytes(0), 0.0);
  if (v.out().requires_gradient) work.input_gradient = traffic(v.out().bytes(), v.first().bytes(), 0.0);
  return work;
}

OperatorWork collective(const OperatorView& v) {
  OperatorWork work = made(OperatorClass::Collective, {});
  work.collective_bytes = std::max(v.first().bytes(), v.out().bytes());
  return work;
}

OperatorWork masked_fill(const OperatorView& v) {
  const Bytes mask = v.in("mask").bytes();
  OperatorWork work = elementwise(v, v.first().bytes() + mask, mask);
  if (v.out().requires_gradient) save(v, work, v.operand("mask"));
  return work;
}

// Scores, the best of them, and their weights.
OperatorWork route(const OperatorView& v) {
  OperatorWork work = elementwise(v, v.in("logits").bytes(), v.in("logits").bytes(), 8.0);
  if (v.out().requires_gradient) {
    work.input_gradient.written = v.in("logits").bytes();
    save(v, work, v.operand("logits"));
  }
  return work;
}

// Every row is copied to each of its experts; backward the copies' gradients are added.
OperatorWork dispatch(const OperatorView& v) {
  OperatorWork work = elementwise(v, v.out().bytes(), Bytes(0), 0.0);
  if (v.out().requires_gradient)
    work.input_gradient = traffic(v.out().bytes(), v.in("rows").bytes(), static_cast<double>(v.out().elements()));
  save(v, work, v.operand("chosen"));
  return work;
}

// Each row is copied to another place.
OperatorWork regroup(const OperatorView& v) { return elementwise(v, v.in("rows").bytes(), Bytes(0), 0.0); }

// A product an expert, with as many rows each.
OperatorWork grouped_linear(const OperatorView& v) {
  const Tensor &x = v.in("rows"), &w = v.in("weight"), &y = v.out();
  const std::int64_t count = w.shape[0], in = x.shape[1], out = y.shape[1];
  const std::int64_t rows = std::max<std::int64_t>(1, x.shape[0] / count);
  const Bytes bias = v.bytes("bias");
  OperatorWork work = made(OperatorClass::Gemm, product({count, rows, out, in}, x.bytes() + w.bytes() + bias, y.bytes()),
                           product({count, rows, in, out}, y.bytes() + w.bytes(), x.bytes()));
  if (w.requires_gradient) work.weight_gradient = product({count, out, in, rows}, y.bytes() + x.bytes(), w.bytes() + bias);
  save(v, work, v.operand("weight"));
  if (w.requires_gradient) save(v, work, v.operand("rows"));
  save(v, work, v.operand("chosen"));
  return work;
}

// For one expert, and for all rows of the model, independent of the rows of one rank.
ModelProduct grouped_linear_of_model(const OperatorView& v) {
  const Tensor &x = v.in("rows"), &w = v.in("weight");
  const auto experts = static_cast<double>(w.role == TensorRole::Parameter ? w.full_shape[0] : w.shape[0]);
  return {Flops(2.0 * static_cast<double>(x.shape[0]) / v.graph.expert_rows * full_elements(w) / experts), &x, &w};
}

// The weighted sum of a token's rows; both gradients need the other factor.
OperatorWork combine(const OperatorView& v) {
  const Tensor &rows = v.in("rows"), &weights = v.in("weights");
  OperatorWork work = elementwise(v, rows.bytes() + weights.bytes(), rows.bytes(), 2.0);
  work.input_gradient =
      traffic(v.out().bytes() + rows.bytes(), rows.bytes() + weights.bytes(), 4.0 * static_cast<double>(rows.elements()));
  for (const char* kept : {"rows", "weights", "chosen"}) save(v, work, v.operand(kept));
  return work;
}

}  // namespace

bool WorkRule::fits(const OperatorView& view) const {
  for (std::size_t i = 0; i < dimensions.size() && dimensions[i] != 0; ++i) {
    const int operand = view.operand(view.row.names[i]);
    if (operand < 0) return false;
    const std::size_t found = view.tensor(operand).shape.size();
    if (dimensions[i] == kAny ? found == 0 : found != static_cast<std::size_t>(dimensions[i])) return false;
  }
  return true;
}

namespace work_rules {

constexpr std::int8_t kAny = WorkRule::kAny;

const WorkRule kAnyOperator{any_operator<true>};
const WorkRule kKeepsNothing{any_operator<false>};
const WorkRule kLinear{linear, {kAny, 2}, linear_of_model};
const WorkRule kProduct{matrix_product<0>, {kAny, kAny}, product_of_model<0>};
const WorkRule kAddedProduct{matrix_product<1>, {kAny, kAny, kAny}, product_of_model<1>};
const WorkRule kGroupedLinear{grouped_linear, {}, grouped_linear_of_model};
const WorkRule kConvolution{convolution<false>, {kAny, kAny}, convolution_of_model<false>};
const WorkRule kTransposedConvolution{convolution<true>, {kAny, kAny}, convolution_of_model<true>};
const WorkRule kAttention{attention, {4, 4, 4}, attention_of_model};
const WorkRule kLayerNorm{layer_norm, {kAny}};
const WorkRule kRmsNorm{rms_norm, {kAny}};
const WorkRule kGroupNorm{group_norm, {kAny}};
const WorkRule kSum{sum, {kAny, kAny}};
const WorkRule kMultiply{multiply, {kAny}};
const WorkRule kDivide{divide, {kAny}};
const WorkRule kMove{move, {kAny}};
const WorkRule kActivation{activation<4>, {kAny}};
const WorkRule kGelu{activation<8>, {kAny}};
const WorkRule kTanh{activation<4, true>, {kAny}};
const WorkRule kDropout{dropout, {kAny}};
const WorkRule kCast{cast, {kAny}};
const WorkRule kConcatenation{concatenation};
const WorkRule kMaskedFill{masked_fill, {kAny, kAny}};
const WorkRule kUpsample{upsample, {kAny}};
const WorkRule kEmbedding{embedding, {kAny, kAny}};
const WorkRule kCrossEntropy{cross_entropy<false>, {kAny, kAny}};
const WorkRule kVocabularyCrossEntropy{cross_entropy<true>, {kAny, kAny}};
const WorkRule kSquaredError{squared_error, {kAny, kAny}};
const WorkRule kRoute{route};
const WorkRule kDispatch{dispatch};
const WorkRule kRegroup{regroup};
const WorkRule kCombine{combine};
const WorkRule kCollective{collective};
const WorkRule kSparseAttention{sparse_attention, {4, 4, 4}, attention_of_model};

void keep(const OperatorView& view, OperatorWork& work, int tensor) { save(view, work, tensor); }

}  // namespace work_rules
}  // namespace panpipe
