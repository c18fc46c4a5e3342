#include "costmodel/cost/site.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/cost/block_recompute.hpp"
#include "costmodel/cost/ring_hops.hpp"
#include "costmodel/cost/workload_cost.hpp"

namespace panpipe {
namespace {

// Sizes at which two groups must agree to be alike: latency, and bandwidth.
constexpr std::int64_t kProbes[] = {1, std::int64_t{64} << 20, std::int64_t{4} << 30};

std::vector<double> probe_of(const CostModel& model, const std::vector<int>& group, const GroupNetwork& network) {
  std::vector<double> times;
  for (const CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter})
    for (const std::int64_t bytes : kProbes) times.push_back(model.collective(kind, Bytes(bytes), group, network).time.base());
  return times;
}

}  // namespace

Sites::Sites(const Scenario& scenario, int tensor) {
  const Cluster& cluster = scenario.cluster;
  const int groups = std::max(1, cluster.size() / std::max(1, tensor));
  const Degrees degrees{.tensor = tensor, .data = groups};
  const Occupancy whole = Occupancy::of(scenario, degrees);
  const std::vector<int>& devices = whole.devices();
  for (int type = 0; type < static_cast<int>(cluster.types.size()); ++type) {
    Site site;
    site.type = type;
    std::set<std::vector<int>> seen;
    std::pair<int, double> best{0, 0};  // nodes; and a hop's bandwidth, negative
    for (int g = 0; g < groups; ++g) {
      const auto first = devices.begin() + std::min<std::ptrdiff_t>(g * tensor, std::ssize(devices));
      const auto last = first + std::min<std::ptrdiff_t>(tensor, devices.end() - first);
      if (!std::all_of(first, last, [&](int device) { return cluster.devices[panpipe::at(device)].type == type; })) continue;
      std::vector<int> group(first, last);
      if (group.empty() || !seen.insert(whole.form_of(group)).second) continue;
      std::set<int> nodes;
      for (const int device : group) nodes.insert(cluster.devices[panpipe::at(device)].node);
      const std::pair rank{static_cast<int>(nodes.size()), -ring_hops(cluster, group).bandwidth};
      if (!site.group.empty() && rank >= best) continue;
      best = rank;
      site.group = std::move(group);
      if (tensor == 1) break;
    }
    if (site.group.empty())
      site.group.assign(devices.begin(), devices.begin() + std::min<std::ptrdiff_t>(tensor, std::ssize(devices)));
    site.network = whole.network_of(site.group);
    types_.push_back(std::move(site));
  }
}

Site& Sites::at(int site) {
  if (is_type(site)) return types_[panpipe::at(site)];
  return others_.at(panpipe::at(site) - types_.size());
}

int Sites::of_form(const std::vector<int>& form) const {
  const auto found = forms_.find(form);
  return found == forms_.end() ? -1 : found->second;
}

int Sites::add(const std::vector<int>& form, const std::vector<double>& probe, Site site) {
  const int next = static_cast<int>(types_.size() + others_.size());
  const auto [known, is_new] = probes_.try_emplace({site.type, probe}, next);
  if (is_new) others_.push_back(std::move(site));
  return forms_[form] = known->second;
}

int CostModel::type_of(int site) const {
  if (sites_->is_type(site)) return site;
  const std::lock_guard lock(sites_->mutex());
  return sites_->at(site).type;
}

int CostModel::site_of(const std::vector<int>& group, const Occupancy& occupancy) const {
  const Cluster& cluster = scenario_->cluster;
  const int first = cluster.devices[at(group.front())].type;
  if (workload_->layers) return first;
  if (group.size() == 1) return first;
  const std::vector<int> form = occupancy.form_of(group);
  const std::lock_guard lock(sites_->mutex());
  if (const int known = sites_->of_form(form); known >= 0) return known;
  Site site;
  site.type = first;
  site.group = group;
  site.network = occupancy.network_of(group);
  const std::vector<double> probe = probe_of(*this, group, site.network);
  // The type's own site, if its group is alike; among unlike members the one that takes longest for the whole model.
  double longest = -1;
  for (const int device : group) {
    const int type = cluster.devices[at(device)].type;
    Duration sum(0);
    if (std::any_of(group.begin(), group.end(), [&](int other) { return cluster.devices[at(other)].type != type; }))
      for (const UnitCost& unit : units(type).units) sum += unit.forward.breakdown.total + unit.input_gradient.breakdown.total;
    if (sum.base() > longest) {
      longest = sum.base();
      site.type = type;
    }
  }
  const Site& own = sites_->at(site.type);
  if (probe_of(*this, own.group, own.network) == probe) return sites_->remember(form, site.type);
  return sites_->add(form, probe, std::move(site));
}

const WorkloadCost& CostModel::units(int number) const {
  const bool is_type = sites_->is_type(number);
  std::unique_lock lock(sites_->mutex(), std::defer_lock);
  if (!is_type) lock.lock();
  Site& site = sites_->at(number);
  if (site.cost) return *site.cost;
  if (workload_->layers) {
    site.cost = cost_of_layers(*workload_->layers);
  } else {
    PANPIPE_CHECK(workload_->graph, "a workload without graph and without layers");
    const Calibration& c = calibration(site.type);
    const DeviceRates rates = device_rates(scenario_->cluster.types[at(site.type)], c, *scenario_);
    site.cost = cost_of_graph(*this, *workload_->graph, rates, c, site.group, site.network);
  }
  const RecomputeScope& scope = scenario_->recompute_scope;
  if (scope.every > 1) recompute_one_block_in(scope.every, *site.cost);
  site.cost->recompute_first = scope.first;
  site.cost->recompute_chunk = scope.chunk;
  return *site.cost;
}

}  // namespace panpipe
