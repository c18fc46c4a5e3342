// The parameters of a run of units, or of a rank, each counted once, and the bytes of them that travel between replicas.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

struct ParameterSums {
  std::int64_t elements = 0, tensors = 0;                // trained ones, of this tensor-parallel rank's shards
  Bytes given{0};                                        // measured layers
  Bytes frozen{0}, copies{0}, narrower{0};               // as in ParameterUse
  Bytes trained_narrower{0};                             // trained part of `narrower`
  std::int64_t matrix_elements = 0, matrix_tensors = 0;  // part of the first two that the optimizer steps as whole matrices
  std::int64_t more_states = 0;                          // as in MatrixUse

  void add(const ParameterUse& use) {
    const bool is_trained = use.elements > 0;
    const bool matrices = use.matrices.count > 0;
    add(ParameterSums{use.elements, is_trained ? 1 : 0, use.given, use.frozen, use.copies, use.narrower,
                      is_trained ? use.narrower : Bytes(0), matrices ? use.elements : 0, matrices ? 1 : 0,
                      use.matrices.more_states});
  }
  void add(const ParameterSums& more, std::int64_t times = 1) {
    elements += times * more.elements;
    tensors += times * more.tensors;
    given += more.given * times;
    frozen += more.frozen * times;
    copies += more.copies * times;
    narrower += more.narrower * times;
    trained_narrower += more.trained_narrower * times;
    matrix_elements += times * more.matrix_elements;
    matrix_tensors += times * more.matrix_tensors;
    more_states += times * more.more_states;
  }
  // The part that a step updates.
  ParameterSums trained() const {
    ParameterSums those = *this;
    those.frozen = Bytes(0);
    those.narrower = trained_narrower;
    return those;
  }
};

// Whether a unit's use of a parameter is the first one that is asked about. Measured layers name no parameters: a unit has one.
class FirstUses {
 public:
  bool operator()(const ParameterUse& use, int unit) {
    std::vector<bool>& seen = use.tensor >= 0 ? tensors_ : units_;
    const auto index = static_cast<std::size_t>(use.tensor >= 0 ? use.tensor : unit);
    if (index >= seen.size()) seen.resize(index + 1);
    const bool first = !seen[index];
    seen[index] = true;
    return first;
  }

 private:
  std::vector<bool> tensors_, units_;
};

struct HeldParameters {
  ParameterSums others;   // that all replicas of a rank hold
  ParameterSums experts;  // in experts of which other ranks of the stage hold other parts

  void add(const ParameterUse& use) { (use.experts ? experts : others).add(use); }
  void add(const HeldParameters& more, std::int64_t times = 1) {
    others.add(more.others, times);
    experts.add(more.experts, times);
  }
  HeldParameters trained() const { return {others.trained(), experts.trained()}; }
  std::int64_t elements() const { return others.elements + experts.elements; }
  std::int64_t tensors() const { return others.tensors + experts.tensors; }
  std::int64_t matrix_elements() const { return others.matrix_elements + experts.matrix_elements; }
  std::int64_t matrix_tensors() const { return others.matrix_tensors + experts.matrix_tensors; }
};

// In the format that passes read, and in the one in which replicas sum them.
inline Bytes weight_bytes(const ParameterSums& sums, Precision precision) {
  return sums.elements * size_of(compute_dtype(precision)) + sums.given + sums.frozen - sums.narrower;
}
inline Bytes gradient_bytes(const ParameterSums& sums, double of_element) {
  return Bytes(static_cast<std::int64_t>(std::ceil(static_cast<double>(sums.elements) * of_element))) + sums.given;
}

// The parameters of each block of units [first, end); a unit outside blocks is a block of its own.
inline std::vector<HeldParameters> held_by_block(const WorkloadCost& workload, int first, int end) {
  std::vector<HeldParameters> held;
  for (int u = first; u < end; ++u) {
    const UnitCost& unit = workload.units[u];
    if (u == first || unit.block.empty() || unit.block != workload.units[static_cast<std::size_t>(u) - 1].block)
      held.emplace_back();
    for (const ParameterUse& use : unit.parameters) held.back().add(use);
  }
  return held;
}

}  // namespace panpipe
