// The places of state and activations that a search may choose: on the devices, or in the host's memory.
#pragma once

#include "costmodel/scenario/scenario.hpp"

namespace panpipe::planner {

// The keys of `offload` that the scenario writes as `auto`; absent ones stand for none.
struct OpenOffload {
  bool optimizer = false, parameters = false, activations = false;
  bool any() const { return optimizer || parameters || activations; }
};
OpenOffload open_offload(const Scenario& scenario);

}  // namespace panpipe::planner
