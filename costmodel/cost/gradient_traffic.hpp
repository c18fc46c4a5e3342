// Gradient bytes that are sent, not kept (for kept bytes: docs/models/memory-terms.md).
#pragma once

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// Bytes per parameter that data-parallel ranks exchange, independent of the bytes kept.
double travelling_gradient_bytes(const Scenario& scenario);

}  // namespace panpipe
