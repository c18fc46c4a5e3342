// Access to the measurements of a scenario's profile. Internal to this folder.
#pragma once

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

// Interpolated for a size between measured ones, Extrapolated beyond them.
inline CostSource source_of(const TransferTable& table, Bytes size) {
  const bool inside = size >= table.points.front().first && size <= table.points.back().first;
  return inside ? CostSource::Interpolated : CostSource::Extrapolated;
}

}  // namespace panpipe
