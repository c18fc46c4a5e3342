// Rounds bytes that were computed in floating point.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/quantity.hpp"

namespace panpipe {

inline Bytes whole_bytes(double bytes) { return Bytes(static_cast<std::int64_t>(std::llround(bytes))); }

}  // namespace panpipe
