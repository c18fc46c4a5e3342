// The activations that a unit keeps for its backward, and its temporary memory while it runs (docs/models/memory-terms.md).
#include <algorithm>

#include "base/index.hpp"
#include "costmodel/cost/chain_traffic.hpp"
#include "costmodel/cost/fusion.hpp"
#include "costmodel/cost/narrow_products.hpp"
#include "costmodel/cost/unit_template.hpp"
#include "costmodel/cost/whole_bytes.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

void keep(const UnitView& unit, std::vector<int>& kept, int t) {
  if (unit.tensor(t).role == TensorRole::Parameter || unit.tensor(t).role == TensorRole::Buffer) return;
  const int owner = unit.root(t);
  if (unit.tensor(owner).role == TensorRole::Activation) add_once(kept, owner);
}

// Unfused attention keeps the softmax's result, and with dropout its mask (a byte) and the dropped scores:
// 5 bytes a score in 2-byte formats (Korthikanti et al., arXiv 2205.05198, section 4.1).
double score_bytes_kept(const UnitView& unit, int i, const DeviceRates& rates) {
  double probability = 0;
  for (const Argument& argument : unit.op(i).arguments)
    if (const auto* value = std::get_if<double>(&argument)) probability = std::max(probability, *value);
  const bool dropout = rates.dropout || probability > 0;
  return (dropout ? 2 * rates.element + 1 : rates.element) + rates.score_kept;
}

bool casts_eagerly(const DeviceRates& rates) { return rates.weight_cast > 0 && rates.elementwise == Elementwise::Eager; }

// What a normalization keeps beyond its input in the common format. Autocast leaves it in fp32. One that is written in operators
// also keeps its result before the weight, and has the input in fp32 (validation/memory/models.py, RMSNorm).
double normalization_extra(const UnitView& unit, int i, const DeviceRates& rates) {
  constexpr double kFp32 = 4;
  const auto elements = static_cast<double>(unit.tensor(first_operand(unit.op(i))).elements());
  return elements *
         ((casts_eagerly(rates) ? rates.residual - rates.element : 0) + (normalizes_in_operators(unit, i, rates) ? kFp32 : 0));
}

// What GELU in operators keeps beyond its input: x / 2, tanh and 1 + tanh. Autocast takes the cube in fp32, so that the input is
// kept in fp32 too, and so are the last two (transformers, activations.py, NewGELUActivation).
double activation_extra(const UnitView& unit, int i, const DeviceRates& rates) {
  constexpr double kFp32 = 4;
  const auto elements = static_cast<double>(unit.tensor(first_operand(unit.op(i))).elements());
  return elements * (casts_eagerly(rates) ? 3 * kFp32 : 3 * rates.element);
}

// True if one kernel makes and reads tensor t, so that its backward makes t again: functions and products element by element.
// Megatron-LM's SwiGLUFunction keeps gate and up, not silu(gate) (megatron/core/fusions/fused_bias_swiglu.py), and so do Liger's
// kernel and torch.compile.
bool made_again_in_kernel(const UnitView& unit, int t, const DeviceRates& rates) {
  const auto pointwise = [&](int i) {
    return unit.of(i).kind == OperatorClass::View || row_of(unit.op(i)).role == OperatorRole::Pointwise;
  };
  if (rates.elementwise == Elementwise::Eager || !unit.inside(t) || unit.use->crosses[at(t)]) return false;
  if (!pointwise(unit.tensor(t).producer - unit.first)) return false;
  for (int i = 0; i < unit.size(); ++i)
    if (!pointwise(i) && any_operand(unit.op(i), [&](int read) { return unit.root(read) == t; })) return false;
  return true;
}

// Megatron-Core's grouped products of experts (`expert_products: each`) multiply with the router's weights in the activation,
// which keeps its own input for their gradient, so that the sum of a token's rows needs no row (fused_bias_swiglu.py,
// WeightedSwiGLUFunction; megatron/core/transformer/moe/experts.py, since April 2025).
bool weighed_before(const UnitView& unit, int i, int t, const DeviceRates& rates) {
  return rates.expert_products == ExpertProducts::Each && row_of(unit.op(i)).role == OperatorRole::ExpertRows &&
         row_of(unit.op(i)).takes("weights") && t == first_operand(unit.op(i));
}

}  // namespace

void keep_operator(const UnitView& unit, int i, const DeviceRates& rates, bool add_masks, SavedTensors& saved) {
  const OperatorWork& work = unit.of(i);
  if (work.kind == OperatorClass::Attention && !rates.flash) {
    for_each_operand(unit.op(i), [&](int t) {
      if (unit.activation(t)) keep(unit, saved.tensors, t);
    });
    const double scores = attention_scores(work.attention) * score_bytes_kept(unit, i, rates);
    saved.extra += scores;
    saved.attention += scores;
    return;
  }
  for (int t : work.saved) {
    if (unit.logits(t)) continue;
    if (made_again_in_kernel(unit, t, rates) || weighed_before(unit, i, t, rates)) continue;
    const bool copies = work.kind == OperatorClass::Gemm && casts_eagerly(rates) && unit.activation(t) && unit.normalized(t);
    if (copies)
      saved.copies.push_back(unit.root(t));
    else
      keep(unit, keeps_narrow(unit, i, rates) ? saved.narrow : saved.tensors, t);
  }
  if (work.kind == OperatorClass::Normalization) saved.extra += normalization_extra(unit, i, rates);
  if (activates_in_operators(unit, i, rates)) saved.extra += activation_extra(unit, i, rates);
  const auto extra = static_cast<double>(work.saved_extra.base());
  if (work.kind != OperatorClass::Loss) saved.extra += extra;
  if (work.kind == OperatorClass::Attention) saved.attention += extra;
  if (add_masks && work.kind == OperatorClass::Elementwise && is_residual_sum(unit, i))
    saved.extra += static_cast<double>(unit.tensor(unit.op(i).outputs.front()).elements());
}

namespace {

// Inputs of the products with a weight, and the gradients of their results.
double needed_for_weights(const UnitView& unit, const DeviceRates& rates) {
  double bytes = 0;
  std::vector<int> inputs;
  for (int i = 0; i < unit.size(); ++i) {
    if (unit.of(i).kind != OperatorClass::Gemm || unit.of(i).weight_gradient.gemms.empty()) continue;
    const double width = keeps_narrow(unit, i, rates) ? narrow_width(rates) : 1;
    for_each_operand(unit.op(i), [&](int t) {
      const int owner = unit.root(t);
      if (unit.activation(t) && add_once(inputs, owner)) bytes += unit.bytes(owner) * width;
    });
    for (int t : unit.op(i).outputs)
      if (!unit.logits(t)) bytes += unit.bytes(t) * width;
  }
  return bytes;
}

// For attention over the context: the query's gradient, plus keys and values of the whole sequence with their gradients, or in a
// ring those of the current block and of the one in transit.
double exchanged_in_attention(const UnitView& unit, int i) {
  const auto whole = static_cast<double>(unit.of(i).collective_bytes.base());
  const bool ring = unit.op(i).forward_collective == CollectiveKind::SendReceive;
  const double at_once = ring ? 2 * whole / unit.graph->degrees.context : whole;
  return unit.bytes(first_operand(unit.op(i))) + 2 * at_once;  // the query comes first
}

// The largest operator's gradients, of its results and of its inputs, in addition to the saved activations.
double working_set(const UnitView& unit, const DeviceRates& rates) {
  double largest = 0;
  for (int i = 0; i < unit.size(); ++i) {
    if (unit.of(i).kind == OperatorClass::View) continue;
    double bytes = 0;
    const auto add = [&](int t) {
      if (unit.activation(t) && !unit.logits(t)) bytes += unit.bytes(t);
    };
    if (unit.of(i).kind == OperatorClass::Attention && unit.op(i).among == Among::Context) {
      bytes += exchanged_in_attention(unit, i);
    } else {
      for_each_operand(unit.op(i), add);
    }
    for (int t : unit.op(i).outputs) add(t);
    if (unit.of(i).kind == OperatorClass::Attention && !rates.flash)
      bytes += 2 * rates.element * attention_scores(unit.of(i).attention);  // gradients before and after the softmax
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Additional bytes when products keep a gathered input instead of the shard that it was gathered from.
double gathered_over_shards(const UnitView& unit, const DeviceRates& rates) {
  double bytes = 0;
  std::vector<int> counted;
  for (int i = 0; i < unit.size(); ++i) {
    if (unit.of(i).kind != OperatorClass::Gemm || unit.of(i).weight_gradient.gemms.empty()) continue;
    for_each_operand(unit.op(i), [&](int t) {
      if (!unit.activation(t) || !unit.inside(t)) return;
      const Operator& maker = unit.op(unit.tensor(t).producer - unit.first);
      if (maker.forward_collective != CollectiveKind::AllGather || !add_once(counted, t)) return;
      bytes += (unit.bytes(t) - unit.bytes(unit.root(t))) * (keeps_narrow(unit, i, rates) ? narrow_width(rates) : 1);
    });
  }
  return bytes;
}

}  // namespace

double weight_copies(const UnitView& unit, int i) {
  if (unit.of(i).kind != OperatorClass::Gemm || unit.of(i).weight_gradient.gemms.empty()) return 0;
  double bytes = 0;
  for_each_operand(unit.op(i), [&](int t) {
    if (unit.tensor(t).role == TensorRole::Parameter && unit.tensor(t).requires_gradient) bytes += unit.bytes(t);
  });
  return bytes;
}

void count_memory(const UnitView& unit, const std::vector<int>& externals, const DeviceRates& rates, UnitTemplate& result) {
  double loss_logits = 0;
  for (int i = 0; i < unit.size(); ++i) loss_logits = std::max(loss_logits, logits(unit, i));
  const bool add_masks = adds_masks(unit, rates);
  SavedTensors saved;
  for (int i = 0; i < unit.size(); ++i) keep_operator(unit, i, rates, add_masks, saved);
  double inside = saved.extra;
  if (rates.gathered_kept) inside += gathered_over_shards(unit, rates);
  const auto add = [&](int t, double width) {
    if (unit.inside(t)) {
      const bool replicated = is_replicated(unit, unit.tensor(t).producer - unit.first);
      inside += unit.bytes(t) * width * (replicated ? rates.replicated_saved_factor : rates.sharded_saved_factor);
    } else {
      const auto found = std::find(externals.begin(), externals.end(), t);
      result.saved_external.push_back(
          {static_cast<int>(found - externals.begin()), whole_bytes(unit.bytes(t) * width * rates.replicated_saved_factor)});
    }
  };
  for (const int t : saved.tensors) add(t, 1);
  for (const int t : saved.narrow) add(t, narrow_width(rates));
  for (const int t : saved.copies) inside += unit.bytes(t) * rates.replicated_saved_factor;
  // The loss keeps its softmax in fp32 (4 bytes a logit, or what the framework leaves) until the backward; the rest of what
  // it holds is temporary.
  const double kept_per_logit = std::min(4.0, rates.loss_live_bytes);
  result.saved_inside = whole_bytes(inside + kept_per_logit * loss_logits);
  result.attention_core = whole_bytes(saved.attention);
  result.temporary = whole_bytes(std::max(working_set(unit, rates), (rates.loss_live_bytes - kept_per_logit) * loss_logits));
  for (int i = 0; i < unit.size(); ++i) result.weight_copies += whole_bytes(weight_copies(unit, i));
  result.logits = whole_bytes(loss_logits * rates.element);
  result.kept_for_weight = whole_bytes(needed_for_weights(unit, rates) + kept_per_logit * loss_logits / 2);
  for (int t : externals)
    if (unit.tensor(t).role == TensorRole::Input) result.graph_inputs += unit.tensor(t).bytes();
}

}  // namespace panpipe
