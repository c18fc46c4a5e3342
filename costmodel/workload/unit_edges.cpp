#include "costmodel/workload/unit_edges.hpp"

#include "costmodel/workload/operands.hpp"

namespace panpipe {

std::vector<UnitEdge> unit_edges(const OperatorGraph& graph) {
  std::vector<UnitEdge> edges;
  std::vector<int> last_reader(graph.tensors.size(), -1);  // a unit's operators stand together
  for (const Operator& op : graph.operators)
    for_each_operand(op, [&](int t) {
      const Tensor& tensor = graph.tensors[t];
      if (tensor.role != TensorRole::Activation) return;
      const int maker = graph.operators[tensor.producer].unit;
      int& reader = last_reader[t];
      if (maker == op.unit || reader == op.unit) return;
      reader = op.unit;
      edges.push_back({maker, op.unit, t, tensor.bytes(), tensor.requires_gradient});
    });
  return edges;
}

}  // namespace panpipe
