#include "costmodel/plan/memory_model.hpp"

#include <algorithm>

#include "costmodel/cost/zero_and_optimizer.hpp"

namespace panpipe {

// Pfeife (ICML 2025, github MerHS/pfeife) counts four copies of the parameters.
StateBytes MemoryModel::state(const LoweringCosts& costs, const Degrees& degrees) const {
  StateBytes state;
  state.others = {costs.parameter_bytes(), costs.gradient_bytes(), costs.optimizer_bytes(), costs.state_bytes()};
  state.experts = costs.expert_bytes();
  if (as_pfeife_) {
    for (ElementBytes* bytes : {&state.others, &state.experts})
      bytes->gradient = bytes->parameter, bytes->optimizer = 2 * bytes->parameter, bytes->state = 0;
    state.given = {1, 1, 2};
    state.counts_frozen = false;
    return state;
  }
  const int zero = zero_in_effect(scenario_->framework, degrees);
  const auto part = [&](int stage) { return zero >= stage ? 1.0 / degrees.shard_group() : 1.0; };  // the model divides its own
  state.given = {part(3), part(2), moments(scenario_->optimizer.name) * part(1)};
  state.in_host_memory = scenario_->offload.parameters;
  state.gradients_late_ = gradients_come_late(degrees);
  const double temporary = costs.optimizer_temporary().all;
  state.step_temporary_ = temporary * part(1);
  state.expert_step_temporary_ = temporary / (zero >= 1 ? degrees_of_experts(degrees).shard_group() : 1);
  if (zero >= 1) {
    state.state_ranks = degrees.shard_group();
    state.expert_state_ranks = degrees_of_experts(degrees).shard_group();
  }
  if (zero >= 3) {
    state.shares = degrees.shard_group();
    state.expert_shares = degrees_of_experts(degrees).shard_group();
  }
  return state;
}

bool MemoryModel::gradients_come_late(const Degrees& degrees) const {
  if (as_pfeife_) return false;
  const GradientStorage storage = scenario_->framework.gradient_storage;
  return storage == GradientStorage::SetToNone || storage == GradientStorage::Unsharded ||
         (storage == GradientStorage::Autograd && degrees.replicas() == 1 && scenario_->precision == Precision::Fp32);
}

bool MemoryModel::copies_to_buckets(const Degrees& degrees) const {
  if (!autograd_gradients()) return false;
  if (scenario_->framework.gradient_storage == GradientStorage::Autograd) return !is_mixed(scenario_->precision);
  return zero_in_effect(scenario_->framework, degrees) < 2;
}

bool MemoryModel::copies_weights(const Degrees& degrees) const {
  return !as_pfeife_ && is_mixed(scenario_->precision) &&
         mixed_precision_in_effect(scenario_->framework, degrees) == MixedPrecision::Autocast;
}

double MemoryModel::optimizer_temporary(const LoweringCosts& costs, const Degrees& degrees, const HeldParameters& held,
                                        std::int64_t largest) const {
  if (as_pfeife_) return 0;
  const StateBytes bytes = state(costs, degrees);
  const double share = zero_in_effect(scenario_->framework, degrees) >= 1 ? degrees.shard_group() : 1;
  const double updated = static_cast<double>(held.others.elements + held.experts.elements) / share;
  const double divided = keeps_whole_gradients(*scenario_, degrees) ? bytes.gradients(held) * (1 - 1 / share) : 0;
  return std::max(0.0, bytes.at_step(held) - bytes.all(held) + grouped_gradients(*scenario_, degrees, updated) +
                           costs.optimizer_temporary().largest * static_cast<double>(largest) / share - divided);
}

// As in Pfeife's planner: the temporary of a stage is the largest of (activations up to and including an operator, plus that
// operator's own temporary), for F and B alike, and I frees nothing.
StageActivations MemoryModel::pfeife_activations(const WorkloadCost& workload, int first, int end) {
  std::int64_t kept = 0, peak = 0;
  for (int u = first; u < end; ++u) {
    const UnitCost& unit = workload.units[u];
    kept += unit.saved.base();
    peak = std::max(peak, kept + unit.temporary.base());
  }
  return {.kept = kept, .kept_for_weight = kept, .forward_peak = peak, .backward_peak = peak - kept, .input_peak = peak - kept};
}

Bytes MemoryModel::hand_over_buffers(const std::vector<BoundaryBytes>& stages, int splits) const {
  std::int64_t sum = 0, most = 0;
  for (const BoundaryBytes& stage : stages) {
    // Pfeife counts three buffers for an incoming tensor (input, its gradient, a clone), and two for an outgoing one.
    sum += as_pfeife_ ? 3 * stage.in + 2 * stage.out + stage.inputs
                      : (stage.in + stage.out + stage.gradients_in + stage.gradients_out) / splits;
    most = std::max({most, stage.in, stage.gradients_in});
  }
  // One message waits for the pass that reads it: in all of the executor's transports a posted receive takes no memory before
  // its message arrives. A pass sends its own result, which is soon received.
  const bool waiting = !as_pfeife_ && scenario_->framework.hand_over_buffers == HandOverBuffers::Waiting;
  return Bytes(waiting ? most / splits : sum);
}

}  // namespace panpipe
