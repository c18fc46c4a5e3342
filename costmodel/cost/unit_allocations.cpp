#include "costmodel/cost/unit_allocations.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/index.hpp"
#include "costmodel/cost/chain_traffic.hpp"
#include "costmodel/cost/fusion.hpp"
#include "costmodel/cost/unit_template.hpp"
#include "costmodel/cost/whole_bytes.hpp"

namespace panpipe {
namespace {

using Kind = AllocationStep::Kind;
constexpr double kLossElement = 4;  // bytes: fp32

// Walks the graph once forwards, to find who keeps and who reads last, and then each unit in both directions. Numbers of tensors:
// those of the graph, their gradients, and behind these what operators keep in addition.
class Walk {
 public:
  Walk(const OperatorGraph& graph, const DeviceRates& rates, bool copies_weights)
      : graph_(graph), rates_(rates), copies_weights_(copies_weights), use_(tensor_use(graph)) {
    tensors_ = static_cast<int>(graph.tensors.size());
    last_reader_.assign(graph.tensors.size(), -1);
    first_keeper_.assign(graph.tensors.size(), -1);
    extras_.resize(graph.operators.size());
    next_ = 2 * tensors_;
  }

  std::vector<UnitAllocations> run() {
    std::vector<UnitAllocations> units(graph_.units.size());
    for (int u = 0; u < static_cast<int>(units.size()); ++u) views_.push_back(view_of_unit(graph_, use_, u));
    for (const UnitView& unit : views_)
      for (int i = 0; i < unit.size(); ++i) note(unit, i);
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (int i = 0; i < views_[u].size(); ++i) forward(views_[u], i, units[u]);
      for (int i = views_[u].size(); i > 0; --i) backward(views_[u], i - 1, units[u]);
    }
    return units;
  }

 private:
  struct Extra {
    int number = 0;
    std::int64_t bytes = 0;
  };

  // Autocast leaves the residual stream in fp32: what normalizations read and make, where operators run one by one.
  void note_fp32(const UnitView& unit, int i) {
    if (rates_.weight_cast == 0 || rates_.elementwise != Elementwise::Eager) return;
    if (unit.of(i).kind != OperatorClass::Normalization) return;
    for (const int t : {first_operand(unit.op(i)), unit.op(i).outputs.front()})
      if (unit.activation(t)) in_fp32_.insert(unit.root(t));
  }
  std::int64_t bytes(const UnitView& unit, int t) const {
    const Bytes whole = unit.tensor(t).bytes();
    return in_fp32_.contains(t) ? whole_bytes(static_cast<double>(whole.base()) * rates_.residual / rates_.element).base()
                                : whole.base();
  }

  static bool is_view(const UnitView& unit, int i) { return unit.of(i).kind == OperatorClass::View; }

  void note(const UnitView& unit, int i) {
    const int op = unit.first + i;
    for_each_operand(unit.op(i), [&](int t) {
      if (unit.activation(t)) last_reader_[at(unit.root(t))] = op;
    });
    SavedTensors saved;
    keep_operator(unit, i, rates_, adds_masks(unit, rates_), saved);
    for (const auto* list : {&saved.tensors, &saved.narrow})
      for (const int t : *list)
        if (int& keeper = first_keeper_[at(t)]; keeper < 0) keeper = op;
    std::vector<Extra>& extras = extras_[at(op)];
    const auto add = [&](double bytes) {
      if (bytes >= 1) extras.push_back({next_++, whole_bytes(bytes).base()});
    };
    note_fp32(unit, i);
    const int input = first_operand(unit.op(i));  // its second half is not an extra here, but a part of the tensor
    const bool whole = unit.of(i).kind == OperatorClass::Normalization && in_fp32_.contains(unit.root(input));
    add(saved.extra -
        (whole ? static_cast<double>(bytes(unit, unit.root(input)) - unit.tensor(unit.root(input)).bytes().base()) : 0));
    for (const int t : saved.copies) add(unit.bytes(t));
    if (copies_weights_) add(weight_copies(unit, i));
    // The loss keeps its log-softmax in fp32.
    add(std::min(kLossElement, rates_.loss_live_bytes) * logits(unit, i));
  }

  // A loss that holds gradients in fp32 next to its log-softmax casts the logits first.
  std::int64_t cast_logits(double loss) const {
    return rates_.element < kLossElement && rates_.loss_live_bytes >= 2 * kLossElement ? whole_bytes(kLossElement * loss).base()
                                                                                       : 0;
  }

  void forward(const UnitView& unit, int i, UnitAllocations& result) {
    const int op = unit.first + i;
    const std::int64_t cast = cast_logits(logits(unit, i));
    const int scratch = next_;
    if (cast > 0) result.forward.push_back({Kind::Take, next_++, cast});
    for (const Extra& extra : extras_[at(op)]) {
      result.forward.push_back({Kind::Take, extra.number, extra.bytes});
      result.kept.push_back(extra.number);
    }
    if (cast > 0) result.forward.push_back({Kind::Give, scratch, 0});
    if (!is_view(unit, i))
      for (const int out : unit.op(i).outputs)
        if (unit.activation(out) && unit.root(out) == out) {
          result.forward.push_back({Kind::Take, out, bytes(unit, out)});
          if (first_keeper_[at(out)] >= 0) result.kept.push_back(out);
        }
    std::vector<int> read;
    for_each_operand(unit.op(i), [&](int t) {
      if (!unit.activation(t)) return;
      const int owner = unit.root(t);
      if (last_reader_[at(owner)] != op || first_keeper_[at(owner)] >= 0) return;
      if (add_once(read, owner)) result.forward.push_back({Kind::Give, owner, 0});
    });
  }

  void take_gradient(const UnitView& unit, int t, UnitAllocations& result) const {
    const int owner = unit.root(t);
    if (!unit.activation(t) || !unit.tensor(owner).requires_gradient) return;
    result.backward.push_back({Kind::Take, tensors_ + owner, unit.tensor(owner).bytes().base()});
  }

  void backward(const UnitView& unit, int i, UnitAllocations& result) {
    const int op = unit.first + i;
    // The loss's gradients are in fp32, one made of the other: of the log-softmax first, of the logits last, which are cast when
    // the others are gone.
    const double loss = logits(unit, i), more = std::max(0.0, rates_.loss_live_bytes - kLossElement);
    const int scratch = next_, count = loss > 0 ? static_cast<int>(std::ceil(more / kLossElement)) : 0;
    for (int n = 0; n < count; ++n) result.backward.push_back({Kind::Take, next_++, whole_bytes(more / count * loss).base()});
    for (int n = 0; n + 1 < count; ++n) result.backward.push_back({Kind::Give, scratch + n, 0});
    if (loss > 0)
      for (const Extra& extra : extras_[at(op)]) result.backward.push_back({Kind::Give, extra.number, 0});
    if (!is_view(unit, i)) for_each_operand(unit.op(i), [&](int t) { take_gradient(unit, t, result); });
    for_each_operand(unit.op(i), [&](int t) {
      const Tensor& tensor = unit.tensor(t);
      if (tensor.role == TensorRole::Parameter && tensor.requires_gradient)
        result.backward.push_back({Kind::WeightGradient, tensor.tied_to >= 0 ? tensor.tied_to : t, tensor.bytes().base()});
    });
    if (count > 0) result.backward.push_back({Kind::Give, scratch + count - 1, 0});
    if (!is_view(unit, i))
      for (const int out : unit.op(i).outputs)
        if (unit.activation(out) && unit.root(out) == out) result.backward.push_back({Kind::Give, tensors_ + out, 0});
    for (const Extra& extra : extras_[at(op)]) result.backward.push_back({Kind::Give, extra.number, 0});
    for (const int t : kept_by(unit, op)) result.backward.push_back({Kind::Give, t, 0});
  }

  // Tensors of which `op` is the first, and so in the backward the last, to keep them.
  std::vector<int> kept_by(const UnitView& unit, int op) const {
    std::vector<int> kept;
    const auto add = [&](int t) {
      const int owner = unit.root(t);
      if (unit.activation(t) && first_keeper_[at(owner)] == op) add_once(kept, owner);
    };
    for_each_operand(graph_.operators[at(op)], add);
    for (const int out : graph_.operators[at(op)].outputs) add(out);
    return kept;
  }

  const OperatorGraph& graph_;
  const DeviceRates& rates_;
  const bool copies_weights_;
  const TensorUse use_;
  int tensors_ = 0, next_ = 0;
  std::vector<UnitView> views_;
  std::vector<int> last_reader_, first_keeper_;  // per tensor: an operator; -1: none
  std::vector<std::vector<Extra>> extras_;       // per operator
  std::set<int> in_fp32_;                        // roots of tensors
};

}  // namespace

std::vector<UnitAllocations> unit_allocations(const OperatorGraph& graph, const DeviceRates& rates, bool copies_weights) {
  return Walk(graph, rates, copies_weights).run();
}

}  // namespace panpipe
