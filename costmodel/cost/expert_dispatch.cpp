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

void dispatch_over(GroupNetwork& network, const Scenario& scenario, const Routing& routing, const std::vector<int>& group) {
  const ExpertDispatch dispatch = scenario.framework.expert_dispatch;
  network.at_once = dispatch == ExpertDispatch::LowLatency;
  std::set<int> on;
  for (const int device : group) on.insert(scenario.cluster.devices[device].node);
  const int nodes = static_cast<int>(on.size()), ranks = static_cast<int>(group.size());
  if (nodes < 2) return;
  if (sends_to_nodes(dispatch, routing))
    network.crossing = std::min(1.0, nodes_of_token(routing, nodes) / std::max(1, routing.per_token));
  network.copies = network.crossing < 1;
  const ExpertLoad& load = scenario.expert_load;  // the all-to-all has the bytes of the busiest rank
  if (!load.has_histogram() || ranks > routing.experts) return;
  network.crossing *= load.received_by_node(nodes, ranks, routing.experts) / load.received(ranks, routing.experts);
}

}  // namespace panpipe
