#include "costmodel/workload/hidden_matrices.hpp"

#include <cmath>

#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

// The parameter whose values it shares.
int holder_of(const OperatorGraph& graph, int t) { return graph.tensors[t].tied_to >= 0 ? graph.tensors[t].tied_to : t; }

MatrixStack stack_of(const Tensor& parameter, bool experts) {
  const Shape& part = parameter.shape;
  const Shape& whole = parameter.full_shape.size() == part.size() ? parameter.full_shape : part;
  const std::size_t dimensions = part.size();
  if (dimensions != (experts ? 3U : 2U)) return {};
  MatrixStack stack;
  stack.count = dimensions == 3 ? part[0] : 1;
  stack.rows = whole[dimensions - 2];
  stack.columns = whole[dimensions - 1];
  const double pieces =
      static_cast<double>(stack.rows * stack.columns) / static_cast<double>(part[dimensions - 2] * part[dimensions - 1]);
  stack.shards = static_cast<int>(std::lround(pieces));
  stack.by_rows = part[dimensions - 2] < stack.rows;
  return stack;
}

}  // namespace

std::vector<MatrixStack> hidden_matrices(const OperatorGraph& graph) {
  std::vector<bool> multiplies(graph.tensors.size(), false), excluded = multiplies, experts = multiplies;
  const std::vector<bool> logits = logits_of(graph);
  for (const Operator& op : graph.operators) {
    const OperatorRow& row = row_of(op);
    const bool table = row.role == OperatorRole::Embedding;
    if (!table && row.traits.weight.empty()) continue;
    const int weight = tensor_argument(op, table ? "weight" : row.traits.weight);
    if (weight < 0 || graph.tensors[weight].role != TensorRole::Parameter) continue;
    const int root = holder_of(graph, weight);
    (table || logits[op.outputs.front()] ? excluded : multiplies)[root] = true;
    if (row.role == OperatorRole::ExpertProduct) experts[root] = true;
  }
  std::vector<MatrixStack> stacks(graph.tensors.size());
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.role != TensorRole::Parameter || !tensor.requires_gradient) continue;
    const int root = holder_of(graph, static_cast<int>(t));
    if (multiplies[root] && !excluded[root]) stacks[t] = stack_of(tensor, experts[root]);
  }
  return stacks;
}

}  // namespace panpipe
