#include "costmodel/cost/fusion.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/index.hpp"

namespace panpipe {
namespace {

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

bool is_sum(const Operator& op) { return starts_with(op.target, "aten::add") || starts_with(op.target, "aten::sub"); }

// Element-wise operators of one chain run as one kernel: it reads what comes from outside and writes what is used outside.
class Chains {
 public:
  explicit Chains(const UnitView& unit) : unit_(unit), parent_(static_cast<std::size_t>(unit.size())) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (int i = 0; i < unit.size(); ++i) {
      if (unit.of(i).kind != OperatorClass::Elementwise) continue;
      for_each_operand(unit.op(i), [&](int t) {
        const int source = unit.root(t);
        if (!unit.inside(source)) return;
        const int maker = unit.tensor(source).producer - unit.first;
        if (unit.of(maker).kind == OperatorClass::Elementwise) parent_[at(find(maker))] = find(i);
      });
    }
  }
  int find(int i) const {
    while (parent_[at(i)] != i) i = parent_[at(i)];
    return i;
  }

 private:
  const UnitView& unit_;
  std::vector<int> parent_;
};

bool add_once(std::vector<int>& seen, int t) {
  if (std::find(seen.begin(), seen.end(), t) != seen.end()) return false;
  seen.push_back(t);
  return true;
}

// Tensors of the unit that somebody outside the chain `chain` reads.
bool used_outside(const UnitView& unit, const Chains& chains, int chain, int t) {
  if (unit.use->crosses[static_cast<std::size_t>(t)] || t == unit.graph->loss) return true;
  for (int i = 0; i < unit.size(); ++i) {
    if (unit.of(i).kind == OperatorClass::View) continue;
    if (unit.of(i).kind == OperatorClass::Elementwise && chains.find(i) == chain) continue;
    bool reads = false;
    for_each_operand(unit.op(i), [&](int argument) { reads |= unit.root(argument) == t; });
    if (reads) return true;
  }
  for (int i = 0; i < unit.size(); ++i) {  // a view of it that leaves the unit
    if (unit.of(i).kind != OperatorClass::View) continue;
    for (int out : unit.op(i).outputs)
      if (unit.use->crosses[static_cast<std::size_t>(out)] && unit.root(out) == t) return true;
  }
  return false;
}

struct ChainTraffic {
  std::vector<int> read, gradient_of_output, needed_in_backward, gradient_of_input;
  double forward = 0, backward = 0;
};

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

// An activation used by k operators gets k gradients, summed two at a time: two reads and a write for each beyond the
// first. Views that take parts of it share one gradient. The first user pays, wherever the others stand.
void add_accumulation(const UnitView& unit, std::vector<OperatorTraffic>& traffic) {
  std::vector<int> seen;
  for (int i = 0; i < unit.size(); ++i)
    for_each_operand(unit.op(i), [&](int t) {
      if (unit.use->first_user[static_cast<std::size_t>(t)] != unit.first + i || !add_once(seen, t)) return;
      const double gradients = unit.use->gradients[static_cast<std::size_t>(t)];
      traffic[static_cast<std::size_t>(i)].backward += 3 * std::max(0.0, gradients - unit.bytes(t));
    });
}

double bias_gradient(const UnitView& unit, int i) {
  int parameters = 0;
  for_each_operand(
      unit.op(i), [&](int t) { parameters += unit.tensor(t).role == TensorRole::Parameter && unit.tensor(t).shape.size() == 1; });
  return parameters > 0 ? unit.bytes(unit.op(i).outputs.front()) : 0.0;
}

double both_ways(const PassWork& pass) { return static_cast<double>((pass.read + pass.written).base()); }

// The gradients of a normalization's weight and bias come from a kernel of their own, which reads the incoming gradient and
// the input once more.
double second_kernel(const UnitView& unit, int i) {
  const PassWork& counted = unit.of(i).weight_gradient;
  if (counted.read > Bytes(0)) return both_ways(counted);
  double input = 0;
  bool trained = false;
  for_each_operand(unit.op(i), [&](int t) {
    if (unit.activation(t)) input = std::max(input, unit.bytes(t));
    trained |= unit.tensor(t).role == TensorRole::Parameter && unit.tensor(t).requires_gradient;
  });
  return trained ? 2 * input : 0.0;
}

}  // namespace

bool is_residual_sum(const UnitView& unit, int i) {
  const Operator& op = unit.op(i);
  if (!starts_with(op.target, "aten::add")) return false;
  int activations = 0;
  bool same = true;
  for_each_operand(op, [&](int t) {
    activations += unit.activation(t);
    same &= unit.tensor(t).shape == unit.tensor(op.outputs.front()).shape;
  });
  return activations == 2 && same;
}

bool adds_input(const UnitView& unit, int i) {
  bool outside = false;
  for_each_operand(unit.op(i), [&](int t) { outside |= unit.activation(t) && !unit.inside(unit.root(t)); });
  return outside && is_residual_sum(unit, i);
}

bool is_replicated(const UnitView& unit, int i) { return unit.of(i).kind == OperatorClass::Normalization || adds_input(unit, i); }

bool has_dropout(const UnitView& unit) {
  for (int i = 0; i < unit.size(); ++i)
    if (unit.op(i).target.find("dropout") != std::string::npos) return true;
  return false;
}

std::vector<OperatorTraffic> fused_traffic(const UnitView& unit, const DeviceRates& rates) {
  std::vector<OperatorTraffic> result(static_cast<std::size_t>(unit.size()));
  const Chains chains(unit);
  std::vector<ChainTraffic> of_chain(result.size());
  const bool add_masks = rates.dropout && unit.transformer() && !has_dropout(unit);
  for (int i = 0; i < unit.size(); ++i) {
    OperatorTraffic& traffic = result[static_cast<std::size_t>(i)];
    const OperatorWork& work = unit.of(i);
    switch (work.kind) {
      case OperatorClass::Elementwise:
        visit_member(unit, chains, chains.find(i), i, of_chain[static_cast<std::size_t>(chains.find(i))]);
        if (add_masks && is_residual_sum(unit, i)) {
          // Dropout before the sum: a mask of one byte is written, then read; the gradient is read and written.
          const double elements = static_cast<double>(unit.tensor(unit.op(i).outputs.front()).elements());
          traffic.forward += elements;
          traffic.backward += elements + 2 * unit.bytes(unit.op(i).outputs.front());
        }
        break;
      case OperatorClass::Normalization:
        traffic.forward += both_ways(work.forward);
        traffic.backward += both_ways(work.input_gradient) + second_kernel(unit, i);
        break;
      case OperatorClass::Gemm:
        traffic.backward += bias_gradient(unit, i);
        break;
      case OperatorClass::Attention: {
        // Query, key and value are read where they stand; the result is brought into the order of the next product, read and
        // written once more. Backward so are its gradient and those of query, key and value, which become one tensor.
        std::vector<int> seen;
        for_each_operand(unit.op(i), [&](int t) {
          if (unit.activation(t) && add_once(seen, t)) traffic.backward += 2 * unit.bytes(t);
        });
        for (int out : unit.op(i).outputs)
          if (unit.tensor(out).shape.size() == 4) {
            traffic.forward += 2 * unit.bytes(out);
            traffic.backward += 2 * unit.bytes(out);
          }
        break;
      }
      default:
        break;
    }
  }
  // A chain's kernel runs where its last member stands.
  for (int i = 0; i < unit.size(); ++i) {
    result[static_cast<std::size_t>(i)].forward += of_chain[static_cast<std::size_t>(i)].forward;
    result[static_cast<std::size_t>(i)].backward += of_chain[static_cast<std::size_t>(i)].backward;
  }
  add_accumulation(unit, result);
  return result;
}

}  // namespace panpipe
