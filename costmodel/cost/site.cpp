#include "costmodel/cost/site.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/cost/block_recompute.hpp"
#include "costmodel/cost/gradient_traffic.hpp"
#include "costmodel/cost/ring_hops.hpp"
#include "costmodel/cost/streamed_blocks.hpp"
#include "costmodel/cost/workload_cost.hpp"

namespace panpipe {
namespace {

// Sizes at which two groups must agree to be alike: latency, and bandwidth.
constexpr std::int64_t kProbes[] = {1, std::int64_t{64} << 20, std::int64_t{4} << 30};

// Tensor-parallel groups sum and scatter, the others exchange.
std::vector<CollectiveKind> probed_kinds(Among among) {
  if (among == Among::Tensor) return {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter};
  return {CollectiveKind::AllToAll, CollectiveKind::ReduceScatter, CollectiveKind::SendReceive};
}

std::vector<double> probe_of(const CostModel& model, const Site& site) {
  std::vector<double> times;
  for (const Among among : kAmongInPasses)
    if (const std::vector<int>& group = site.groups.of(among); among == Among::Tensor || group.size() > 1)
      for (const CollectiveKind kind : probed_kinds(among))
        for (const std::int64_t bytes : kProbes)
          times.push_back(model.collective(kind, Bytes(bytes), group, site.network(among)).time.base());
  return times;
}

// Of blocks that the scenario states by stage: for costs of stages that no plan has cut yet.
int mean_first_blocks(const RecomputeScope& scope) {
  const int blocks = std::accumulate(scope.firsts.begin(), scope.firsts.end(), 0), stages = static_cast<int>(scope.firsts.size());
  return std::max(1, (blocks + stages / 2) / stages);
}

void find_networks(const Occupancy& occupancy, Site& site) {
  for (const Among among : kAmongInPasses) site.networks[index_of(among)] = occupancy.network_of(site.groups.of(among));
}

// Modules per operator of a layer whose targets have LoRA factors, over those of one without: `sharded_launch` was counted with
// 11 modules over 150 operators of a recomputed layer. PEFT makes a target five modules, the target itself, its base layer, both
// factors and dropout (tuners/lora/layer.py), and adds five operators to a forward, which recompute repeats, and eight to its
// backward.
double hooked_modules_of(const Scenario& scenario, const Workload& workload) {
  constexpr double kModules = 11, kOperators = 150, kModulesOfTarget = 4, kOperatorsOfTarget = 2 * 5 + 8;
  if (scenario.workload.tuning.rank == 0 || !workload.graph) return 1;
  std::set<std::string_view> blocks;
  int targets = 0;
  for (const UnitInfo& unit : workload.graph->units)
    if (!unit.block.empty()) blocks.insert(unit.block);
  for (const Tensor& tensor : workload.graph->tensors)
    if (tensor.role == TensorRole::Parameter && tensor.name.ends_with(".lora_A.weight")) ++targets;
  if (blocks.empty()) return 1;
  const double per_layer = targets / static_cast<double>(blocks.size());
  return (1 + per_layer * kModulesOfTarget / kModules) / (1 + per_layer * kOperatorsOfTarget / kOperators);
}

// A slow device takes as much longer for everything that it computes; its collectives wait for it, and take what they take.
void slow_down(double factor, PassCost& pass) {
  Duration before(0);
  for (Piece& piece : pass.pieces) {
    if (piece.collective) continue;
    before += piece.time;
    piece.time = piece.time * factor;
  }
  Breakdown& all = pass.breakdown;
  for (Duration* part : {&all.compute, &all.attention, &all.operands, &all.memory}) *part = *part * factor;
  all.total += before * (factor - 1);
}

void slow_down(double factor, WorkloadCost& cost) {
  if (factor == 1) return;
  for (UnitCost& unit : cost.units) {
    for (PassCost* pass :
         {&unit.forward, &unit.input_gradient, &unit.weight_gradient, &unit.recompute_full, &unit.recompute_selective})
      slow_down(factor, *pass);
    if (unit.backward) slow_down(factor, *unit.backward);
    for (Duration* part : {&unit.optimizer, &unit.attention_forward, &unit.attention_backward}) *part = *part * factor;
  }
}

}  // namespace

PassGroups::PassGroups(const Degrees& degrees, const std::vector<int>& devices, int rank, int replica) {
  const int first = rank * degrees.devices_of_rank(), position = replica * degrees.tensor;
  for (const Among among : kAmongInPasses) {
    const GroupShape shape = degrees.group(among);
    for (int member = 0, at = shape.first_of(position); member < shape.members; ++member, at += shape.stride)
      if (const std::size_t place = panpipe::at(first + at); place < devices.size())
        members[index_of(among)].push_back(devices[place]);
  }
}

Sites::Sites(const Scenario& scenario, const Workload& workload) : hooked_modules_(hooked_modules_of(scenario, workload)) {
  const Cluster& cluster = scenario.cluster;
  const WorkloadShape& shape = workload.shape;
  Degrees degrees = shape.degrees.of_graph();
  degrees.tensor = std::max(1, degrees.tensor);
  const int tensor = degrees.tensor;
  // The smallest number of replicas that contains whole groups.
  int block = tensor;
  for (const Among among : kAmongInPasses) block = std::lcm(block, degrees.group(among).members * degrees.group(among).stride);
  const int together = block / tensor;
  const int groups = std::max(1, cluster.size() / tensor / together) * together;
  degrees.data = groups / degrees.context;
  const Occupancy whole = Occupancy::of(scenario, degrees);
  const std::vector<int>& devices = whole.devices();
  for (int type = 0; type < static_cast<int>(cluster.types.size()); ++type) {
    Site site;
    site.type = type;
    std::set<std::vector<int>> seen;
    std::pair<int, double> best{0, 0};  // nodes; and a hop's bandwidth, negative
    for (int g = 0; g < groups; ++g) {
      PassGroups candidate(degrees, devices, 0, g);
      const std::vector<int>& group = candidate.tensor();
      if (!std::all_of(group.begin(), group.end(), [&](int device) { return cluster.devices[panpipe::at(device)].type == type; }))
        continue;
      if (group.empty() || !seen.insert(whole.form_of(candidate)).second) continue;
      std::set<int> nodes;
      for (const Among among : kAmongInPasses)
        for (const int device : candidate.of(among)) nodes.insert(cluster.devices[panpipe::at(device)].node);
      const std::pair rank{static_cast<int>(nodes.size()), -ring_hops(cluster, group).bandwidth};
      const bool alone = candidate.alone();
      if (!site.groups.tensor().empty() && rank >= best) continue;
      best = rank;
      site.groups = std::move(candidate);
      if (alone) break;
    }
    if (site.groups.tensor().empty()) site.groups = PassGroups(degrees, devices, 0, 0);
    find_networks(whole, site);
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

int CostModel::site_of(const PassGroups& groups, const Occupancy& occupancy) const {
  const Cluster& cluster = scenario_->cluster;
  const auto type_at = [&](int device) { return cluster.devices[panpipe::at(device)].type; };
  const int first = type_at(groups.tensor().front());
  // Of members that wait for each other in passes, the slow one.
  std::set<int> types;
  for (const Among among : kAmongInPasses)
    for (const int device : groups.of(among)) types.insert(type_at(device));
  const auto slowdown = [&](int type) { return slowdown_of_type(cluster, type); };
  if (workload_->layers)
    return *std::max_element(types.begin(), types.end(), [&](int a, int b) {
      return std::pair(slowdown(a), a == first) < std::pair(slowdown(b), b == first);
    });
  if (groups.alone()) return first;
  const std::vector<int> form = occupancy.form_of(groups);
  const std::lock_guard lock(sites_->mutex());
  if (const int known = sites_->of_form(form); known >= 0) return known;
  Site site;
  site.type = first;
  site.groups = groups;
  find_networks(occupancy, site);
  const std::vector<double> probe = probe_of(*this, site);
  // The type's own site, if its groups are alike; among unlike members the one that takes longest for the whole model.
  double longest = -1;
  for (const int type : types) {
    Duration sum(0);
    if (types.size() > 1)
      for (const UnitCost& unit : units(type).units) sum += unit.forward.breakdown.total + unit.input_gradient.breakdown.total;
    if (sum.base() > longest || (sum.base() == longest && type == first)) {
      longest = sum.base();
      site.type = type;
    }
  }
  if (probe_of(*this, sites_->at(site.type)) == probe) return sites_->remember(form, site.type);
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
    const DeviceRates rates = device_rates(scenario_->cluster.types[site.type], c, *scenario_);
    site.cost = cost_of_graph(*this, *workload_->graph, rates, c, site);
  }
  slow_down(slowdown_of_type(scenario_->cluster, site.type), *site.cost);
  const RecomputeScope& scope = scenario_->recompute_scope;
  if (scope.every > 1) recompute_one_block_in(scope.every, *site.cost);
  const HostedState& hosted = scenario_->offload;
  if (hosted.streams_activations()) stream_activations(hosted.blocks, hosted.block_inputs, *site.cost);
  if (hosted.gradients) stream_gradients(travelling_gradient_bytes(*scenario_), *site.cost);
  site.cost->recompute_first = scope.firsts.empty() ? scope.first : mean_first_blocks(scope);
  site.cost->recompute_chunk = scope.chunk;
  return *site.cost;
}

}  // namespace panpipe
