// Rules about passes that the lowering and the searches share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "costmodel/scenario/scenario.hpp"
#include "schedule/action.hpp"

namespace panpipe {

// A stage that receives no gradient-carrying tensor (the first one) has no input gradient to compute. The executor's I then does
// nothing and its W is the whole backward; a profile implies this executor. Other frameworks still split the first stage's
// backward.
inline bool backward_all_in_weight(const Scenario& scenario, bool gradient_comes_in) {
  return scenario.profile != nullptr && !gradient_comes_in;
}

// The pass whose work a pass of such a stage runs; nullopt for I.
inline std::optional<ActionKind> work_of_pass(ActionKind kind, bool all_in_weight) {
  if (!all_in_weight || (kind != ActionKind::I && kind != ActionKind::W)) return kind;
  return kind == ActionKind::W ? std::optional(ActionKind::B) : std::nullopt;
}

// True if passes of this kind send messages in this direction: activations after F, gradients after B or I.
inline bool has_messages(ActionKind kind, bool backward) {
  return backward ? kind == ActionKind::B || kind == ActionKind::I : kind == ActionKind::F;
}

// True if replicas reduce gradients while the backward runs, under this effective ZeRO stage. The scenario decides, else the
// framework. Stages 2 and 3 keep no whole gradients, so a reduction follows every backward. A profile implies Panpipe's executor,
// to which no framework preset applies.
inline bool reduces_beside(const Scenario& scenario, int zero) {
  if (zero >= 2 || scenario.overlap_gradients) return zero >= 2 || *scenario.overlap_gradients;
  const Framework& framework = scenario.framework;
  return scenario.profile == nullptr && (zero == 1 ? framework.overlap_reduce_scatter : framework.overlap_all_reduce);
}

// True if gradients that are reduced after the backward also travel in buckets. A profile implies Panpipe's executor, which
// reduces during the backward.
inline bool buckets_when_awaited(const Scenario& scenario) {
  return scenario.profile == nullptr && scenario.framework.awaited_buckets;
}

// True if parameters updated under ZeRO 1 or 2 are gathered while the forwards that read them first run.
inline bool gathers_beside(const Scenario& scenario, int zero) {
  return (zero == 1 || zero == 2) && scenario.profile == nullptr && scenario.framework.overlap_parameter_gather;
}

// Size of a bucket in which gradients are reduced. A profile implies Panpipe's executor, whose buckets have PyTorch's default
// size (exec/engine/training/gradients.hpp).
inline Bytes gradient_bucket(const Scenario& scenario, int data, double bytes_of_element) {
  if (scenario.gradient_bucket) return *scenario.gradient_bucket;
  const Framework& framework = scenario.framework;
  if (scenario.profile != nullptr || framework.gradient_bucket_elements <= 0)
    return scenario.profile != nullptr ? Framework{}.gradient_bucket : framework.gradient_bucket;
  const double elements = std::max(framework.gradient_bucket_elements, framework.gradient_bucket_elements_per_copy * data);
  return Bytes(static_cast<std::int64_t>(elements * bytes_of_element));
}

}  // namespace panpipe
