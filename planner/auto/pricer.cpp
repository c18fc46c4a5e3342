#include "planner/auto/pricer.hpp"

#include <algorithm>
#include <limits>

#include "costmodel/cost/shared_cores.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/transfer_semantics.hpp"

namespace panpipe::planner {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Ground ground_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario;
  const ModelCosts costs(experiment.model, degrees_of(scenario));
  Ground ground;
  ground.blocking = transfer_semantics(scenario, costs.measured()) != TransferSemantics::Asynchronous;
  ground.early_gradients = scenario.transfers.full_backward_sends != TransferRules::FullBackwardSends::End;
  ground.count_collectives = !scenario.collectives_run_on && !ground.early_gradients;
  ground.as_pfeife = scenario.memory_model == MemoryModelKind::Pfeife;
  ground.one_message = scenario.profile != nullptr;
  const ScheduleRequest& stated = scenario.schedule;
  const auto has = [&](const char* option) { return stated.options.count(option) > 0; };
  if (!stated.csv.empty() || has("sequence_splits") || stated.name == "seq-1f1b") ground.stated_work = ground.stated_kept = 0.5;
  if (!stated.csv.empty() || has("recompute") || has("offload")) ground.stated_kept = 0;
  ground.allocator = ground.as_pfeife ? 1 : costs.allocator_factor();
  ground.context = ground.as_pfeife ? 0 : costs.framework_context().base();
  for (const Device& device : scenario.cluster.devices)
    ground.limit = std::max(ground.limit, memory_limit(scenario, scenario.cluster.types[at(device.type)]).base());
  for (int p = 0; p <= scenario.cluster.size(); ++p) ground.jitter.push_back(costs.stage_jitter(p));
  return ground;
}

}  // namespace

Variant::Variant(const Scenario& scenario, const Degrees& degrees, const std::vector<Calibration>& calibrations,
                 BalancedCuts& balanced)
    : workload(make_workload(scenario, degrees)), model(scenario, workload, calibrations), sums(model, balanced) {}

Common::Common(const Experiment& of, const Space& in) : experiment(of), space(in), ground(ground_of(of)) {
  for (const DeviceType& type : of.scenario.cluster.types) calibrations.push_back(calibration_for(type));
  Degrees all = degrees_of(of.scenario);
  all.pipeline = of.scenario.cluster.size();
  crowded = shared_cores(of.scenario, all).crowded();
}

// The copies of a rank lie where they lie, whatever they exchange.
const Reductions& Common::reductions(const Configuration& c) {
  const bool data_next = c.order == AxisOrder::DataNext;
  const int stride = data_next ? c.tensor : c.tensor * c.pipeline, step = data_next ? c.tensor * c.data : c.tensor;
  // Every rank that there may be, so that the answer does not depend on who asks first.
  const bool placed = experiment.scenario.placement.has_value();
  const int ranks = data_next && !placed ? space.devices / step : c.pipeline;
  const std::lock_guard guard(lock_);
  auto& known = reductions_[{stride, c.data, step}];
  if (!known)
    known = std::make_unique<Reductions>(
        experiment.model, data_groups(c.data, stride, step, ranks, Positions(experiment.scenario), experiment.scenario.cluster));
  return *known;
}

Pricer::Pricer(Common& common, int tensor, int micro, bool sequence_parallel)
    : common_(common),
      shape_{.tensor = tensor, .sequence_parallel = sequence_parallel, .micro = micro},
      variant_(common.experiment.scenario, shape_, common.calibrations, common.cuts),
      routes_(common.experiment.scenario) {}

const PerParameter& Pricer::per_parameter(int zero, int data) {
  auto& known = per_parameter_[{data, zero}];
  if (!known) {
    Degrees degrees = shape_;
    degrees.zero = zero;
    degrees.data = data;
    known = std::make_unique<PerParameter>(planner::per_parameter(variant_.model, degrees));
  }
  return *known;
}

void Pricer::prepare(Surroundings& surroundings, const Layout& layout, const Configuration& c) {
  std::array<const PerParameter*, 4> zeros{};
  for (const int zero : zeros_of(common_.space, c.data)) zeros[at(zero)] = &per_parameter(zero, c.data);
  HandOvers& times = hand_overs_.try_emplace(c.data, variant_.model, routes_, c.degrees()).first->second;
  const double tied = layout.tied.empty() ? 0 : tied_time(layout, c);
  surroundings.prepare(layout, common_.ground, routes_.chain(c.place(1, 0, 0), c.pipeline), times, common_.reductions(c), zeros,
                       tied);
}

// Of a byte: the time of fewer bytes is no smaller a share of it than of many.
double Pricer::tied_time(const Layout& layout, const Configuration& c) {
  constexpr double kMany = 64.0 * (1 << 30);
  double least = std::numeric_limits<double>::infinity();
  for (const Layout::Tied& tied : layout.tied) {
    const std::vector<int> pair = {routes_.positions().device(c.place(tied.first, 0, 0)),
                                   routes_.positions().device(c.place(tied.last, 0, 0))};
    double& known = pair_times_.try_emplace(std::pair{pair[0], pair[1]}, -1).first->second;
    const Bytes bytes(static_cast<std::int64_t>(kMany));
    if (known < 0) known = variant_.model.collective(CollectiveKind::AllReduce, bytes, pair).time.base() / kMany;
    least = std::min(least, known);
  }
  return least;
}

}  // namespace panpipe::planner
