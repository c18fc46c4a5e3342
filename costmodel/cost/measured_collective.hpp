// Uses a cluster's measured collectives instead of NCCL's model, scaled to sizes and groups that were not measured. Internal to
// this folder.
#pragma once

#include <optional>

#include "costmodel/cluster/collective_tables.hpp"
#include "costmodel/cost/nccl_model.hpp"

namespace panpipe {

// The conditions of the measured groups, which ran alone.
struct MeasuredWhere {
  double start = 0;    // launch time, seconds
  double way_out = 0;  // bandwidth out of a whole node as reached, bytes per second
  int in_node = 1;     // devices of a node
};

struct MeasuredCollective {
  double time = 0;                               // seconds
  CostSource source = CostSource::Interpolated;  // Extrapolated: beyond the measured sizes or groups, or from another kind
};

// nullopt if no table matches such groups: within one node, or across several; of this kind, or, for gathers and scatters, of a
// kind that uses the same ring.
std::optional<MeasuredCollective> measured_collective(const CollectiveTables& tables, CollectiveKind kind, double bytes,
                                                      const NcclGroup& group, const MeasuredWhere& where);

}  // namespace panpipe
