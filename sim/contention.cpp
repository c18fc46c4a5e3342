#include "sim/contention.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace panpipe::sim {
ContentionLog::ContentionLog(const Network& network)
    : network_(&network), loads_(network.resources.size()), uses_(network.resources.size()) {
  for (const auto& route : network.routes) most_hops_ = std::max(most_hops_, route.size());
}

void ContentionLog::advance(std::size_t resource, double now) {
  Load& load = loads_[resource];
  const double passed = now - load.since;
  if (passed > 0 && load.flows > 0) {
    ResourceUse& use = uses_[resource];
    use.busy += passed;
    if (load.flows > 1) use.shared += passed;
    use.flows = std::max(use.flows, static_cast<double>(load.flows));
    load.crowding += passed * static_cast<double>(load.uses) / network_->resources[resource].capacity;
  }
  load.since = now;
}

std::int32_t ContentionLog::begin(std::int32_t route, double bytes, Ticks alone, Token token, Ticks now) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::int32_t>(flows_.size()));
    flows_.emplace_back();
    crowding_at_start_.resize(crowding_at_start_.size() + most_hops_);
  }
  const std::int32_t slot = free_.back();
  free_.pop_back();
  flows_[slot] = {token, route, now.base(), alone.base(), bytes};
  double* crowding = crowding_at_start_.data() + at(slot) * most_hops_;
  for (const SharedHop& hop : network_->routes[route]) {
    advance(at(hop.resource), now.base());
    Load& load = loads_[hop.resource];
    load.uses += hop.uses;
    load.flows += hop.flows;
    *crowding++ = load.crowding;
  }
  return slot;
}

// The time that a flow lost is booked on the resource that was most crowded, for its capacity, while the flow ran.
Token ContentionLog::end(std::int32_t slot, Ticks now) {
  const Flow& flow = flows_[slot];
  const SharedHop* bottleneck = nullptr;
  double most = -1;
  const double* crowding = crowding_at_start_.data() + at(slot) * most_hops_;
  for (const SharedHop& hop : network_->routes[flow.route]) {
    advance(at(hop.resource), now.base());
    Load& load = loads_[hop.resource];
    const double grown = load.crowding - *crowding++;
    if (grown > most) {
      most = grown;
      bottleneck = &hop;
    }
    load.uses -= hop.uses;
    load.flows -= hop.flows;
    uses_[hop.resource].bytes += flow.bytes * hop.uses;
  }
  const double lost = now.base() - flow.start - flow.alone;
  if (lost > 1) uses_[bottleneck->resource].lost += lost * bottleneck->flows;  // a tick or less is rounding
  free_.push_back(slot);
  return flow.token;
}

}  // namespace panpipe::sim
