// ZeRO in groups of replicas that fill whole nodes, instead of all replicas: shorter rings, and gathers that stay in few nodes,
// for more memory and a sum over the groups.
#pragma once

#include "planner/auto/exact.hpp"

namespace panpipe::planner {

// Whether the scenario leaves the shard group open, and its trainer has some.
bool divides_in_groups(const Scenario& scenario);

// The fastest plan that fits among those of `start` with other shard groups; not usable where none is faster than `start`.
Exact try_shard_groups(Evaluator& evaluator, const Exact& start);

}  // namespace panpipe::planner
