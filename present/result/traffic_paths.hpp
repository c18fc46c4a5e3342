// The kinds of links that a plan's traffic uses.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe::present {

// "tensor", "pipeline" and "data" with the classes of path (name_of(PathClass)) between neighbours: around the ring of a group,
// and from each stage's rank to the next stage's. Without replicas, "data" is the sum of weights that several stages share,
// between the devices whose timeline has one. Kinds without traffic are left out.
std::vector<std::pair<std::string, std::vector<std::string>>> traffic_paths(const Cluster& cluster, const Plan& plan,
                                                                            const Timeline& timeline);

}  // namespace panpipe::present
