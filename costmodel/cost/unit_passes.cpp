// Passes of a unit: its operators in their order, with the pauses between kernels.
#include <algorithm>
#include <utility>

#include "base/index.hpp"
#include "costmodel/cost/graph_cost.hpp"

namespace panpipe {

// `product`: may be cut, so it stays a separate piece until cut_products() has processed it.
void GraphCost::add_operator(PassCost& pass, const Breakdown& cost, Duration gap, bool weight, bool product) {
  Breakdown with_gap = cost;
  with_gap.launch = gap;
  with_gap.total = cost.total + gap;
  pass.breakdown = pass.breakdown + with_gap;
  if (with_gap.total <= Duration(0)) return;
  if (pass.pieces.empty() || pass.pieces.back().collective || pass.pieces.back().weight != weight ||
      pass.pieces.back().chunk != product) {
    pass.pieces.emplace_back();
    pass.pieces.back().weight = weight;
    pass.pieces.back().chunk = product;
  }
  pass.pieces.back().time += with_gap.total;
}

// Operators in their order; in a whole forward but for a residual sum that each rank makes of its part before the collective.
void GraphCost::add_forward(const UnitTemplate& shape, const UnitHost& host, const ForwardPart& part, PassCost& pass) {
  const bool early = part.whole && framework().residual_before_reduction && shape.collectives > 0;
  const bool cuts = part.whole && tensor_chunks() > 1;
  const auto add = [&](const OperatorTime& op) {
    const Duration gap = op.counted ? part.gap(op) : Duration(0);
    if (op.over_context()) return add_over_context(pass, op, op.forward, gap, false);
    add_operator(pass, op.forward, gap, false, cuts && op.weight_products > 0);
  };
  pass.host += host.again(part.runs).host;
  const bool routes = shape.dispatch >= 0 && part.runs[at(shape.dispatch)];
  bool added = false;  // the residual sum
  for (std::size_t i = 0; i < shape.operators.size(); ++i) {
    const OperatorTime& op = shape.operators[i];
    if (!part.runs[i]) continue;
    if (routes && i == at(shape.dispatch)) add_exchange_of_counts(shape, pass);
    if (!(added && op.residual)) add(op);
    if (early && !added && op.forward_collective == CollectiveKind::AllReduce) {
      std::for_each(shape.operators.begin() + static_cast<std::ptrdiff_t>(i) + 1, shape.operators.end(),
                    [&](const OperatorTime& later) {
                      if (later.residual) add(later);
                    });
      added = true;
    }
    if (part.sends(i)) add_collective(pass, op, op.forward_collective, false);
  }
  if (part.whole) cut_products(pass);
  if (routes) wait_for_rows(shape, host, part, pass);
}

void GraphCost::add_input_gradient(PassCost& pass, const OperatorTime& op, Duration gap) {
  const Duration own = op.counted ? gap : Duration(0);
  if (op.over_context()) return add_over_context(pass, op, op.input_gradient, own, true);
  add_operator(pass, op.input_gradient, own, false, tensor_chunks() > 1 && op.weight_products > 0);
}

// Operator by operator from the last, each weight gradient after its input gradient. The one of a row-parallel product precedes
// the collective of the unit's input gradient; the one of a column-parallel product runs next to it.
PassCost GraphCost::make_backward(const UnitTemplate& shape, const UnitCost& unit, const UnitHost& host, Duration input_gap) {
  const PassCost &input = unit.input_gradient, &weight = unit.weight_gradient;
  PassCost pass;
  std::vector<const OperatorTime*> behind;
  const auto add_weight = [&](const OperatorTime& op) {
    add_operator(pass, op.weight_gradient, gap(host.weight_gradient(op).kernels), true);
  };
  for (auto op = shape.operators.rbegin(); op != shape.operators.rend(); ++op) {
    add_input_gradient(pass, *op, input_gap);
    if (op->enters_parallel)
      behind.push_back(&*op);
    else
      add_weight(*op);
    add_collective(pass, *op, op->backward_collective, true);
    if (op->backward_collective == CollectiveKind::None || op->among != Among::Tensor) continue;
    for (const OperatorTime* late : behind) add_weight(*late);
    behind.clear();
  }
  for (const OperatorTime* late : behind) add_weight(*late);
  cut_products(pass);
  pass.breakdown = input.breakdown + weight.breakdown;
  pass.host = input.host;
  pass.host += weight.host;
  pass.synchronises = shape.loss || shape.head;
  return pass;
}

UnitCost GraphCost::make_unit(const UnitTemplate& shape, const Launches& launches) {
  UnitCost unit;
  const UnitHost host(shape, launches, framework(), calibration_);
  const PassLaunches forward = host.forward(), input = host.input_gradient();
  unit.input_gradient.host = input.host;
  unit.weight_gradient.host = host.weight_gradient().host;
  const auto gap_of = [&](const PassLaunches& pass) { return gap(pass.kernels / std::max(shape.counted, 1)); };  // per operator
  const Duration forward_gap = gap_of(forward), input_gap = gap_of(input);
  std::vector<bool> attention;
  for (const OperatorTime& op : shape.operators) {
    add_operator(unit.weight_gradient, op.weight_gradient, gap(host.weight_gradient(op).kernels));
    attention.push_back(op.attention);
    if (!op.attention) continue;
    unit.attention_forward += op.forward.total;
    unit.attention_backward += op.input_gradient.total;
    unit.causal_attention = unit.causal_attention || op.causal;
  }
  add_forward(shape, host,
              {std::vector<bool>(attention.size(), true), [](std::size_t) { return true; },
               [&](const OperatorTime&) { return forward_gap; }, true},
              unit.forward);
  // Full recompute runs the forward again, selective recompute the attention core.
  unit.recompute_full = unit.forward;
  if (shape.attention)
    add_forward(shape, host,
                {std::move(attention), [](std::size_t) { return false; }, [](const OperatorTime&) { return Duration(0); }},
                unit.recompute_selective);
  for (auto op = shape.operators.rbegin(); op != shape.operators.rend(); ++op) {
    add_input_gradient(unit.input_gradient, *op, input_gap);
    add_collective(unit.input_gradient, *op, op->backward_collective, true);
  }
  cut_products(unit.input_gradient);
  if (shape.collectives > 0 && framework().overlap_tensor_collectives)
    unit.backward = make_backward(shape, unit, host, input_gap);
  if (captured_)
    for (PassCost* pass :
         {&unit.forward, &unit.input_gradient, &unit.weight_gradient, &unit.recompute_full, &unit.recompute_selective})
      launch_at_once(*pass);
  if (captured_ && unit.backward) launch_at_once(*unit.backward);
  if (shape.loss || shape.head)
    unit.forward.synchronises = unit.input_gradient.synchronises = unit.weight_gradient.synchronises = true;
  unit.temporary = shape.temporary;
  unit.weight_copies = unit.weight_copies_selective = shape.weight_copies;
  unit.logits = shape.logits;
  unit.graph_inputs = shape.graph_inputs;
  Bytes saved = shape.saved_inside;
  for (const SavedExternal& s : shape.saved_external) saved += s.bytes;
  unit.kept_for_weight = std::min(shape.kept_for_weight, saved);
  return unit;
}

}  // namespace panpipe
