// The places of state and activations that a search may choose: on the devices, or in the host's memory.
#pragma once

#include <string>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe::planner {

// The keys of `offload` that the scenario writes as `auto`; absent ones stand for none.
struct OpenOffload {
  bool optimizer = false, parameters = false, activations = false;
  bool any() const { return optimizer || parameters || activations; }
};
OpenOffload open_offload(const Scenario& scenario);

// Why a device has no way to its host; empty: all have one.
std::string host_path_obstacle(const Scenario& scenario);

// Whether a search may place copies of activations: the trainer runs them, every device has a way to its host, and the scenario
// states nothing else of them.
bool may_copy_activations(const Scenario& scenario);

}  // namespace panpipe::planner
