#include "costmodel/workload/operator_rules.hpp"

#include <algorithm>
#include <utility>

#include "costmodel/workload/aliases.hpp"
#include "costmodel/workload/attention_operator.hpp"
#include "costmodel/workload/operands.hpp"

namespace panpipe {
namespace {

// The tensor that the backward of `index` holds. Views share the storage of their source, so the source is named. The input of a
// column-parallel product under sequence parallelism is kept as this rank's part and gathered again (Korthikanti et al.).
int storage_of(const OperatorView& v, int index) {
  for (;;) {
    if (v.producer(index) < 0) return index;
    const Operator& producer = v.graph.operators[v.producer(index)];
    // Megatron's f: its backward adds up what its forward gave to all.
    const bool gathered_again =
        row_of(producer).role == OperatorRole::Collective && (producer.backward_collective == CollectiveKind::AllReduce ||
                                                              producer.backward_collective == CollectiveKind::ReduceScatter);
    const int looked_at = gathered_again ? tensor_argument(producer, "self") : viewed_tensor(v.graph, producer);
    if (looked_at < 0) return index;
    index = looked_at;
  }
}

}  // namespace

namespace work_rules {

Flops product_flops(const GemmShape& s) {
  return Flops(2.0 * static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.n) *
               static_cast<double>(s.k));
}

PassWork traffic(Bytes read, Bytes written, double operations) { return {Flops(operations), read, written, {}}; }

OperatorWork made(OperatorClass kind, PassWork forward, PassWork input_gradient) {
  OperatorWork work;
  work.kind = kind;
  work.forward = std::move(forward);
  work.input_gradient = std::move(input_gradient);
  return work;
}

void keep(const OperatorView& v, OperatorWork& work, int index) {
  if (index < 0) return;
  const int storage = storage_of(v, index);
  if (std::find(work.saved.begin(), work.saved.end(), storage) == work.saved.end()) work.saved.push_back(storage);
}

std::int64_t rows_of(const Shape& shape) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

}  // namespace work_rules

namespace {

using namespace work_rules;

// The gradients of weight and bias need the same tensors as the input's and come from the same pass.
OperatorWork normalization(const OperatorView& v, std::int64_t statistics) {
  const Tensor& x = v.in("input");
  const Bytes parameters = v.bytes("weight") + v.bytes("bias");
  const auto elements = static_cast<double>(x.elements());
  OperatorWork work = made(OperatorClass::Normalization, traffic(x.bytes() + parameters, x.bytes(), 5.0 * elements),
                           traffic(x.bytes() + x.bytes() + parameters, x.bytes() + parameters, 9.0 * elements));
  keep(v, work, v.operand("input"));
  keep(v, work, v.operand("weight"));
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
  if (v.out().requires_gradient) keep(v, work, kept);
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
    keep(v, work, v.operand(v.row.names[1]));
  }
  if (b.requires_gradient) {
    read += a.bytes();
    written += b.bytes();
    keep(v, work, v.operand(v.row.names[0]));
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
    for (const int index : floats) keep(v, work, index);
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
  keep(v, work, v.operand("indices"));
  return work;
}

// Keeps the log-softmax (or, cut over the vocabulary, the softmax) in the loss's own format. A cast of
// the logits in front of it is counted here.
template <bool vocabulary_parallel>
OperatorWork cross_entropy(const OperatorView& v) {
  const Tensor &logits = v.first(), &labels = v.in("target");
  Bytes cast_read(0), cast_written(0);
  if (const int cast = cast_before(v); cast >= 0) {
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
  keep(v, work, v.operand("target"));
  // Largest logit, sum of exponentials and the label's logit of every row.
  if (vocabulary_parallel) work.collective_bytes = Bytes(3 * kStatisticBytes * labels.elements());
  return work;
}

OperatorWork squared_error(const OperatorView& v) {
  const Tensor &x = v.first(), &target = v.in("target");
  const auto elements = static_cast<double>(x.elements());
  OperatorWork work = made(OperatorClass::Loss, traffic(x.bytes() + target.bytes(), v.out().bytes(), 3.0 * elements),
                           traffic(x.bytes() + target.bytes(), x.bytes(), 2.0 * elements));
  keep(v, work, v.operand(v.row.names[0]));
  keep(v, work, v.operand("target"));
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
  if (v.out().requires_gradient) keep(v, work, v.operand("mask"));
  return work;
}

// Scores, the best of them, and their weights.
OperatorWork route(const OperatorView& v) {
  OperatorWork work = elementwise(v, v.in("logits").bytes(), v.in("logits").bytes(), 8.0);
  if (v.out().requires_gradient) {
    work.input_gradient.written = v.in("logits").bytes();
    keep(v, work, v.operand("logits"));
  }
  return work;
}

// Every row is copied to each of its experts; backward the copies' gradients are added.
OperatorWork dispatch(const OperatorView& v) {
  OperatorWork work = elementwise(v, v.out().bytes(), Bytes(0), 0.0);
  if (v.out().requires_gradient)
    work.input_gradient = traffic(v.out().bytes(), v.in("rows").bytes(), static_cast<double>(v.out().elements()));
  keep(v, work, v.operand("chosen"));
  return work;
}

// Each row is copied to another place.
OperatorWork regroup(const OperatorView& v) { return elementwise(v, v.in("rows").bytes(), Bytes(0), 0.0); }

// The weighted sum of a token's rows; both gradients need the other factor.
OperatorWork combine(const OperatorView& v) {
  const Tensor &rows = v.in("rows"), &weights = v.in("weights");
  OperatorWork work = elementwise(v, rows.bytes() + weights.bytes(), rows.bytes(), 2.0);
  work.input_gradient =
      traffic(v.out().bytes() + rows.bytes(), rows.bytes() + weights.bytes(), 4.0 * static_cast<double>(rows.elements()));
  for (const char* kept : {"rows", "weights", "chosen"}) keep(v, work, v.operand(kept));
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

const WorkRule kAnyOperator{any_operator<true>};
const WorkRule kKeepsNothing{any_operator<false>};
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

}  // namespace work_rules
}  // namespace panpipe
