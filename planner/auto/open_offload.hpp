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

// Whether all devices have a way to their host; else the obstacle is named.
bool has_host_paths(const Scenario& scenario, std::string& obstacle);

// Whether a search may place copies of activations: the trainer runs them, every device has a way to its host, and the scenario
// states nothing else of them.
bool may_copy_activations(const Scenario& scenario);

}  // namespace panpipe::planner
