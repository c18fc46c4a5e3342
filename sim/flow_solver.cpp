#include "sim/flow_solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe::sim {
namespace {

constexpr double kTicksPerSecond = 1e12;
// Shares this close belong to the same bottleneck: they differ only by the rounding of the divisions before.
constexpr double kSameShare = 1 + 1e-12;

}  // namespace

FlowSolver::FlowSolver(const Network& network) : network_(&network) {
  links_.resize(network.resources.size());
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i].capacity = network.resources[i].capacity / kTicksPerSecond;
}

void FlowSolver::set_timer(Ticks delay, Token token) { events_.push({now_ + delay.base(), order_++, token, false}); }

void FlowSolver::start_flow(std::int32_t way, double bytes, std::int32_t slot) {
  const auto [route, rate_cap] = network_->ways[way];
  if (flows_.size() <= at(slot)) flows_.resize(at(slot) + 1);
  Flow& flow = flows_[slot];
  flow.remaining = bytes;
  flow.rate = 0;
  flow.cap = rate_cap > 0 ? rate_cap / kTicksPerSecond : std::numeric_limits<double>::infinity();
  flow.updated = now_;
  flow.route = route;
  for (const SharedHop& hop : network_->routes[route]) links_[hop.resource].flows.push_back(slot);
  touch(route);
}

void FlowSolver::touch(std::int32_t route) {
  for (const SharedHop& hop : network_->routes[route]) {
    Link& link = links_[hop.resource];
    if (link.dirty) continue;
    link.dirty = true;
    dirty_.push_back(hop.resource);
  }
}

void FlowSolver::end_flow(std::int32_t slot) {
  Flow& flow = flows_[slot];
  for (const SharedHop& hop : network_->routes[flow.route]) {
    auto& users = links_[hop.resource].flows;
    *std::find(users.begin(), users.end(), slot) = users.back();
    users.pop_back();
  }
  touch(flow.route);
  ++flow.version;
}

// Everything that happens at one time is handled before rates are solved anew: a collective's flows start together.
void FlowSolver::run(EventHandler& handler) {
  resolve();
  while (!events_.empty()) {
    if (events_.top().at > now_ && !dirty_.empty()) {
      resolve();
      continue;
    }
    const Event event = events_.top();
    events_.pop();
    if (event.is_flow) {
      const auto slot = static_cast<std::int32_t>(event.token >> 32);
      if (flows_[slot].version != static_cast<std::uint32_t>(event.token)) continue;  // stale: time does not move either
      now_ = event.at;
      end_flow(slot);
      handler.on_arrival(slot);
    } else {
      now_ = event.at;
      handler.on_timer(event.token);
    }
    if (events_.empty()) resolve();
  }
}

void FlowSolver::resolve() {
  for (const std::int32_t link : dirty_) {
    if (!links_[link].dirty) continue;  // was in a component already solved
    if (links_[link].flows.empty()) {
      links_[link].dirty = false;
      continue;
    }
    if (!solve_alone(links_[link].flows.front())) {
      collect_component(link);
      solve_component();
    }
    update_rates();
  }
  dirty_.clear();
}

// A flow that has all its links for itself, as most have: no need to look further.
bool FlowSolver::solve_alone(std::int32_t slot) {
  const Flow& flow = flows_[slot];
  double rate = flow.cap;
  for (const SharedHop& hop : network_->routes[flow.route]) {
    if (links_[hop.resource].flows.size() > 1) return false;
    rate = std::min(rate, links_[hop.resource].capacity / hop.uses);
  }
  for (const SharedHop& hop : network_->routes[flow.route]) links_[hop.resource].dirty = false;
  component_flows_.assign(1, slot);
  new_rates_.assign(1, rate);
  return true;
}

void FlowSolver::collect_component(std::int32_t first) {
  ++visit_;
  component_links_.assign(1, first);
  component_flows_.clear();
  links_[first].visited = visit_;
  for (std::size_t next = 0; next < component_links_.size(); ++next) {
    Link& link = links_[component_links_[next]];
    link.dirty = false;
    for (const std::int32_t slot : link.flows) {
      Flow& flow = flows_[slot];
      if (flow.visited == visit_) continue;
      flow.visited = visit_;
      component_flows_.push_back(slot);
      for (const SharedHop& hop : network_->routes[flow.route]) {
        if (links_[hop.resource].visited == visit_) continue;
        links_[hop.resource].visited = visit_;
        component_links_.push_back(hop.resource);
      }
    }
  }
}

void FlowSolver::fix(Flow& flow, double rate) {
  flow.fixed = true;
  for (const SharedHop& hop : network_->routes[flow.route]) {
    Link& link = links_[hop.resource];
    link.free -= rate * hop.uses;
    link.wanting -= hop.uses;
  }
}

// Progressive filling: all rates grow together; a flow that reaches its cap or a full link keeps its rate.
void FlowSolver::solve_component() {
  for (const std::int32_t id : component_links_) {
    links_[id].free = links_[id].capacity;
    links_[id].wanting = 0;
  }
  for (const std::int32_t slot : component_flows_) {
    flows_[slot].fixed = false;
    for (const SharedHop& hop : network_->routes[flows_[slot].route]) links_[hop.resource].wanting += hop.uses;
  }
  new_rates_.assign(component_flows_.size(), 0);
  for (std::size_t left = component_flows_.size(); left > 0;) {
    double share = std::numeric_limits<double>::infinity();
    for (const std::int32_t id : component_links_) {
      const Link& link = links_[id];
      if (link.wanting > 0) share = std::min(share, std::max(0.0, link.free) / static_cast<double>(link.wanting));
    }
    double cap = std::numeric_limits<double>::infinity();
    for (const std::int32_t slot : component_flows_)
      if (!flows_[slot].fixed) cap = std::min(cap, flows_[slot].cap);
    const bool capped = cap < share;
    // Links are judged as they were before this round: fixing one flow moves the shares of others only by rounding.
    std::vector<std::int32_t>& full = full_links_;
    full.clear();
    if (!capped) {
      for (const std::int32_t id : component_links_) {
        const Link& link = links_[id];
        if (link.wanting > 0 && std::max(0.0, link.free) <= share * static_cast<double>(link.wanting) * kSameShare)
          full.push_back(id);
      }
      for (const std::int32_t id : full) links_[id].full = true;
    }
    for (std::size_t i = 0; i < component_flows_.size(); ++i) {
      Flow& flow = flows_[component_flows_[i]];
      if (flow.fixed) continue;
      bool stops = capped && flow.cap <= cap;
      if (!capped)
        for (const SharedHop& hop : network_->routes[flow.route]) stops = stops || links_[hop.resource].full;
      if (!stops) continue;
      new_rates_[i] = capped ? cap : share;
      fix(flow, new_rates_[i]);
      --left;
    }
    for (const std::int32_t id : full) links_[id].full = false;
  }
}

void FlowSolver::update_rates() {
  for (std::size_t i = 0; i < component_flows_.size(); ++i) {
    const std::int32_t slot = component_flows_[i];
    Flow& flow = flows_[slot];
    if (flow.rate == new_rates_[i]) continue;  // its finish event still holds
    PANPIPE_CHECK(new_rates_[i] > 0,
                  "a flow got no share of " + network_->resources[network_->routes[flow.route].front().resource].name);
    flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now_ - flow.updated));
    flow.updated = now_;
    flow.rate = new_rates_[i];
    ++flow.version;
    const double end = now_ + std::nearbyint(flow.remaining / flow.rate);
    events_.push({end, order_++, static_cast<Token>(slot) << 32 | flow.version, true});
  }
}

}  // namespace panpipe::sim
