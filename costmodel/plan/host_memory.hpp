// The state that a plan keeps in the memory of its hosts, which a cluster may limit (`host_memory`).
#pragma once

#include <vector>

#include "costmodel/plan/plan.hpp"

namespace panpipe {

// Bytes by node; empty: the scenario offloads no state. An optimizer there holds what a checkpoint has of it (masters, or the
// weights it updates, and moments) and the gradients as they arrive; weights have their compute format. Parked activations are
// not counted.
std::vector<Bytes> hosted_state(const Scenario& scenario, const Plan& plan, const CostModel& model);

// Throws NoAnswer for the first node whose state is larger than its host's memory.
void check_host_memory(const Scenario& scenario, const Plan& plan, const CostModel& model);

}  // namespace panpipe
