// Uses a cluster's measured collectives instead of NCCL's model, scaled to sizes and groups that were not measured. Internal to
// this folder.
#pragma once

#include <functional>
#include <optional>

#include "costmodel/cluster/collective_tables.hpp"
#include "costmodel/cost/nccl_model.hpp"

namespace panpipe {

// How the measured groups ran: alone, on the cluster as it was then.
struct MeasuredWhere {
  double start = 0;                                        // launch time, seconds
  std::function<NcclGroup(int nodes, int in_node)> alone;  // `in_node` members on each of the nodes
};

struct MeasuredCollective {
  double time = 0;                               // seconds
  CostSource source = CostSource::Interpolated;  // Extrapolated: beyond the measured sizes or groups, or from another kind
};

// nullopt if no table matches such groups: within one node, or across several; of this kind, or, for gathers and scatters, of a
// kind that uses the same ring. `start`: the launch time of `group`, whose cluster may differ from the measured one.
std::optional<MeasuredCollective> measured_collective(const CollectiveTables& tables, CollectiveKind kind, double bytes,
                                                      const NcclGroup& group, double start, const MeasuredWhere& where);

}  // namespace panpipe
