// What a scenario's profile measured. Internal to this folder.
#pragma once

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

// A size between those that were measured, or beyond them.
inline CostSource source_of(const TransferTable& table, Bytes size) {
  const bool inside = size >= table.points.front().first && size <= table.points.back().first;
  return inside ? CostSource::Interpolated : CostSource::Extrapolated;
}

}  // namespace panpipe
