// Bytes of gradients that are not a matter of memory (docs/models/memory-terms.md).
#pragma once

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// Per parameter, what data-parallel ranks send to each other, whatever is kept of it.
double travelling_gradient_bytes(const Scenario& scenario);

}  // namespace panpipe
