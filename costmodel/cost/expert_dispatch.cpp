#include "costmodel/cost/expert_dispatch.hpp"

#include <algorithm>
#include <set>

namespace panpipe {
namespace {

// Expected number of `places` that hold one of `drawn` different elements, when `all` elements lie in equal parts on the places.
double places_of(double all, double drawn, double places) {
  if (places <= 1) return 1;
  const double each = all / places;
  double none = 1;  // of a place's
  for (double i = 0; i < drawn; ++i) none *= std::max(0.0, (all - each - i) / (all - i));
  return places * (1 - none);
}

}  // namespace

double nodes_of_token(const Routing& routing, int nodes) {
  const double experts = routing.experts, chosen = routing.per_token;
  if (nodes <= 1 || chosen < 1) return 1;
  if (routing.groups <= 1) return places_of(experts, std::min(chosen, experts), nodes);
  const double groups = routing.groups, of_groups = std::min(routing.groups_per_token, routing.groups);
  if (nodes <= routing.groups) return places_of(groups, of_groups, nodes);
  return of_groups * places_of(experts / groups, std::max(1.0, chosen / of_groups), nodes / groups);
}

bool sends_to_nodes(ExpertDispatch dispatch, const Routing& routing) {
  return dispatch == ExpertDispatch::Nodes || (dispatch == ExpertDispatch::ByModel && routing.groups > 1);
}

double copies_over_network(const Routing& routing, const Cluster& cluster, const std::vector<int>& group) {
  std::set<int> nodes;
  for (const int device : group) nodes.insert(cluster.devices[device].node);
  if (nodes.size() < 2) return 1;
  return std::min(1.0, nodes_of_token(routing, static_cast<int>(nodes.size())) / std::max(1, routing.per_token));
}

}  // namespace panpipe
