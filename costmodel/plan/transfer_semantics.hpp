// What a pipeline transfer holds up in a step: what the scenario says, else what the framework does.
#pragma once

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// `measured`: the costs are the executor's, which does not block.
TransferSemantics transfer_semantics(const Scenario& scenario, bool measured);

}  // namespace panpipe
