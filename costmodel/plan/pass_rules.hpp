// Rules about passes that the lowering and the searches share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "costmodel/scenario/scenario.hpp"
#include "schedule/action.hpp"

namespace panpipe {

// True if the W of a stage does its whole backward, and its I nothing: a stage that receives no gradient-carrying tensor (the
// first one) has no input gradient to compute.
inline bool backward_all_in_weight(const Execution& execution, bool gradient_comes_in) {
  return !execution.splits_first_backward && !gradient_comes_in;
}

// The pass whose work a pass of such a stage runs; nullopt for I.
inline std::optional<ActionKind> work_of_pass(ActionKind kind, bool all_in_weight) {
  if (!all_in_weight || (kind != ActionKind::I && kind != ActionKind::W)) return kind;
  return kind == ActionKind::W ? std::optional(ActionKind::B) : std::nullopt;
}

// True if passes of this kind send messages in this direction: activations after F, gradients after B or I.
inline bool has_messages(ActionKind kind, bool backward) { return backward ? starts_backward(kind) : kind == ActionKind::F; }

// True if replicas reduce gradients while the backward runs, under this effective ZeRO stage. The scenario decides, else the
// framework. Stages 2 and 3 keep no whole gradients, so a reduction follows every backward.
inline bool overlaps_reductions(const Scenario& scenario, int zero) {
  if (zero >= 2) return true;
  const Execution& execution = scenario.framework;
  return scenario.overlap_gradients.value_or(zero == 1 ? execution.overlap_reduce_scatter : execution.overlap_all_reduce);
}

// True if parameters updated under ZeRO 1 or 2 are gathered while the forwards that read them first run.
inline bool overlaps_gathers(const Execution& execution, int zero) {
  return (zero == 1 || zero == 2) && execution.overlap_parameter_gather;
}

// Size of a bucket in which gradients are reduced.
inline Bytes gradient_bucket(const Scenario& scenario, int data, double bytes_of_element) {
  const Execution& execution = scenario.framework;
  if (scenario.gradient_bucket || execution.gradient_bucket_elements <= 0)
    return scenario.gradient_bucket.value_or(execution.gradient_bucket);
  const double elements = std::max(execution.gradient_bucket_elements, execution.gradient_bucket_elements_per_copy * data);
  return Bytes(static_cast<std::int64_t>(elements * bytes_of_element));
}

}  // namespace panpipe
