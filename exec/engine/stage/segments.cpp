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

// The entry of a list of ranges that holds the operator, or -1; `ends`: of an entry, its first operator and one past its last.
template <class Range, class Ends>
int entry_with(const std::vector<Range>& ranges, int op, Ends ends) {
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (const auto [first, end] = ends(ranges[i]); op >= first && op < end) return static_cast<int>(i);
  return -1;
}

int recomputed_with(const StageRange& range, int op) {
  return entry_with(range.again, op, [](const auto& again) { return again; });
}
int gathered_with(const StageRange& range, int op) {
  return entry_with(range.gathered, op, [](const GatheredRange& one) { return std::pair(one.first_operator, one.end_operator); });
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
