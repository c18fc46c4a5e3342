// Recompute and offload, written into any order as actions, so that it holds less memory.
#pragma once

#include "schedule/schedule.hpp"

namespace panpipe {

// Options that every family takes besides its own, with their defaults: recompute=none|full|N, offload=none|selective|full,
// offload_waiting=false|true, offload_stagger=N.
const std::vector<std::pair<std::string_view, std::string_view>>& memory_options();

// How many consecutive ranks share one way to the host.
int offload_stagger(const ScheduleOptions& options);

// Does what those in `options` say, recompute first; other options are not read. InputError for other values.
Schedule apply_memory_options(Schedule schedule, const ScheduleOptions& options, const PassCosts& costs);

// R before every backward of the first `stages` stages of each rank (in forward order; 0 = all), right before it, or one cell
// earlier where the rank waits there long enough and that shortens the step under these costs. A waiting rank recomputes before
// the gradient comes, so that R fills bubbles.
Schedule add_recompute(const Schedule& schedule, const PassCosts& costs, int stages = 0);

struct OffloadRequest {
  enum class Choice : std::uint8_t {
    Selective,  // the rank's stages whose activations live longest, and of them what the copy lane hides
    Full,       // every activation that lives longer than the way to the host and back
  };
  Choice choice = Choice::Selective;
  bool waiting = false;  // also what stays from I to W
  int stagger = 1;       // so many consecutive ranks share one way to the host: no two of them copy at once
};

// OFFLOAD after forwards (and, `waiting`, after input gradients) and RELOAD before what reads them (R, the backward, W), at least
// one cell ahead, by the rules of PipeOffload (Wan et al., ICML 2025): long lifespans first, offloads and reloads one after the
// other on the rank's copy lane, none for what lives shorter than the round trip. Copies stand in the row in the order of the
// copy lane. A stage that is recomputed parks its inputs. With sequence splits each slice is parked by itself.
Schedule add_offload(const Schedule& schedule, const PassCosts& costs, const OffloadRequest& request);

}  // namespace panpipe
