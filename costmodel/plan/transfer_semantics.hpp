// The transfer semantics of a step: set by the scenario, else by the framework.
#pragma once

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// `measured`: costs come from the executor, which does not block.
TransferSemantics transfer_semantics(const Scenario& scenario, bool measured);

}  // namespace panpipe
