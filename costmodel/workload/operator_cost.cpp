#include "costmodel/workload/operator_cost.hpp"

#include <algorithm>
#include <set>

#include "costmodel/workload/aliases.hpp"
#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_rules.hpp"
#include "costmodel/workload/work_of_part.hpp"

namespace panpipe {
namespace {

// The tensor from which an operator makes logits of a loss: the only activation that it reads, without parameters, element by
// element or as a view. -1: none, its results are the first logits.
int logits_before(const OperatorGraph& graph, const Operator& op) {
  if (const int viewed = viewed_tensor(graph, op); viewed >= 0)
    return graph.tensors[viewed].role == TensorRole::Activation ? viewed : -1;
  int source = -1, others = 0;
  for_each_operand(op, [&](int index) {
    const TensorRole role = graph.tensors[index].role;
    if (role == TensorRole::Activation && source < 0)
      source = index;
    else
      others += role == TensorRole::Activation || role == TensorRole::Parameter;
  });
  if (source < 0 || others > 0) return -1;
  const Tensor &in = graph.tensors[source], &out = graph.tensors[op.outputs.front()];
  const OperatorRow& row = row_of(op);
  return row.role == OperatorRole::Padding || row.between_ranks() || in.elements() == out.elements() ? source : -1;
}

// Calls visit(tensor) for the logits of a loss, from its own input back to the first.
template <class Visit>
void for_each_logits(const OperatorView& loss, Visit visit) {
  int index = loss.operand(loss.row.names[0]);
  while (index >= 0 && loss.tensor(index).role == TensorRole::Activation) {
    visit(index);
    const int producer = loss.producer(index);
    index = producer < 0 ? -1 : logits_before(loss.graph, loss.graph.operators[producer]);
  }
}

bool is_loss(const OperatorView& v) { return v.row.role == OperatorRole::Loss && v.row.work->fits(v); }

OperatorWork count(const OperatorView& v, bool before_loss) {
  OperatorWork nothing;
  nothing.kind = OperatorClass::View;
  if (before_loss || viewed_tensor(v.graph, v.op) >= 0) return nothing;
  const WorkRule& rule = v.row.work->fits(v) ? *v.row.work : work_rules::kAnyOperator;
  return rule.work(v);
}

}  // namespace

int cast_before(const OperatorView& loss) {
  int cast = -1;
  for_each_logits(loss, [&](int index) {
    const int producer = loss.producer(index);
    if (cast < 0 && producer >= 0 && row_of(loss.graph.operators[producer]).role == OperatorRole::Cast) cast = producer;
  });
  return cast;
}

std::vector<OperatorWork> count_work(const OperatorGraph& graph, int first, int end) {
  const auto view = [&](int i) { return OperatorView{graph, graph.operators[i], row_of(graph.operators[i]), first}; };
  std::set<int> counted_with_a_loss;
  for (int i = first; i < end; ++i)
    if (is_loss(view(i)) && is_over_classes(graph.operators[i])) counted_with_a_loss.insert(cast_before(view(i)));
  std::vector<OperatorWork> works;
  works.reserve(end - first);
  for (int i = first; i < end; ++i) works.push_back(count(view(i), counted_with_a_loss.contains(i)));
  return works;
}

std::vector<OperatorWork> count_work(const OperatorGraph& graph) {
  return count_work(graph, 0, static_cast<int>(graph.operators.size()));
}

std::vector<bool> logits_of(const OperatorGraph& graph) {
  std::vector<bool> logits(graph.tensors.size(), false);
  for (const Operator& op : graph.operators)
    if (const OperatorView v{graph, op, row_of(op)}; is_loss(v)) for_each_logits(v, [&](int index) { logits[index] = true; });
  return logits;
}

double AttentionShape::attended_share() const {
  const auto keys = static_cast<double>(key_length), back = static_cast<double>(window);
  if (window > 0 && window < key_length) return back / keys * (1 - back / (2 * keys));  // the first queries look back less far
  return causal ? 0.5 : 1.0;
}

Flops model_flops(const OperatorGraph& graph) {
  Flops forward(0), spared(0);  // of the backward: gradients of frozen weights, and of what nothing trained is made of
  const bool frozen = std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& tensor) {
    return tensor.role == TensorRole::Parameter && !tensor.requires_gradient;
  });
  for (const Operator& op : graph.operators) {
    const OperatorView v{graph, op, row_of(op)};
    if (v.row.work->model == nullptr || !v.row.work->fits(v)) continue;
    const ModelProduct product = v.row.work->model(v);
    forward += product.forward;
    for (const Tensor* tensor : {product.input, product.weight})
      if (frozen && tensor != nullptr && !tensor->requires_gradient) spared += product.forward;
  }
  return static_cast<double>(graph.degrees.context) * (frozen ? 3.0 * forward - spared : 3.0 * forward);
}

}  // namespace panpipe
