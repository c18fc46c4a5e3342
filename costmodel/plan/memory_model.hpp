// How the memory of a rank is counted (docs/models/memory.md). The lowering counts the stages of a plan with it and searches
// their tables of stages, so that a bound is the same sum. `memory_model` is asked here alone.
#pragma once

#include <vector>

#include "costmodel/plan/held_parameters.hpp"
#include "costmodel/plan/lowering_costs.hpp"
#include "costmodel/plan/stage_activations.hpp"

namespace panpipe {

// Bytes that a rank keeps of its parameters, gradients and optimizer state.
class StateBytes {
 public:
  double parameters(const HeldParameters& held) const {
    if (in_host_memory) return 0;
    const double state = sum(&ElementBytes::parameter, held);
    return counts_frozen ? state + frozen_and_copies(held.others, shares) + frozen_and_copies(held.experts, expert_shares)
                         : state;
  }
  double gradients(const HeldParameters& held) const { return sum(&ElementBytes::gradient, held); }
  double optimizer(const HeldParameters& held) const {
    return sum(&ElementBytes::optimizer, held) + static_cast<double>(held.others.more_states) * others.state +
           static_cast<double>(held.experts.more_states) * experts.state;
  }
  // More, where a replica holds the state of so many elements of whole matrices beyond an even share: the master and one moment,
  // of which `optimizer` has 1 / ranks and `state` 1 / ranks as well.
  double of_whole_matrices(std::int64_t elements, std::int64_t of_experts) const {
    const auto each = [](const ElementBytes& bytes, double ranks) { return ranks * (bytes.optimizer - bytes.state); };
    return static_cast<double>(elements) * each(others, state_ranks) +
           static_cast<double>(of_experts) * each(experts, expert_state_ranks);
  }
  double all(const HeldParameters& held) const { return parameters(held) + gradients(held) + optimizer(held); }
  // The part that is there in every moment of a step.
  double always(const HeldParameters& held) const {
    return parameters(held) + (gradients_late_ ? 0 : gradients(held)) + optimizer(held);
  }
  // While the optimizer steps; the temporaries of a largest parameter are left out.
  double at_step(const HeldParameters& held) const {
    const auto by_element = [](const ParameterSums& part) { return static_cast<double>(part.elements - part.matrix_elements); };
    return all(held) + by_element(held.others) * step_temporary_ + by_element(held.experts) * expert_step_temporary_;
  }

 private:
  friend class MemoryModel;
  double sum(double ElementBytes::*use, const HeldParameters& held) const {
    return static_cast<double>(held.others.elements) * (others.*use) +
           static_cast<double>(held.experts.elements) * (experts.*use) +
           static_cast<double>(held.others.given.base()) * (given.*use);
  }
  static double frozen_and_copies(const ParameterSums& part, double ranks) {
    return static_cast<double>((ranks == 1 ? part.frozen + part.copies : part.frozen - part.narrower).base()) / ranks;
  }
  ElementBytes others, experts;  // of an element
  ElementBytes given;            // of a byte that measured layers give
  bool in_host_memory = false;   // parameters
  bool gradients_late_ = false;
  double step_temporary_ = 0, expert_step_temporary_ = 0;  // of an element
  // Frozen weights and copies in 8 bits count, divided over so many ranks; where that is more than one, weights come and go block
  // by block, and their copies with them.
  bool counts_frozen = true;
  double shares = 1, expert_shares = 1;
  double state_ranks = 1, expert_state_ranks = 1;  // over which ZeRO divides the optimizer's state
};

// Bytes of a microbatch that cross a stage's boundaries. Gradients come in from later stages.
struct BoundaryBytes {
  std::int64_t in = 0, out = 0, gradients_in = 0, gradients_out = 0;
  std::int64_t inputs = 0;  // the model's own, which the stage reads
};

class MemoryModel {
 public:
  explicit MemoryModel(const Scenario& scenario)
      : scenario_(&scenario), as_pfeife_(scenario.memory_model == MemoryModelKind::Pfeife) {}

  // False if what is recomputed counts as kept.
  bool counts_recompute() const { return !as_pfeife_; }
  // True if gradients are as autograd leaves them: made before they are added to a sum, and in a second copy to be reduced.
  bool autograd_gradients() const { return !as_pfeife_ && scenario_->framework.gradient_storage != GradientStorage::Kept; }
  // True if a stage's gradients are allocated by its first backward instead of kept from step to step. With replicas, or in mixed
  // precision, those of Panpipe's executor are in buckets that stay.
  bool gradients_come_late(const Degrees& degrees) const;
  // True if gradients that several ranks sum are copied to buckets. Panpipe's executor accumulates them there in mixed precision;
  // FSDP has none.
  bool copies_to_buckets(const Degrees& degrees) const;
  // True if each product keeps a copy of its weight (UnitCost::weight_copies).
  bool copies_weights(const Degrees& degrees) const;
  // Of a rank's optimizer step, whose largest parameter has so many elements.
  double optimizer_temporary(const LoweringCosts& costs, const Degrees& degrees, const HeldParameters& held,
                             std::int64_t largest) const;
  Bytes context(const LoweringCosts& costs) const { return as_pfeife_ ? Bytes(0) : costs.framework_context(); }
  double allocator_factor(const LoweringCosts& costs) const { return as_pfeife_ ? 1 : costs.allocator_factor(); }
  StateBytes state(const LoweringCosts& costs, const Degrees& degrees) const;

  // The bytes that a microbatch keeps on a stage of units [first, end), and those that its passes need. The mode applies to so
  // many of its first blocks; 0 = all.
  template <class BytesOf>
  StageActivations activations(const WorkloadCost& workload, int first, int end, Recompute mode, int first_blocks,
                               bool over_before, const BytesOf& bytes) const {
    return as_pfeife_ ? pfeife_activations(workload, first, end)
                      : sum_activations(workload, first, end, mode, first_blocks, over_before, bytes);
  }
  // The bytes that one unit keeps for its backward, and until its weight gradient.
  Bytes kept(const UnitCost& unit, Recompute mode) const {
    return as_pfeife_ ? unit.saved : Bytes(WholeBytes::saved_under(unit, mode));
  }
  Bytes kept_for_weight(const UnitCost& unit) const { return as_pfeife_ ? unit.saved : unit.kept_for_weight; }

  // Buffers of a rank's stages for hand-overs, of a sequence in `splits` slices; there are so many of each for `microbatches`.
  Bytes hand_over_buffers(const std::vector<BoundaryBytes>& stages, int splits) const;
  int buffered_microbatches(int microbatches) const { return as_pfeife_ ? microbatches : 1; }
  // True if every edge between two stages counts: even within a rank, and a tensor that is read twice counts twice.
  bool buffers_every_edge() const { return as_pfeife_; }

 private:
  static StageActivations pfeife_activations(const WorkloadCost& workload, int first, int end);

  const Scenario* scenario_;
  bool as_pfeife_;
};

}  // namespace panpipe
