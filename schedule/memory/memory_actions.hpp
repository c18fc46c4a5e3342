// Writes recompute and offload actions into any order, so that it holds less memory.
#pragma once

#include "schedule/schedule.hpp"

namespace panpipe {

// The options that every family accepts in addition to its own, with their defaults: recompute=none|full|N,
// offload=none|selective|full, offload_waiting=false|true, offload_stagger=N, post_validation=false|true (OPT ends each row).
const std::vector<std::pair<std::string_view, std::string_view>>& memory_options();

// The number of consecutive ranks that share one link to the host.
int offload_stagger(const ScheduleOptions& options);

// Applies these options, recompute first, and ignores the others. Throws InputError for other values.
Schedule apply_memory_options(Schedule schedule, const ScheduleOptions& options, const PassCosts& costs);

// Adds R for the first `stages` stages of each rank (in forward order; 0 = all). R stands right before the backward, or one cell
// earlier if the rank waits there long enough and that shortens the step under these costs. A waiting rank recomputes before the
// gradient arrives, so R fills bubbles.
Schedule add_recompute(const Schedule& schedule, const PassCosts& costs, int stages = 0);

struct OffloadRequest {
  enum class Choice : std::uint8_t {
    Selective,  // the rank's stages whose activations live longest, as far as the copy lane hides their copies
    Full,       // every activation that lives longer than the round trip to the host
  };
  Choice choice = Choice::Selective;
  bool waiting = false;  // also offload the part that stays from I to W
  int stagger = 1;       // this many consecutive ranks share one link to the host: no two of them copy at once
};

// Adds OFFLOAD after forwards (with `waiting` also after input gradients) and RELOAD at least one cell before the passes that
// read the tensors (R, the backward, W). It follows the rules of PipeOffload (Wan et al., ICML 2025): long lifespans first,
// copies one after the other on the rank's copy lane, none for activations that live shorter than the round trip. Copies stand in
// the row in the order of the copy lane. A recomputed stage parks its inputs. With sequence splits each slice is parked by
// itself.
Schedule add_offload(const Schedule& schedule, const PassCosts& costs, const OffloadRequest& request);

}  // namespace panpipe
