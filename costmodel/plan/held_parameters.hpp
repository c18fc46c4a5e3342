// The parameters of a run of units, or of a rank, each counted once, and the bytes of them that travel between replicas.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

struct ParameterSums {
  std::int64_t elements = 0, tensors = 0;   // trained ones, of this tensor-parallel rank's shards
  Bytes given{0};                           // measured layers
  Bytes frozen{0}, copies{0}, narrower{0};  // as in ParameterUse
  Bytes trained_narrower{0};                // trained part of `narrower`

  void add(const ParameterUse& use, std::int64_t times = 1) {
    const bool is_trained = use.elements > 0;
    elements += times * use.elements;
    tensors += is_trained ? times : 0;
    given += use.given * times;
    frozen += use.frozen * times;
    copies += use.copies * times;
    narrower += use.narrower * times;
    if (is_trained) trained_narrower += use.narrower * times;
  }
  void add(const ParameterSums& more, std::int64_t times = 1) {
    elements += times * more.elements;
    tensors += times * more.tensors;
    given += more.given * times;
    frozen += more.frozen * times;
    copies += more.copies * times;
    narrower += more.narrower * times;
    trained_narrower += more.trained_narrower * times;
  }
  // The part that a step updates.
  ParameterSums trained() const {
    ParameterSums those = *this;
    those.frozen = Bytes(0);
    those.narrower = trained_narrower;
    return those;
  }
};

struct HeldParameters {
  ParameterSums others;   // that all replicas of a rank hold
  ParameterSums experts;  // in experts of which other ranks of the stage hold other parts

  void add(const ParameterUse& use, std::int64_t times = 1) { (use.experts ? experts : others).add(use, times); }
  void add(const HeldParameters& more, std::int64_t times = 1) {
    others.add(more.others, times);
    experts.add(more.experts, times);
  }
  HeldParameters trained() const { return {others.trained(), experts.trained()}; }
  std::int64_t elements() const { return others.elements + experts.elements; }
  std::int64_t tensors() const { return others.tensors + experts.tensors; }
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
