// Measured collectives of a cluster in place of NCCL's model, carried to sizes and groups that were not measured. Internal to
// this folder.
#pragma once

#include <optional>

#include "costmodel/cluster/collective_tables.hpp"
#include "costmodel/cost/nccl_model.hpp"

namespace panpipe {

// What the tables' own groups found: they ran alone.
struct MeasuredWhere {
  double start = 0;    // the launch, seconds
  double way_out = 0;  // of a whole node, reached, bytes per second
  int in_node = 1;     // devices of a node
};

struct MeasuredCollective {
  double time = 0;                               // seconds
  CostSource source = CostSource::Interpolated;  // Extrapolated: beyond the measured sizes or groups, or from another kind
};

// Nothing where no table speaks of such groups: of one node, or of several; of this kind, or for gathers and scatters of one that
// goes round the same ring.
std::optional<MeasuredCollective> measured_collective(const CollectiveTables& tables, CollectiveKind kind, double bytes,
                                                      const NcclGroup& group, const MeasuredWhere& where);

}  // namespace panpipe
