#include "exec/engine/stage/segments.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe::exec {
namespace {

const Operator& operator_of(const OperatorGraph& graph, int index) { return graph.operators[index]; }

// Is the work after this operator divided, given that before it?
bool divided_after(const Operator& op, bool before) {
  if (op.among != Among::Tensor) return before;
  if (op.backward_collective == CollectiveKind::AllReduce || op.backward_collective == CollectiveKind::ReduceScatter) return true;
  if (op.forward_collective == CollectiveKind::AllReduce || op.forward_collective == CollectiveKind::ReduceScatter) return false;
  return before;
}

bool is_value(const Tensor& tensor) { return tensor.role == TensorRole::Input || tensor.role == TensorRole::Activation; }

void find_flow(const OperatorGraph& graph, const StageRange& range, std::vector<StagePart>& parts) {
  std::map<int, std::size_t> maker, last_reader;
  const std::set<int> leaving(range.outputs.begin(), range.outputs.end());
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::set<int> reads;
    for (int op = parts[p].first_operator; op < parts[p].end_operator; ++op) {
      for_each_operand(operator_of(graph, op), [&](int tensor) {
        const auto made = maker.find(tensor);
        if (!is_value(graph.tensors[tensor]) || (made != maker.end() && made->second == p)) return;
        reads.insert(tensor);
        last_reader[tensor] = p;
      });
      for (const int tensor : operator_of(graph, op).outputs) maker[tensor] = p;
    }
    parts[p].reads.assign(reads.begin(), reads.end());
  }
  for (const auto& [tensor, p] : maker)
    if (leaving.count(tensor) > 0 || last_reader.count(tensor) > 0) parts[p].makes.push_back(tensor);
  for (const auto& [tensor, p] : last_reader)
    if (leaving.count(tensor) == 0) parts[p].dead.push_back(tensor);
}

}  // namespace

namespace {

// The entry of range.again that holds the operator, or none.
int recomputed_with(const StageRange& range, int op) {
  for (std::size_t i = 0; i < range.again.size(); ++i)
    if (op >= range.again[i].first && op < range.again[i].second) return static_cast<int>(i);
  return -1;
}

// The entry of range.gathered that holds the operator, or none.
int gathered_with(const StageRange& range, int op) {
  for (std::size_t i = 0; i < range.gathered.size(); ++i)
    if (op >= range.gathered[i].first_operator && op < range.gathered[i].end_operator) return static_cast<int>(i);
  return -1;
}

}  // namespace

std::vector<StagePart> cut_at_collectives(const OperatorGraph& graph, const StageRange& range) {
  bool divided = false;
  for (int op = 0; op < range.first_operator; ++op)
    if (communicates(operator_of(graph, op))) divided = divided_after(operator_of(graph, op), divided);
  std::vector<StagePart> parts;
  for (int op = range.first_operator; op < range.end_operator; ++op) {
    const bool communication = communicates(operator_of(graph, op));
    const int again = recomputed_with(range, op), gathered = gathered_with(range, op);
    if (communication || parts.empty() || parts.back().communicates || again != recomputed_with(range, op - 1) ||
        gathered != gathered_with(range, op - 1)) {
      StagePart& part = parts.emplace_back();
      part.first_operator = op;
      part.communicates = communication;
      part.divided = divided;
      part.again = again >= 0;
      if (gathered >= 0) part.group = range.gathered[gathered].group;
    }
    parts.back().end_operator = op + 1;
    if (communication) divided = divided_after(operator_of(graph, op), divided);
  }
  find_flow(graph, range, parts);
  return parts;
}

}  // namespace panpipe::exec
