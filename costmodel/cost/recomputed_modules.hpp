// Which operators of a unit belong to a module that selective recompute names. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/unit_view.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// Per operator of the unit.
std::vector<bool> module_members(const UnitView& unit, RecomputedModule module);

// Does its backward call the module again, to the end, or make again only the results that were dropped (Megatron-Core's
// output-discarding checkpoints)?
bool runs_as_a_whole(RecomputedModule module);

}  // namespace panpipe
