#include "planner/auto/pricer.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "costmodel/cost/shared_cores.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/transfer_semantics.hpp"
#include "costmodel/prediction/step_traits.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "planner/auto/stage_recompute.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {
namespace {

// Devices of position (rank, replica, tensor index): a rank lies `step` positions behind the one before, a replica `stride`.
std::vector<int> devices_at(const Positions& positions, const Degrees& degrees, std::int64_t step, std::int64_t stride) {
  std::vector<int> devices;
  for (int r = 0; r < degrees.pipeline; ++r)
    for (int d = 0; d < degrees.replicas(); ++d)
      for (int t = 0; t < degrees.tensor; ++t) devices.push_back(positions.device(r * step + d * stride + t));
  return devices;
}

Degrees with_shard(Degrees degrees, int shard) {
  degrees.shard = shard;
  return degrees;
}

void fill_jitter(const Experiment& experiment, SearchFacts& facts) {
  const Scenario& scenario = experiment.scenario;
  Degrees degrees = scenario.degrees;
  degrees.pipeline = degrees.data = degrees.tensor = degrees.context = 1;
  const Occupancy one = Occupancy::of(scenario, degrees);
  degrees = scenario.degrees;
  for (int p = 0; p <= scenario.cluster.size(); ++p) {
    degrees.pipeline = p;
    facts.rank_jitter.push_back(experiment.model.stage_jitter(degrees, one));
  }
  const Positions positions(scenario);
  std::set<int> nodes;
  facts.node_jitter.push_back(0);
  const int most = scenario.placement ? static_cast<int>(scenario.placement->size()) : scenario.cluster.size();
  for (int n = 0; n < most; ++n) {
    nodes.insert(scenario.cluster.devices[positions.device(n)].node);
    facts.node_jitter.push_back(experiment.model.node_jitter(static_cast<int>(nodes.size())));
  }
}

SearchFacts search_facts(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario;
  const ModelCosts costs(experiment.model, scenario.degrees);
  SearchFacts facts{.memory = MemoryModel(scenario)};
  facts.blocking = transfer_semantics(scenario, costs.measured()) != TransferSemantics::Asynchronous;
  facts.early_gradients = scenario.transfers.full_backward_sends != TransferRules::FullBackwardSends::End;
  facts.count_collectives = !scenario.collectives_run_on && !facts.early_gradients;
  const ScheduleRequest& stated = scenario.schedule;
  const auto has = [&](const char* option) { return stated.options.count(option) > 0; };
  if (!stated.csv.empty() || has_option(stated.name, "sequence_splits")) facts.stated_work = facts.stated_kept = 0.5;
  if (!stated.csv.empty() || has("recompute") || has("offload") || !scenario.recompute_scope.firsts.empty())
    facts.stated_kept = 0;
  facts.allocator = facts.memory.allocator_factor(costs);
  facts.context = facts.memory.context(costs).base();
  for (const Device& device : scenario.cluster.devices)
    facts.limit = std::max(facts.limit, memory_limit(scenario, scenario.cluster.types[device.type]).base());
  fill_jitter(experiment, facts);
  return facts;
}

}  // namespace

Variant::Variant(const Scenario& scenario, const Degrees& degrees, const std::vector<Calibration>& calibrations,
                 BalancedCuts& balanced)
    : workload(make_workload(scenario, degrees)),
      model(scenario, workload, calibrations),
      sums(model.of_length(std::max(0, static_cast<int>(scenario.lengths.shapes.size()) - 1)), balanced) {}

Common::Common(const Experiment& of, const Space& in, SearchOptions with)
    : experiment(of), space(in), options(std::move(with)), facts(search_facts(of)) {
  for (const DeviceType& type : of.scenario.cluster.types) calibrations.push_back(calibration_for(type));
  by_stage = in.recompute.size() > 1 && recomputes_by_stage(of.scenario);
  limit_with_room = static_cast<double>(facts.limit) / (has_given_costs(of.scenario) ? 1 : 1 + kMemoryModelError);
  Degrees all = of.scenario.degrees;
  all.pipeline = of.scenario.cluster.size();
  crowded = shared_cores(of.scenario, all).crowded();
}

// The places of a rank's replicas do not depend on their exchanges.
const Reductions& Common::reductions(const Configuration& c) {
  const bool data_next = c.order == AxisOrder::DataNext;
  const int stride = data_next ? c.tensor : c.tensor * c.pipeline, step = data_next ? c.tensor * c.replicas() : c.tensor;
  // Every rank that there may be, so that the answer does not depend on who asks first.
  const bool placed = experiment.scenario.placement.has_value();
  const int ranks = data_next && !placed ? space.devices / step : c.pipeline;
  const bool network = experiment.scenario.cluster.nodes > 1;  // whose share turns on all devices in use
  const int used = network ? c.pipeline : ranks;
  const std::lock_guard guard(lock_);
  auto& known = reductions_[{stride, c.replicas(), c.context, step, used}];
  if (!known) {
    const Positions positions(experiment.scenario);
    const Degrees degrees{.tensor = c.tensor, .pipeline = used, .data = c.data, .context = c.context};
    const Occupancy occupancy(experiment.scenario.cluster, degrees, devices_at(positions, degrees, step, stride));
    known = std::make_unique<Reductions>(
        experiment.model, occupancy,
        data_groups(c.replicas(), stride, step, used, positions, experiment.scenario.cluster, occupancy));
  }
  return *known;
}

Pricer::Pricer(Common& common, const Degrees& shape)
    : common_(common),
      shape_(with_shard(shape, common.experiment.scenario.degrees.shard)),
      variant_(common.experiment.scenario, shape_, common.calibrations, common.cuts),
      routes_(common.experiment.scenario) {}

const PerParameter& Pricer::per_parameter(int zero, int data) {
  auto& known = per_parameter_[{data, zero}];
  if (!known) {
    Degrees degrees = shape_;
    degrees.zero = zero;
    degrees.data = data;
    degrees.microbatches = static_cast<int>(microbatches_of(common_.space, shape_.micro, data));
    known = std::make_unique<PerParameter>(planner::per_parameter(variant_.model, degrees));
  }
  return *known;
}

void Pricer::prepare(StageTraffic& traffic, const PlacedStages& placed, const Configuration& c) {
  std::array<const PerParameter*, 4> zeros{};
  for (const int zero : zeros_of(common_.space, c)) zeros[zero] = &per_parameter(zero, c.data);
  HandOvers& times = hand_overs_.try_emplace(c.data, variant_.model, routes_, c).first->second;
  const Occupancy& occupancy = occupancy_of(c);
  times.use(occupancy);
  const double tied = placed.tied.empty() ? 0 : tied_time(placed, c);
  traffic.prepare(placed, common_.facts, common_.facts.jitter(c.pipeline, c.device_count()),
                  routes_.chain(c.place(1, 0, 0), c.pipeline), times, common_.reductions(c), zeros, tied);
}

// For hand-overs. The enumeration asks about many configurations of one pipeline length in a row.
const Occupancy& Pricer::occupancy_of(const Configuration& c) {
  if (c.pipeline != occupied_by_) occupancies_.clear();
  occupied_by_ = c.pipeline;
  const auto known = occupancies_.find({c.data, c.order});
  if (known != occupancies_.end()) return known->second;
  std::vector<int> devices = devices_at(routes_.positions(), c, c.place(1, 0, 0), c.place(0, 1, 0));
  const Cluster& cluster = common_.experiment.scenario.cluster;
  return occupancies_.try_emplace({c.data, c.order}, cluster, c, std::move(devices), /* rings */ false).first->second;
}

// A lower bound of the time per byte, from many bytes: fewer bytes take no less time per byte.
double Pricer::tied_time(const PlacedStages& placed, const Configuration& c) {
  constexpr double kMany = 64.0 * (1 << 30);
  double least = std::numeric_limits<double>::infinity();
  for (const PlacedStages::Tied& tied : placed.tied) {
    const std::vector<int> pair = {routes_.positions().device(c.place(tied.first, 0, 0)),
                                   routes_.positions().device(c.place(tied.last, 0, 0))};
    const GroupNetwork network = occupancy_of(c).network_of(pair);
    double& known = pair_times_.try_emplace(std::tuple{pair[0], pair[1], network.ring}, -1).first->second;
    const Bytes bytes(static_cast<std::int64_t>(kMany));
    if (known < 0) known = variant_.model.collective(CollectiveKind::AllReduce, bytes, pair, network).time.base() / kMany;
    least = std::min(least, known);
  }
  return least;
}

}  // namespace panpipe::planner
