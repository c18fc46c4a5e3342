// Assigns a unit's operators to the modules that selective recompute names. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/unit_view.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// One flag per operator of the unit.
std::vector<bool> module_members(const UnitView& unit, RecomputedModule module);

// True if the backward runs the whole module again; false if it recomputes only the dropped results (Megatron-Core's
// output-discarding checkpoints).
bool runs_as_a_whole(RecomputedModule module);

}  // namespace panpipe
