// Work and memory traffic of every operator that a builder or an archive may hold. Conventions: docs/models/workloads.md.
#include "costmodel/workload/operator_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "costmodel/workload/aliases.hpp"
#include "costmodel/workload/attention_operator.hpp"
#include "costmodel/workload/operands.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kStatisticBytes = 4;  // mean, deviation, log-sum-exp are kept in 32 bits

// One operator with its graph: short names for what the rules below need.
struct View {
  const OperatorGraph& graph;
  const Operator& op;

  const Tensor& tensor(int index) const { return graph.tensors[static_cast<std::size_t>(index)]; }
  // The tensor of argument `position`, -1 if there is none.
  int operand(std::size_t position) const {
    if (position >= op.arguments.size()) return -1;
    const auto* ref = std::get_if<TensorRef>(&op.arguments[position]);
    return ref ? ref->tensor : -1;
  }
  const Tensor& in(std::size_t position = 0) const {
    const int index = operand(position);
    PANPIPE_CHECK(index >= 0, op.target + " lacks an operand");
    return tensor(index);
  }
  const Tensor& out() const { return tensor(op.outputs.front()); }
  bool trained(std::size_t position) const { return operand(position) >= 0 && in(position).requires_gradient; }
};

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
    const Tensor& tensor = graph.tensors[static_cast<std::size_t>(index)];
    if (tensor.producer < 0) return index;
    const Operator& producer = graph.operators[static_cast<std::size_t>(tensor.producer)];
    const bool gathered_again =
        producer.target == "panpipe::gather_from_sequence_parallel" || producer.target == "panpipe::copy_to_tensor_parallel";
    const int looked_at =
        gathered_again ? std::get<TensorRef>(producer.arguments.front()).tensor : viewed_tensor(graph, producer);
    if (looked_at < 0) return index;
    index = looked_at;
  }
}

void save(const View& v, OperatorWork& work, int index) {
  if (index < 0) return;
  const int storage = storage_of(v.graph, index);
  if (std::find(work.saved.begin(), work.saved.end(), storage) != work.saved.end()) return;
  work.saved.push_back(storage);
  if (v.tensor(storage).role == TensorRole::Parameter) ++work.gemm_saved_parameters;
}

std::int64_t rows_of(const Shape& shape) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

// (input, weight, bias): rows x in -> rows x out.
OperatorWork linear(const View& v) {
  const Tensor &x = v.in(0), &w = v.in(1), &y = v.out();
  const std::int64_t rows = rows_of(x.shape), in = w.shape[1], out = w.shape[0];
  const Bytes bias = v.operand(2) >= 0 ? v.in(2).bytes() : Bytes(0);
  OperatorWork work;
  work.kind = OperatorClass::Gemm;
  work.forward = product({1, rows, out, in}, x.bytes() + w.bytes() + bias, y.bytes());
  if (x.requires_gradient) {
    work.input_gradient = product({1, rows, in, out}, y.bytes() + w.bytes(), x.bytes());
    save(v, work, v.operand(1));
  }
  if (w.requires_gradient) {
    work.weight_gradient = product({1, out, in, rows}, y.bytes() + x.bytes(), w.bytes() + bias);
    save(v, work, v.operand(0));
  }
  return work;
}

// (input, weight, bias, ...): as the product of unfolded patches, one row per output pixel; a transposed one in the reverse
// direction.
OperatorWork convolution(const View& v, bool transposed) {
  const Tensor &x = v.in(0), &w = v.in(1), &y = v.out();
  const std::int64_t columns = w.shape[0], patch = w.elements() / std::max<std::int64_t>(columns, 1);
  const std::int64_t pixels = (transposed ? x : y).elements() / std::max<std::int64_t>(columns, 1);
  const Bytes bias = v.operand(2) >= 0 ? v.in(2).bytes() : Bytes(0);
  const GemmShape unfolded = {1, pixels, columns, patch}, folded = {1, pixels, patch, columns};
  OperatorWork work;
  work.kind = OperatorClass::Gemm;
  work.forward = product(transposed ? folded : unfolded, x.bytes() + w.bytes() + bias, y.bytes());
  if (x.requires_gradient) {
    work.input_gradient = product(transposed ? unfolded : folded, y.bytes() + w.bytes(), x.bytes());
    save(v, work, v.operand(1));
  }
  if (w.requires_gradient) {
    work.weight_gradient = product({1, columns, patch, pixels}, y.bytes() + x.bytes(), w.bytes() + bias);
    save(v, work, v.operand(0));
  }
  return work;
}

// a [batch, m, k] times b [batch, k, n], at arguments `first` and first + 1.
OperatorWork matrix_product(const View& v, std::size_t first) {
  const Tensor &a = v.in(first), &b = v.in(first + 1), &y = v.out();
  const std::int64_t k = a.shape.back(), n = b.shape.size() > 1 ? b.shape.back() : 1;
  const std::int64_t batch = b.shape.size() > 2 ? b.elements() / std::max<std::int64_t>(k * n, 1) : 1;
  const std::int64_t m = y.elements() / std::max<std::int64_t>(batch * n, 1);
  OperatorWork work;
  work.kind = OperatorClass::Gemm;
  work.forward = product({batch, m, n, k}, a.bytes() + b.bytes(), y.bytes());
  if (a.requires_gradient) {
    work.input_gradient = product({batch, m, k, n}, y.bytes() + b.bytes(), a.bytes());
    save(v, work, v.operand(first + 1));
  }
  if (b.requires_gradient) {
    PassWork& other = b.role == TensorRole::Parameter ? work.weight_gradient : work.input_gradient;
    const PassWork second = product({batch, k, n, m}, y.bytes() + a.bytes(), b.bytes());
    other.flops += second.flops;
    other.read += second.read;
    other.written += second.written;
    other.gemms.insert(other.gemms.end(), second.gemms.begin(), second.gemms.end());
    save(v, work, v.operand(first));
  }
  return work;
}

// (query, key, value, mask, dropout, causal, scale, grouped): counts all scores, including those that a causal mask hides.
// `causal` is the position of its flag; panpipe_nn::attention also has a window.
OperatorWork attention(const View& v, const AttentionSettings& settings) {
  const Tensor &q = v.in(0), &k = v.in(1), &value = v.in(2), &y = v.out();
  OperatorWork work;
  work.kind = OperatorClass::Attention;
  work.attention = {q.shape[0], q.shape[1],      k.shape[1],     q.shape[2],     k.shape[2],
                    q.shape[3], settings.causal, value.shape[3], settings.window};
  if (v.op.forward_collective == CollectiveKind::SendReceive) work.attention.blocks = v.graph.degree(v.op.among);
  work.collective_bytes = k.bytes() + value.bytes();  // where ranks exchange them
  const GemmShape scores = {q.shape[0] * q.shape[1], q.shape[2], k.shape[2], q.shape[3]};
  const GemmShape weighted = {q.shape[0] * q.shape[1], q.shape[2], value.shape[3], k.shape[2]};
  const double operations = product_flops(scores).base() + product_flops(weighted).base();
  const Bytes inputs = q.bytes() + k.bytes() + value.bytes();
  work.forward = traffic(inputs, y.bytes(), operations);
  work.input_gradient = traffic(inputs + y.bytes() + y.bytes(), inputs, 2.0 * operations);
  for (std::size_t i = 0; i < 3; ++i) save(v, work, v.operand(i));
  save(v, work, v.op.outputs.front());
  work.saved_extra = Bytes(kStatisticBytes * q.shape[0] * q.shape[1] * q.shape[2]);
  return work;
}

// layer_norm, rms_norm (input, shape, weight, bias) and group_norm (input, groups, weight, bias). The gradients of weight and
// bias need the same tensors as the input's and come from the same pass.
OperatorWork normalization(const View& v, std::int64_t statistics) {
  const Tensor& x = v.in(0);
  const Bytes parameters = (v.operand(2) >= 0 ? v.in(2).bytes() : Bytes(0)) + (v.operand(3) >= 0 ? v.in(3).bytes() : Bytes(0));
  const auto elements = static_cast<double>(x.elements());
  OperatorWork work;
  work.kind = OperatorClass::Normalization;
  work.forward = traffic(x.bytes() + parameters, x.bytes(), 5.0 * elements);
  work.input_gradient = traffic(x.bytes() + x.bytes() + parameters, x.bytes() + parameters, 9.0 * elements);
  save(v, work, v.operand(0));
  save(v, work, v.operand(2));
  work.saved_extra = Bytes(kStatisticBytes * statistics);
  return work;
}

// Element by element from one tensor to another; `backward_reads` in addition to the incoming gradient.
OperatorWork elementwise(const View& v, Bytes read, Bytes backward_reads, double per_element = 1.0) {
  const Tensor& y = v.out();
  const double operations = per_element * static_cast<double>(y.elements());
  OperatorWork work;
  work.kind = OperatorClass::Elementwise;
  work.forward = traffic(read, y.bytes(), operations);
  if (y.requires_gradient) work.input_gradient = traffic(y.bytes() + backward_reads, y.bytes(), operations);
  return work;
}

// An activation function: its input is kept (or its output, where the derivative is a function of that).
OperatorWork activation(const View& v, bool keeps_output, double per_element) {
  const int kept = keeps_output ? v.op.outputs.front() : v.operand(0);
  OperatorWork work = elementwise(v, v.in().bytes(), v.tensor(kept).bytes(), per_element);
  if (v.out().requires_gradient) save(v, work, kept);
  return work;
}

// a + b: the gradient passes through; a broadcast operand's is summed.
OperatorWork sum(const View& v) {
  const Tensor &a = v.in(0), &b = v.in(1), &y = v.out();
  OperatorWork work;
  work.kind = OperatorClass::Elementwise;
  work.forward = traffic(a.bytes() + b.bytes(), y.bytes(), static_cast<double>(y.elements()));
  for (const Tensor* operand : {&a, &b})
    if (operand->requires_gradient && operand->elements() != y.elements())
      work.input_gradient = traffic(y.bytes(), operand->bytes(), static_cast<double>(y.elements()));
  return work;
}

// a * b: each operand's gradient needs the other.
OperatorWork multiply(const View& v) {
  const Tensor &a = v.in(0), &b = v.in(1), &y = v.out();
  OperatorWork work;
  work.kind = OperatorClass::Elementwise;
  work.forward = traffic(a.bytes() + b.bytes(), y.bytes(), static_cast<double>(y.elements()));
  Bytes read(0), written(0);
  if (a.requires_gradient) {
    read += b.bytes();
    written += a.bytes();
    save(v, work, v.operand(1));
  }
  if (b.requires_gradient) {
    read += a.bytes();
    written += b.bytes();
    save(v, work, v.operand(0));
  }
  if (y.requires_gradient) work.input_gradient = traffic(y.bytes() + read, written, static_cast<double>(y.elements()));
  return work;
}

OperatorWork dropout(const View& v) {
  const Bytes mask(v.out().elements());  // one byte per element
  OperatorWork work = elementwise(v, v.in().bytes(), mask, 2.0);
  work.forward.written += mask;
  work.saved_extra = mask;
  return work;
}

OperatorWork concatenation(const View& v) {
  OperatorWork work = elementwise(v, v.out().bytes(), Bytes(0), 0.0);
  return work;
}

// (weight, ids, ...): the gradient is dense, zeroed and added to row by row.
OperatorWork embedding(const View& v) {
  const Tensor &weight = v.in(0), &ids = v.in(1), &y = v.out();
  OperatorWork work;
  work.kind = OperatorClass::Embedding;
  work.forward = traffic(ids.bytes() + y.bytes(), y.bytes(), 0.0);
  work.weight_gradient = traffic(ids.bytes() + y.bytes(), weight.bytes() + y.bytes(), static_cast<double>(y.elements()));
  save(v, work, v.operand(1));
  return work;
}

bool is_cast(std::string_view target) { return target.starts_with("aten::to.") || target == "aten::type_as"; }

bool is_cross_entropy(std::string_view target) {
  return target == "aten::cross_entropy_loss" || target == "panpipe::vocabulary_parallel_cross_entropy";
}

// The tensor from which an operator makes logits of a loss: the only activation that it reads, without parameters, element by
// element or as a view. -1: none, its results are the first logits.
int logits_before(const OperatorGraph& graph, const Operator& op) {
  if (const int viewed = viewed_tensor(graph, op); viewed >= 0)
    return graph.tensors[static_cast<std::size_t>(viewed)].role == TensorRole::Activation ? viewed : -1;
  int source = -1, others = 0;
  for_each_operand(op, [&](int index) {
    const TensorRole role = graph.tensors[static_cast<std::size_t>(index)].role;
    if (role == TensorRole::Activation && source < 0)
      source = index;
    else
      others += role == TensorRole::Activation || role == TensorRole::Parameter;
  });
  if (source < 0 || others > 0) return -1;
  const bool padded = op.target.starts_with("aten::pad") || op.target.starts_with("aten::constant_pad_nd");
  const Tensor &in = graph.tensors[static_cast<std::size_t>(source)],
               &out = graph.tensors[static_cast<std::size_t>(op.outputs.front())];
  return padded || op.target.starts_with("panpipe::") || in.elements() == out.elements() ? source : -1;
}

// Calls visit(tensor) for the logits of a loss, from its own input back to the first.
template <class Visit>
void for_each_logits(const OperatorGraph& graph, const Operator& loss, Visit visit) {
  int index = View{graph, loss}.operand(0);
  while (index >= 0 && graph.tensors[static_cast<std::size_t>(index)].role == TensorRole::Activation) {
    visit(index);
    const int producer = graph.tensors[static_cast<std::size_t>(index)].producer;
    index = producer < 0 ? -1 : logits_before(graph, graph.operators[static_cast<std::size_t>(producer)]);
  }
}

// The last cast among the operators between the first logits and the loss; -1 if there is none.
int cast_before(const OperatorGraph& graph, const Operator& loss) {
  int cast = -1;
  for_each_logits(graph, loss, [&](int index) {
    const int producer = graph.tensors[static_cast<std::size_t>(index)].producer;
    if (cast < 0 && producer >= 0 && is_cast(graph.operators[static_cast<std::size_t>(producer)].target)) cast = producer;
  });
  return cast;
}

// (logits, labels, ...): keeps the log-softmax (or, cut over the vocabulary, the softmax) in the loss's own format. A cast of
// the logits in front of it is counted here.
OperatorWork cross_entropy(const View& v, bool vocabulary_parallel) {
  const Tensor &logits = v.in(0), &labels = v.in(1);
  Bytes cast_read(0), cast_written(0);
  if (const int cast = cast_before(v.graph, v.op); cast >= 0) {
    const View counted{v.graph, v.graph.operators[static_cast<std::size_t>(cast)]};
    cast_read = counted.in().bytes();
    cast_written = counted.out().bytes();
  }
  OperatorWork work;
  work.kind = OperatorClass::Loss;
  const auto elements = static_cast<double>(logits.elements());
  work.forward = traffic(cast_read + logits.bytes() + labels.bytes(), cast_written + logits.bytes(), 4.0 * elements);
  work.input_gradient = traffic(logits.bytes() + labels.bytes() + cast_written, logits.bytes() + cast_read, 2.0 * elements);
  work.saved_extra = logits.bytes();
  save(v, work, v.operand(1));
  // Largest logit, sum of exponentials and the label's logit of every row.
  if (vocabulary_parallel) work.collective_bytes = Bytes(3 * kStatisticBytes * labels.elements());
  return work;
}

OperatorWork mean_squared_error(const View& v) {
  const Tensor &x = v.in(0), &target = v.in(1);
  OperatorWork work;
  work.kind = OperatorClass::Loss;
  const auto elements = static_cast<double>(x.elements());
  work.forward = traffic(x.bytes() + target.bytes(), v.out().bytes(), 3.0 * elements);
  work.input_gradient = traffic(x.bytes() + target.bytes(), x.bytes(), 2.0 * elements);
  save(v, work, v.operand(0));
  save(v, work, v.operand(1));
  return work;
}

OperatorWork upsample(const View& v) {
  OperatorWork work = elementwise(v, v.in().bytes(), Bytes(0), 0.0);
  work.input_gradient = traffic(v.out().bytes(), v.in().bytes(), static_cast<double>(v.out().elements()));
  return work;
}

// A cast; in front of a loss it is counted there.
OperatorWork cast(const View& v, bool before_loss) {
  OperatorWork work;
  work.kind = OperatorClass::View;
  if (before_loss) return work;
  work = elementwise(v, v.in().bytes(), Bytes(0), 0.0);
  if (v.out().requires_gradient) work.input_gradient = traffic(v.out().bytes(), v.in().bytes(), 0.0);
  return work;
}

OperatorWork collective(const View& v) {
  OperatorWork work;
  work.kind = OperatorClass::Collective;
  work.collective_bytes = std::max(v.in().bytes(), v.out().bytes());
  return work;
}

OperatorWork view_only() {
  OperatorWork work;
  work.kind = OperatorClass::View;
  return work;
}

OperatorWork masked_fill(const View& v) {
  OperatorWork work = elementwise(v, v.in(0).bytes() + v.in(1).bytes(), v.in(1).bytes());
  if (v.out().requires_gradient) save(v, work, v.operand(1));
  return work;
}

// Any other operator of ATen: one pass over what it reads and writes, and as much backward; what its derivative may need is kept.
OperatorWork any_operator(const View& v) {
  constexpr std::array<std::string_view, 12> kKeepNothing = {"sum",    "mean", "clone", "stack",  "pad", "constant_pad_nd",
                                                             "repeat", "roll", "flip",  "cumsum", "neg", "masked_fill"};
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
  OperatorWork work;
  work.kind = OperatorClass::Elementwise;
  work.forward = traffic(read, written, elements);
  if (!v.out().requires_gradient) return work;
  work.input_gradient = traffic(written + read, read, elements);
  const std::string_view name = std::string_view(v.op.target).substr(6);
  const bool keeps = std::find(kKeepNothing.begin(), kKeepNothing.end(), name.substr(0, name.find('.'))) == kKeepNothing.end();
  if (keeps)
    for (const int index : floats) save(v, work, index);
  return work;
}

// (logits, correction, experts a token, sigmoid): scores, the best of them, and their weights.
OperatorWork route(const View& v) {
  OperatorWork work = elementwise(v, v.in().bytes(), v.in().bytes(), 8.0);
  if (v.out().requires_gradient) {
    work.input_gradient.written = v.in().bytes();
    save(v, work, v.operand(0));
  }
  return work;
}

// (rows, chosen): every row is copied to each of its experts; backward the copies' gradients are added.
OperatorWork dispatch(const View& v) {
  OperatorWork work = elementwise(v, v.out().bytes(), Bytes(0), 0.0);
  if (v.out().requires_gradient)
    work.input_gradient = traffic(v.out().bytes(), v.in().bytes(), static_cast<double>(v.out().elements()));
  save(v, work, v.operand(1));
  return work;
}

// (rows): each is copied to another place.
OperatorWork regroup(const View& v) { return elementwise(v, v.in().bytes(), Bytes(0), 0.0); }

// (rows, chosen, weight, bias, ...): a product an expert, with as many rows each.
OperatorWork grouped_linear(const View& v) {
  const Tensor &x = v.in(0), &w = v.in(2), &y = v.out();
  const std::int64_t count = w.shape[0], in = x.shape[1], out = y.shape[1];
  const std::int64_t rows = std::max<std::int64_t>(1, x.shape[0] / count);
  const Bytes bias = v.operand(3) >= 0 ? v.in(3).bytes() : Bytes(0);
  OperatorWork work;
  work.kind = OperatorClass::Gemm;
  work.forward = product({count, rows, out, in}, x.bytes() + w.bytes() + bias, y.bytes());
  work.input_gradient = product({count, rows, in, out}, y.bytes() + w.bytes(), x.bytes());
  if (w.requires_gradient) work.weight_gradient = product({count, out, in, rows}, y.bytes() + x.bytes(), w.bytes() + bias);
  save(v, work, v.operand(2));
  if (w.requires_gradient) save(v, work, v.operand(0));
  save(v, work, v.operand(1));
  return work;
}

// (rows, weights, chosen): the weighted sum of a token's rows; both gradients need the other factor.
OperatorWork combine(const View& v) {
  OperatorWork work = elementwise(v, v.in(0).bytes() + v.in(1).bytes(), v.in(0).bytes(), 2.0);
  work.input_gradient = traffic(v.out().bytes() + v.in(0).bytes(), v.in(0).bytes() + v.in(1).bytes(),
                                4.0 * static_cast<double>(v.in(0).elements()));
  for (const std::size_t kept : {0U, 1U, 2U}) save(v, work, v.operand(kept));
  return work;
}

// Operators that the builders here add to ATen's.
OperatorWork own_operator(const View& v, std::string_view target) {
  if (target == "panpipe_nn::route") return route(v);
  if (target == "panpipe_nn::dispatch") return dispatch(v);
  if (target == "panpipe_nn::regroup") return regroup(v);
  if (target == "panpipe_nn::grouped_linear") return grouped_linear(v);
  PANPIPE_CHECK(target == "panpipe_nn::combine", "an unknown operator of our own");
  return combine(v);
}

// True if the operator's first arguments are tensors with as many dimensions as its rule reads (0: any number).
bool has_operands(const View& v, std::initializer_list<std::size_t> dimensions) {
  std::size_t position = 0;
  for (const std::size_t wanted : dimensions) {
    if (v.operand(position) < 0) return false;
    const std::size_t found = v.in(position++).shape.size();
    if (wanted > 0 ? found != wanted : found == 0) return false;
  }
  return true;
}

// An operator that works in place costs what its other form costs.
std::string rule_name(std::string_view target) {
  const std::size_t dot = std::min(target.find('.'), target.size());
  if (dot == 0 || target[dot - 1] != '_' || target.ends_with("__")) return std::string(target);
  return fmt::format("{}{}", target.substr(0, dot - 1), target.substr(dot));
}

OperatorWork count(const View& v, bool before_loss) {
  const std::string target = rule_name(v.op.target);
  const bool one = has_operands(v, {0}), two = has_operands(v, {0, 0});
  if (viewed_tensor(v.graph, v.op) >= 0) return view_only();
  if (target == "aten::linear" && two && v.in(1).shape.size() == 2) return linear(v);
  if (target == "aten::add.Tensor" && two) return sum(v);
  if (target == "aten::layer_norm" && one) return normalization(v, 2 * rows_of(v.in().shape));
  if ((target == "aten::rms_norm" || target == "panpipe_nn::zero_centered_rms_norm") && one)
    return normalization(v, rows_of(v.in().shape));
  if (const auto settings = attention_settings(v.op); settings && has_operands(v, {4, 4, 4})) return attention(v, *settings);
  if (target.starts_with("panpipe_nn::")) return own_operator(v, target);
  if (target == "aten::gelu" && one) return activation(v, false, 8.0);
  if (target == "aten::silu" && one) return activation(v, false, 4.0);
  if (target == "aten::tanh" && one) return activation(v, true, 4.0);
  if ((target == "aten::cos" || target == "aten::sin") && one) return activation(v, false, 4.0);
  if (target == "aten::mul.Tensor" && two) return multiply(v);
  if (target == "aten::dropout" && one) return dropout(v);
  if (target.starts_with("panpipe::") && target != "panpipe::vocabulary_parallel_cross_entropy") return collective(v);
  if ((target == "aten::conv1d" || target == "aten::conv2d" || target == "aten::conv3d") && two) return convolution(v, false);
  if (target.starts_with("aten::conv_transpose") && two) return convolution(v, true);
  if ((target == "aten::matmul" || target == "aten::bmm" || target == "aten::mm") && two) return matrix_product(v, 0);
  if ((target == "aten::addmm" || target == "aten::baddbmm") && has_operands(v, {0, 0, 0})) return matrix_product(v, 1);
  if (target == "aten::group_norm" && one)
    return normalization(v, 2 * v.in().shape[0] * std::get<std::int64_t>(v.op.arguments[1]));
  if (target == "aten::embedding" && two) return embedding(v);
  if (target == "aten::cross_entropy_loss" && two) return cross_entropy(v, false);
  if (target == "panpipe::vocabulary_parallel_cross_entropy") return cross_entropy(v, true);
  if (target == "aten::mse_loss" && two) return mean_squared_error(v);
  if (target == "aten::cat") return concatenation(v);
  if (target == "aten::neg" && one) return elementwise(v, v.in().bytes(), Bytes(0));
  if (is_cast(target) && one) return cast(v, before_loss);
  if (target == "aten::upsample_nearest2d.vec" && one) return upsample(v);
  if (target == "aten::masked_fill.Scalar" && two) return masked_fill(v);
  if (target == "aten::sub.Tensor" && two) return sum(v);
  if ((target == "aten::lt.Scalar" || target == "aten::ge.Scalar") && one) return elementwise(v, v.in().bytes(), Bytes(0));
  if (target == "aten::logical_or" && two) return elementwise(v, v.in(0).bytes() + v.in(1).bytes(), Bytes(0));
  if (target.starts_with("aten::")) return any_operator(v);
  throw InputError(fmt::format("the operator '{}' at '{}' is not known: its work cannot be counted", v.op.target, v.op.module));
}

}  // namespace

std::vector<OperatorWork> count_work(const OperatorGraph& graph) {
  std::set<int> counted_with_a_loss;
  for (const Operator& op : graph.operators)
    if (is_cross_entropy(op.target) && has_operands({graph, op}, {0, 0})) counted_with_a_loss.insert(cast_before(graph, op));
  std::vector<OperatorWork> works;
  works.reserve(graph.operators.size());
  for (std::size_t i = 0; i < graph.operators.size(); ++i)
    works.push_back(count({graph, graph.operators[i]}, counted_with_a_loss.contains(static_cast<int>(i))));
  return works;
}

std::vector<bool> logits_of(const OperatorGraph& graph) {
  std::vector<bool> logits(graph.tensors.size(), false);
  for (const Operator& op : graph.operators)
    if ((is_cross_entropy(op.target) || op.target == "aten::mse_loss") && has_operands({graph, op}, {0, 0}))
      for_each_logits(graph, op, [&](int index) { logits[static_cast<std::size_t>(index)] = true; });
  return logits;
}

double AttentionShape::attended_share() const {
  const auto keys = static_cast<double>(key_length), back = static_cast<double>(window);
  if (window > 0 && window < key_length) return back / keys * (1 - back / (2 * keys));  // the first queries look back less far
  return causal ? 0.5 : 1.0;
}

namespace {

// A product with a weight that all ranks hold whole, over the rank's own part of the sequence: the narrow products of latent
// attention under sequence parallelism. The other ranks do theirs.
double ranks_with_rows_of_their_own(const View& v) {
  const Shape& x = v.in(0).shape;
  if (!v.graph.sequence_parallel || !v.in(1).gradient_partial || v.graph.inputs.empty()) return 1;
  const Tensor& ids = v.tensor(v.graph.inputs.front());
  const bool own = x.size() == 3 ? x[1] * v.graph.tensor_degree == ids.shape.back()
                                 : x.size() == 2 && x[0] * v.graph.tensor_degree == ids.elements();
  return own ? v.graph.tensor_degree : 1;
}

}  // namespace

Flops model_flops(const OperatorGraph& graph) {
  Flops forward(0), spared(0);  // of the backward: gradients of frozen weights, and of what nothing trained is made of
  const bool frozen = std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& tensor) {
    return tensor.role == TensorRole::Parameter && !tensor.requires_gradient;
  });
  const auto add = [&](const Tensor& x, const Tensor& weight, Flops product) {
    forward += product;
    if (frozen) spared += product * static_cast<double>(!x.requires_gradient + !weight.requires_gradient);
  };
  const auto full_elements = [](const Tensor& weight) {
    double elements = 1;
    for (auto extent : weight.role == TensorRole::Parameter ? weight.full_shape : weight.shape)
      elements *= static_cast<double>(extent);
    return elements;
  };
  for (const Operator& op : graph.operators) {
    const View v{graph, op};
    if (op.target == "aten::linear" && has_operands(v, {0, 0})) {
      add(v.in(0), v.in(1),
          Flops(2.0 * ranks_with_rows_of_their_own(v) * static_cast<double>(rows_of(v.in(0).shape)) * full_elements(v.in(1))));
    } else if (op.target.starts_with("aten::conv") && has_operands(v, {0, 0})) {
      const bool transposed = op.target.starts_with("aten::conv_transpose");
      const double pixels =
          static_cast<double>((transposed ? v.in(0) : v.out()).elements()) / static_cast<double>(v.in(1).shape[0]);
      forward += Flops(2.0 * pixels * full_elements(v.in(1)));
    } else if (const auto settings = attention_settings(op); settings && has_operands(v, {4, 4, 4})) {
      const Shape &q = v.in(0).shape, &k = v.in(1).shape, &value = v.in(2).shape;
      const std::int64_t keys = settings->window > 0 ? std::min(settings->window, k[2]) : k[2];
      forward += Flops(2.0 * graph.tensor_degree * static_cast<double>(q[0] * q[1] * q[2]) *
                       static_cast<double>(keys * (q[3] + value[3])));
    } else if (op.target == "panpipe_nn::grouped_linear") {
      // For one expert, and for all rows of the model, independent of the rows of one rank.
      const double experts =
          static_cast<double>(v.in(2).role == TensorRole::Parameter ? v.in(2).full_shape[0] : v.in(2).shape[0]);
      add(v.in(0), v.in(2),
          Flops(2.0 * static_cast<double>(v.in(0).shape[0]) / graph.expert_rows * full_elements(v.in(2)) / experts));
    } else if (op.target == "aten::matmul" || op.target == "aten::bmm" || op.target == "aten::mm" || op.target == "aten::addmm" ||
               op.target == "aten::baddbmm") {
      const std::size_t first = op.target.find("add") == std::string::npos ? 0 : 1;
      if (v.operand(first) >= 0 && !v.in(first).shape.empty())
        forward += Flops(2.0 * static_cast<double>(v.out().elements()) * static_cast<double>(v.in(first).shape.back()));
    }
  }
  return static_cast<double>(graph.context_degree) * (frozen ? 3.0 * forward - spared : 3.0 * forward);
}

}  // namespace panpipe
