// Recompute and offload as actions of an order: what any order can be given to hold less memory.
#pragma once

#include "costmodel/schedule/schedule.hpp"

namespace panpipe {

// Options that every family takes besides its own, with their defaults: recompute=none|full, offload=none|selective|full.
const std::vector<std::pair<std::string_view, std::string_view>>& memory_options();

// Takes those out of `options` and does what they say. InputError for other values, and for both at once: what is recomputed is
// not kept, so there is nothing to offload.
Schedule apply_memory_options(Schedule schedule, ScheduleOptions& options, const PassCosts& costs);

// R before every backward, right before it, or one cell earlier where the rank waits there long enough and that shortens the
// step under these costs. A waiting rank recomputes before the gradient comes, so that R fills bubbles.
Schedule add_recompute(const Schedule& schedule, const PassCosts& costs);

enum class OffloadChoice : std::uint8_t {
  Selective,  // the rank's stages whose activations live longest, and of them what the copy lane hides
  Full,       // every activation that lives longer than the way to the host and back
};

// OFFLOAD after forwards and RELOAD before backwards, at least one cell ahead, by the rules of PipeOffload (Wan et al., ICML
// 2025): long lifespans first, offloads and reloads one after the other on the rank's copy lane, none for an activation that
// lives shorter than the round trip. Copies stand in the row in the order of the copy lane. Sequence splits: each slice by
// itself.
Schedule add_offload(const Schedule& schedule, const PassCosts& costs, OffloadChoice choice);

}  // namespace panpipe
