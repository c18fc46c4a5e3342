#include "costmodel/cost/fusion.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "costmodel/cost/chain_traffic.hpp"
#include "costmodel/cost/narrow_products.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "costmodel/workload/tuning.hpp"

namespace panpipe {
namespace {

double bias_gradient(const UnitView& unit, int i) {
  const auto is_bias = [&](int t) { return unit.tensor(t).role == TensorRole::Parameter && unit.tensor(t).shape.size() == 1; };
  return any_operand(unit.op(i), is_bias) ? unit.bytes(unit.op(i).outputs.front()) : 0.0;
}

double both_ways(const PassWork& pass) { return static_cast<double>((pass.read + pass.written).base()); }

bool trains_parameter(const UnitView& unit, int i) {
  return any_operand(unit.op(i),
                     [&](int t) { return unit.tensor(t).role == TensorRole::Parameter && unit.tensor(t).requires_gradient; });
}

// Of Megatron-Core's experts, whose GroupedLinear adds the bias of the first product and sums its gradient inside the products.
bool adds_bias_by_expert(const UnitView& unit, int i, const DeviceRates& rates) {
  const Operator& op = unit.op(i);
  if (rates.expert_products != ExpertProducts::Each || unit.experts_of(i) == 0 || tensor_argument(op, "bias") < 0) return false;
  const int maker = unit.tensor(tensor_argument(op, "rows")).producer - unit.first;
  return maker >= 0 && maker < unit.size() && row_of(unit.op(maker)).role == OperatorRole::Pointwise;
}

// A gate or a linear half that is clamped first (GPT-OSS).
bool clamps(const Operator& op) {
  return row_of(op).role == OperatorRole::Pointwise && value_argument<double>(op, "limit").has_value();
}

// The gradients of a normalization's weight and bias come from a kernel of their own, which reads the incoming gradient and
// the input once more.
double second_kernel(const UnitView& unit, int i) {
  const PassWork& counted = unit.of(i).weight_gradient;
  if (counted.read > Bytes(0)) return both_ways(counted);
  if (!trains_parameter(unit, i)) return 0;
  double input = 0;
  for_each_operand(unit.op(i), [&](int t) {
    if (unit.activation(t)) input = std::max(input, unit.bytes(t));
  });
  return 2 * input;
}

}  // namespace

bool is_residual_sum(const UnitView& unit, int i) {
  const Operator& op = unit.op(i);
  if (!is_sum(op)) return false;
  int activations = 0;
  bool same = true;
  for_each_operand(op, [&](int t) {
    activations += unit.activation(t);
    same &= unit.tensor(t).shape == unit.tensor(op.outputs.front()).shape;
  });
  return activations == 2 && same;
}

bool adds_input(const UnitView& unit, int i) {
  const auto is_outside = [&](int t) { return unit.activation(t) && !unit.inside(unit.root(t)); };
  return any_operand(unit.op(i), is_outside) && is_residual_sum(unit, i);
}

bool activates_in_operators(const UnitView& unit, int i, const DeviceRates& rates) {
  return rates.elementwise == Elementwise::Eager && rates.activation == ActivationKernel::Operators &&
         row_of(unit.op(i)).role == OperatorRole::Pointwise && row_of(unit.op(i)).traits.composed;
}

bool normalizes_in_operators(const UnitView& unit, int i, const DeviceRates& rates) {
  return rates.elementwise == Elementwise::Eager &&
         (rates.normalization == NormalizationKernel::Operators ||
          (rates.normalization == NormalizationKernel::Modules && row_of(unit.op(i)).traits.composed));
}

bool is_replicated(const UnitView& unit, int i) { return unit.of(i).kind == OperatorClass::Normalization || adds_input(unit, i); }

bool launches_for_each_expert(const UnitView& unit, int i, const DeviceRates& rates) {
  return rates.expert_products == ExpertProducts::Loop ||
         (rates.expert_products == ExpertProducts::Each && unit.experts_of(i) > 0);
}

bool adds_masks(const UnitView& unit, const DeviceRates& rates) {
  if (!rates.dropout || !unit.transformer()) return false;
  for (int i = 0; i < unit.size(); ++i)
    if (row_of(unit.op(i)).role == OperatorRole::Dropout && !is_of_adapter(unit.op(i))) return false;
  return true;
}

namespace {

double elements_out(const UnitView& unit, int i) {
  return static_cast<double>(unit.tensor(unit.op(i).outputs.front()).elements());
}

// Query, key and value are read in place, or (batched products of unfused attention) rearranged by heads. The result is
// rearranged for the next product, read and written once more. In the backward the same happens to its gradient and to those of
// query, key and value, which become one tensor.
void add_reordering(const UnitView& unit, int i, bool in_place, OperatorKernels& traffic) {
  std::vector<int> seen;
  for_each_operand(unit.op(i), [&](int t) {
    if (!unit.activation(t) || !add_once(seen, t)) return;
    traffic.backward += 2 * unit.own_bytes(t);
    if (!in_place) traffic.forward += 2 * unit.own_bytes(t);
  });
  for (int out : unit.op(i).outputs)
    if (unit.tensor(out).shape.size() == 4) {
      traffic.forward += 2 * unit.bytes(out);
      traffic.backward += 2 * unit.bytes(out);
    }
}

// The kernels of every operator: what each moves and how many there are. `elementwise: fused` makes one of each chain; `compiled`
// also puts sums into the kernels around them; `eager` has one for each operator, or several. With e bytes an element, and r of
// residuals and normalizations (fp32 under autocast).
class UnitKernels {
 public:
  UnitKernels(const UnitView& unit, const DeviceRates& rates)
      : unit_(unit),
        rates_(rates),
        fused_(rates.elementwise == Elementwise::Fused),
        compiled_(rates.elementwise == Elementwise::Compiled),
        eager_(rates.elementwise == Elementwise::Eager),
        autocast_(rates.weight_cast > 0),
        masks_(adds_masks(unit, rates)),
        e_(rates.element),
        r_(rates.residual),
        chains_(unit),
        of_chain_(at(unit.size())),
        result_(at(unit.size())) {}

  std::vector<OperatorKernels> run() {
    for (int i = 0; i < unit_.size(); ++i) {
      OperatorKernels& kernels = result_[i];
      switch (unit_.of(i).kind) {
        case OperatorClass::Gemm:
          add_product(i, kernels);
          break;
        case OperatorClass::Attention:
          add_attention(i, kernels);
          break;
        case OperatorClass::Normalization:
          add_normalization(i, kernels);
          break;
        case OperatorClass::Elementwise:
          if (adds_input(unit_, i) && !fused_)
            add_residual(i, kernels);
          else
            eager_ ? add_elementwise(i, kernels) : add_to_chain(i, kernels);
          break;
        case OperatorClass::Embedding:
        case OperatorClass::Loss:
          kernels.launch(1, 1);
          break;
        default:
          break;
      }
    }
    for (int i = 0; i < unit_.size(); ++i) {
      result_[i].forward += of_chain_[i].forward;
      result_[i].backward += of_chain_[i].backward;
    }
    add_sums_of_gradients();
    if (rates_.expert_products != ExpertProducts::Grouped) launch_for_each_expert();
    return std::move(result_);
  }

 private:
  // TorchInductor makes two kernels of a sum over rows, one for parts of them.
  int row_sum() const { return compiled_ ? 2 : 1; }

  // Bytes of products are their own; here are casts, and the sum of a bias's gradient (in 8 bits a part of the gradient's cast).
  void add_product(int i, OperatorKernels& kernels) {
    const OperatorWork& work = unit_.of(i);
    const bool eight = is_narrow(unit_, i, rates_);
    if (const double sum = eight ? 0 : bias_gradient(unit_, i); sum > 0) {
      kernels.backward += sum;
      kernels.launch(0, row_sum());
    }
    int parameters = 0, trained = 0;
    for_each_operand(unit_.op(i), [&](int t) {
      parameters += unit_.tensor(t).role == TensorRole::Parameter;
      trained += unit_.tensor(t).role == TensorRole::Parameter && unit_.tensor(t).requires_gradient;
      if (!autocast_ || !eager_ || !unit_.activation(t) || !unit_.normalized(t)) return;
      // Under autocast each product casts what a normalization left in fp32, and the gradient back.
      const double n = static_cast<double>(unit_.tensor(t).elements());
      kernels.forward += (r_ + e_) * n;
      kernels.backward += (r_ + e_) * n;
      kernels.launch(1, 1);
    });
    const auto products = [](const PassWork& pass) { return static_cast<int>(pass.gemms.size()); };
    kernels.weight_launches =
        products(work.weight_gradient) + (autocast_ ? trained : 0) + (rates_.accumulation > 0 ? trained : 0);
    kernels.launch(products(work.forward) + (autocast_ ? parameters : 0),
                   products(work.input_gradient) + kernels.weight_launches);
    if (rates_.unpacking > 0 && unit_.frozen_weight(i) > 0) kernels.launch(1, work.input_gradient.gemms.empty() ? 0 : 1);
    if (adds_bias_by_expert(unit_, i, rates_)) add_bias_by_expert(i, kernels);
    if (!eight) return;
    const Casts casts = casts_of(unit_, i, rates_);
    kernels.launch(casts.forward_launches, casts.backward_launches);
  }

  // The bias of the last product is weighted by the router and added for each expert in Python (Megatron-Core, experts.py,
  // _apply_bias): bias times weight, sum, and all experts' rows copied into one tensor. Backward: both products with their sums
  // over rows and over features, and the copy of the parts' gradients.
  void add_bias_by_expert(int i, OperatorKernels& kernels) {
    const double n = elements_out(unit_, i);
    const int experts = unit_.experts_of(i);
    kernels.forward += (1 + 3 + 2) * e_ * n;
    kernels.backward += (3 + 3 + 2) * e_ * n;
    kernels.around_forward = 2 * experts + 1;
    kernels.around_backward = 4 * experts + 1;
  }

  // Two products, and four in the backward, instead of a fused kernel and its three backward kernels. Rearranging by heads:
  // query, key, value and the result; in the backward all four gradients, or if query, key and value are one tensor, the result's
  // and that tensor's.
  void add_attention(int i, OperatorKernels& kernels) {
    add_reordering(unit_, i, rates_.flash || fused_, kernels);
    const int on_scores = 2 + (autocast_ ? 1 : 0) + (unit_.of(i).attention.causal ? 1 : 0) + (masks_ ? 1 : 0);
    if (rates_.flash)
      kernels.launch(1, 4);  // backward: row sums, the gradients, that of queries to its format; and the tensor of all three
    else if (fused_ || rates_.score_mask <= 0)
      kernels.launch(2 + 1 + (compiled_ ? 4 : 1), 4 + 1 + 4);  // one kernel on the scores
    else
      kernels.launch(2 + on_scores + 4, 4 + on_scores + 4);
  }

  // One kernel reads and writes the tensor; backward one reads gradient and input and writes a gradient, one reads both for the
  // weight's. A compiled one finds its input where the sum before it was made, leaves its result in the products' format, and
  // writes its gradient with the sum of the residual's (add_sums_of_gradients).
  void add_normalization(int i, OperatorKernels& kernels) {
    const double n = elements_out(unit_, i);
    const bool trains = trains_parameter(unit_, i);
    if (normalizes_in_operators(unit_, i, rates_)) {
      // To fp32, square, mean, product, back, times the weight; and the gradients of each: docs/models/compute.md.
      kernels.forward += (28 + 4 * e_) * n;
      kernels.backward += (56 + 8 * e_) * n;
      return kernels.launch(8, 15);
    }
    kernels.launch(1, 1 + (trains ? row_sum() : 0));
    if (fused_) {
      kernels.forward += both_ways(unit_.of(i).forward);
      kernels.backward += both_ways(unit_.of(i).input_gradient) + second_kernel(unit_, i);
    } else if (compiled_) {
      kernels.forward += e_ * n;
      kernels.backward += (e_ + r_) * (trains ? 2 : 1) * n;
    } else {
      kernels.forward += 2 * r_ * n;
      kernels.backward += (3 + (trains ? 2 : 0)) * r_ * n;
    }
  }

  // The residual and a branch's result are read, and the sum is written. In the backward the residual's gradient passes through;
  // the branch's has another format under autocast. Dropout is a separate kernel, or a mask in the compiled one. A compiled sum
  // is in the kernel of the normalization.
  void add_residual(int i, OperatorKernels& kernels) {
    const double n = elements_out(unit_, i);
    kernels.forward += (r_ + e_ + r_) * n;
    if (autocast_) kernels.backward += (compiled_ ? e_ : r_ + e_) * n;
    if (eager_) kernels.launch(1, autocast_ ? 1 : 0);
    if (!masks_) return;
    kernels.forward += (compiled_ ? 1 : 2 * e_ + 1) * n;
    kernels.backward += (compiled_ ? 1 : 2 * e_ + 1) * n;
    if (eager_) kernels.launch(1, 1);
  }

  // One kernel for a chain. With its masks written and read, if the framework's dropout stands before a residual sum; without, a
  // sum passes its gradient on.
  void add_to_chain(int i, OperatorKernels& kernels) {
    const int chain = chains_.find(i);
    visit_member(unit_, chains_, chain, i, of_chain_[chain]);
    if (fused_ && masks_ && is_residual_sum(unit_, i)) {
      kernels.forward += elements_out(unit_, i);
      kernels.backward += elements_out(unit_, i) + 2 * unit_.bytes(unit_.op(i).outputs.front());
    }
    if (add_once(launched_, chain)) kernels.launch(1, adds_input(unit_, i) && !masks_ ? 0 : 1);
    if (fused_ && rates_.expert_products == ExpertProducts::Each && clamps(unit_.op(i))) add_clamp(i, kernels);
  }

  // Megatron-Core clamps both halves before its fused kernel and copies them into one tensor (fused_bias_geglu.py); each half
  // here. Backward: the clamp's gradient, and a copy into one tensor.
  void add_clamp(int i, OperatorKernels& kernels) {
    const double n = elements_out(unit_, i);
    kernels.forward += (2 + 2) * e_ * n;
    kernels.backward += (3 + 2) * e_ * n;
  }

  // Of a rank's experts: a product each, or everything that a loop does for one of them.
  void launch_for_each_expert() {
    int experts = 1;
    for (int i = 0; i < unit_.size(); ++i) experts = std::max(experts, unit_.experts_of(i));
    const auto [first, end] = unit_.between_experts();
    for (int i = first; i < end; ++i) {
      if (!launches_for_each_expert(unit_, i, rates_)) continue;
      result_[i].forward_launches *= experts;
      result_[i].backward_launches *= experts;
      result_[i].weight_launches *= experts;
    }
  }

  // A kernel reads its operands and writes its result. Backward, a kernel for each operand reads the result's gradient and what
  // was kept, and writes the operand's.
  void add_elementwise(int i, OperatorKernels& kernels) {
    if (activates_in_operators(unit_, i, rates_)) return add_activation(i, kernels);
    const Operator& op = unit_.op(i);
    const double out = unit_.bytes(op.outputs.front());
    const bool passes_through = is_sum(op) && unit_.of(i).saved.empty();
    kernels.forward += out + static_cast<double>(unit_.of(i).saved_extra.base());
    kernels.launch(1, 0);
    bool differentiated = false;
    for_each_operand(op, [&](int t) {
      kernels.forward += unit_.bytes(t);
      const bool gradient = unit_.tensor(t).requires_gradient;
      const bool parameter = gradient && unit_.tensor(t).role == TensorRole::Parameter;
      const bool activation = gradient && unit_.activation(t) && !passes_through;
      if (parameter) kernels.backward += out;
      if (activation) kernels.backward += out + unit_.bytes(t);
      if (parameter || activation) kernels.launch(0, 1);
      differentiated |= activation;
    });
    if (!differentiated) return;
    kernels.backward += static_cast<double>(unit_.of(i).saved_extra.base());
    for (const int t : unit_.of(i).saved)
      if (unit_.tensor(t).role != TensorRole::Parameter) kernels.backward += unit_.bytes(t);
  }

  // Forward: x^3, its multiple, the sum with x, its multiple, tanh, 1 +, half of x, their product. Autocast takes the power in
  // fp32, and everything behind it: casts before and behind. Backward a kernel for each operand, three for the power, and two
  // sums of gradients of x; docs/models/compute.md.
  void add_activation(int i, OperatorKernels& kernels) {
    const double n = elements_out(unit_, i), cast = autocast_ ? r_ + e_ : 0;
    kernels.forward += (14 * r_ + 4 * e_ + 2 * cast) * n;
    kernels.backward += (19 * r_ + 9 * e_ + 4 * cast) * n;
    const int casts = autocast_ ? 1 : 0;
    kernels.launch(8 + 2 * casts, 11 + 4 * casts);
  }

  // An activation used by k operators gets k gradients; views that take parts of it share one. A kernel for each beyond the first
  // reads two and writes one; a compiled one reads each where the next gradient is made, and of a residual writes the sum. The
  // first user pays, wherever the others stand.
  void add_sums_of_gradients() {
    std::vector<int> seen;
    for (int i = 0; i < unit_.size(); ++i)
      for_each_operand(unit_.op(i), [&](int t) {
        if (unit_.use->first_user[t] != unit_.first + i || !add_once(seen, t)) return;
        const double beyond = std::max(0.0, unit_.use->gradients[t] - unit_.bytes(t)), more = beyond / unit_.bytes(t);
        const bool residual = unit_.of(i).kind == OperatorClass::Normalization || adds_input(unit_, i);
        const double width = residual || unit_.normalized(t) ? r_ : e_;
        const double each = eager_ ? 3 * width : residual ? 2 * width : e_;
        result_[i].backward += fused_ ? 3 * beyond : each * more * static_cast<double>(unit_.tensor(t).elements());
        if (!compiled_) result_[i].launch(0, static_cast<int>(std::lround(more)));
      });
  }

  const UnitView& unit_;
  const DeviceRates& rates_;
  const bool fused_, compiled_, eager_, autocast_, masks_;
  const double e_, r_;
  const Chains chains_;
  std::vector<int> launched_;  // chains
  std::vector<ChainTraffic> of_chain_;
  std::vector<OperatorKernels> result_;
};

}  // namespace

std::vector<OperatorKernels> unit_kernels(const UnitView& unit, const DeviceRates& rates) {
  return UnitKernels(unit, rates).run();
}

}  // namespace panpipe
