#include "costmodel/cost/chain_traffic.hpp"

#include <algorithm>
#include <numeric>

#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

// Tensors of the unit that are read outside the chain `chain`.
bool used_outside(const UnitView& unit, const Chains& chains, int chain, int t) {
  if (unit.use->crosses[t] || t == unit.graph->loss) return true;
  for (int i = 0; i < unit.size(); ++i) {
    if (unit.of(i).kind == OperatorClass::View) continue;
    if (unit.of(i).kind == OperatorClass::Elementwise && chains.find(i) == chain) continue;
    if (any_operand(unit.op(i), [&](int argument) { return unit.root(argument) == t; })) return true;
  }
  for (int i = 0; i < unit.size(); ++i) {  // a view of it that leaves the unit
    if (unit.of(i).kind != OperatorClass::View) continue;
    for (int out : unit.op(i).outputs)
      if (unit.use->crosses[out] && unit.root(out) == t) return true;
  }
  return false;
}

}  // namespace

bool is_sum(const Operator& op) { return row_of(op).role == OperatorRole::Sum; }

Chains::Chains(const UnitView& unit) : parent_(static_cast<std::size_t>(unit.size())) {
  std::iota(parent_.begin(), parent_.end(), 0);
  for (int i = 0; i < unit.size(); ++i) {
    if (unit.of(i).kind != OperatorClass::Elementwise) continue;
    for_each_operand(unit.op(i), [&](int t) {
      const int source = unit.root(t);
      if (!unit.inside(source)) return;
      const int maker = unit.tensor(source).producer - unit.first;
      if (unit.of(maker).kind == OperatorClass::Elementwise) parent_[find(maker)] = find(i);
    });
  }
}

bool add_once(std::vector<int>& seen, int t) {
  if (std::find(seen.begin(), seen.end(), t) != seen.end()) return false;
  seen.push_back(t);
  return true;
}

void visit_member(const UnitView& unit, const Chains& chains, int chain, int i, ChainTraffic& traffic) {
  const Operator& op = unit.op(i);
  const bool passes_through = is_sum(op) && unit.of(i).saved.empty();  // its gradient is the output's: nothing to move
  for_each_operand(op, [&](int t) {
    const int source = unit.root(t);
    const bool from_chain = unit.inside(source) &&
                            unit.of(unit.tensor(source).producer - unit.first).kind == OperatorClass::Elementwise &&
                            chains.find(unit.tensor(source).producer - unit.first) == chain;
    if (from_chain) return;
    if (add_once(traffic.read, source)) traffic.forward += unit.bytes(t);
    if (unit.tensor(t).role == TensorRole::Parameter && unit.tensor(t).requires_gradient)
      traffic.backward += unit.bytes(op.outputs.front());  // sums the gradient over everything but the parameter's shape
    if (passes_through || !unit.activation(t)) return;
    if (unit.tensor(t).requires_gradient && add_once(traffic.gradient_of_input, source)) traffic.backward += unit.bytes(t);
  });
  for (int out : op.outputs) {
    if (!used_outside(unit, chains, chain, out)) continue;
    traffic.forward += unit.bytes(out);
  }
  if (passes_through || !unit.tensor(op.outputs.front()).requires_gradient) return;
  for (int out : op.outputs)
    if (add_once(traffic.gradient_of_output, chain)) traffic.backward += unit.bytes(out);
  const auto extra = static_cast<double>(unit.of(i).saved_extra.base());  // masks: written once, read once
  traffic.forward += extra;
  traffic.backward += extra;
  for (int t : unit.of(i).saved) {
    const int source = unit.root(t);
    if (unit.tensor(t).role == TensorRole::Parameter || !add_once(traffic.needed_in_backward, source)) continue;
    traffic.backward += unit.bytes(t);
  }
}

}  // namespace panpipe
