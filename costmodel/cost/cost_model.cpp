#include "costmodel/cost/cost_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/launch.hpp"
#include "costmodel/cost/length_models.hpp"
#include "costmodel/cost/occupancy.hpp"
#include "costmodel/cost/shared_cores.hpp"
#include "costmodel/cost/site.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {
namespace {

// Host and device run in parallel. For a pass that is one task, this norm models two queues operator by operator.
constexpr double kHostNorm = 4;

// Standard deviation of the speed of whole nodes. From 16 to 128 GPUs the same 125M to 1.3B models lose 1 to 6 % a GPU
// (mosaicml/llm-foundry, FSDP, one microbatch); over all published A100 runs 0.8 to 1.0 % fits best (docs/models/compute.md).
constexpr double kNodeSpread = 0.009;

void require_rates(const DeviceType& type, const Scenario& scenario) {
  if (!type.has_rates())
    throw fault_at(
        scenario, "cluster", "the cluster's devices have no compute rates (given in place), so times are unknown",
        fmt::format("measure this machine: panpipe profile {} -o profile.yaml, then add --set profile=profile.yaml; or use "
                    "measured layers, or a cluster file with devices",
                    scenario.file.empty() ? "SCENARIO" : scenario.file));
  if (type.peak_for(scenario.precision) > ComputeRate(0)) return;
  std::string known;
  for (const auto& [precision, rate] : type.peak) known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(precision));
  throw fault_at(
      scenario, "precision",
      fmt::format("the device {} has no compute rate for {}; its file gives {}", type.name, name_of(scenario.precision), known),
      fmt::format("state a precision that it has, or the rate of its data sheet, as '--set cluster.device.peak.{}=...'",
                  name_of(scenario.precision)));
}

// Where one process drives all ranks of a pipeline (`launch_contention` 1; 0: each has its own), a launch takes its time as often
// as ranks are at work: on average, of p ranks in a step of m microbatches, p m / (m + p - 1). Loops keep more at work; they are
// not counted, so that a plan's costs do not turn on the number of stages that it chooses.
Duration launch_time(const Framework& framework, const Calibration& c, const Degrees& degrees, double hooked_modules) {
  const double p = degrees.pipeline, m = degrees.microbatches;
  const double at_work = p * m / (m + p - 1);
  const Duration alone = degrees.zero >= 3 ? sharded_launch(framework, c, hooked_modules) : launch_alone(framework, c);
  return alone * (1 + c.launch_contention * (at_work - 1));
}

// The expected maximum of n normal deviates, in standard deviations.
double slowest_of(int n) { return std::sqrt(2 * std::log(std::max(n, 1))); }

// The share of a model's trained elements that products in 8 or 4 bits read.
double narrow_share(const Scenario& scenario, const Workload& workload) {
  const NarrowScope scope = narrow_scope(scenario.precision, scenario.framework);
  if (scope.recipe == nullptr || !workload.graph) return 0;
  const OperatorGraph& graph = *workload.graph;
  const TensorUse use = tensor_use(graph);
  double read = 0, all = 0;
  for (const Tensor& tensor : graph.tensors)
    if (tensor.role == TensorRole::Parameter && tensor.tied_to < 0 && tensor.requires_gradient)
      all += static_cast<double>(tensor.elements());
  for (int i = 0; i < static_cast<int>(graph.operators.size()); ++i)
    if (multiplies_narrow(graph, use, i, scope))
      if (const Tensor& weight = graph.tensors[use.product_weight[i]]; weight.requires_gradient)
        read += static_cast<double>(weight.elements());
  return all > 0 ? read / all : 0;
}

InputError not_measured(const Scenario& scenario, const WorkloadCost& cost) {
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(cost.unmeasured.size(), 3); ++i)
    names += (i ? ", " : "") + cost.unmeasured[i];
  if (cost.unmeasured.size() > 3) names += ", ...";
  return fault_at(scenario, "profile",
                  fmt::format("the profile has no times for {} of {} units ({}), and the cluster's devices have no rates",
                              cost.unmeasured.size(), cost.units.size(), names),
                  "it was measured for other shapes or another model: run panpipe profile on this scenario");
}

}  // namespace

std::string_view name_of(CostSource source) {
  constexpr std::string_view kNames[] = {"measured", "interpolated", "extrapolated", "formula", "given"};
  return kNames[at(source)];
}

Breakdown operator+(const Breakdown& a, const Breakdown& b) {
  Breakdown sum = a;
  sum.work += b.work;
  sum.traffic += b.traffic;
  sum.compute += b.compute;
  sum.attention += b.attention;
  sum.operands += b.operands;
  sum.memory += b.memory;
  sum.communication += b.communication;
  sum.launch += b.launch;
  sum.host += b.host;
  sum.host_paced += b.host_paced;
  sum.total += b.total;
  // A sum is a formula unless nothing in it is.
  if (a.total <= Duration(0) && a.work <= Flops(0)) sum.source = b.source;
  return sum;
}

CostModel::CostModel(const Scenario& scenario, const Workload& workload)
    : scenario_(&scenario),
      workload_(&workload),
      sites_(std::make_shared<Sites>(scenario, workload)),
      lengths_(std::make_shared<LengthModels>(scenario, workload)),
      narrow_weights_(narrow_share(scenario, workload)) {
  for (const DeviceType& type : scenario.cluster.types) calibrations_.push_back(calibration_for(type));
}

CostModel::CostModel(const Scenario& scenario, const Workload& workload, std::vector<Calibration> calibrations)
    : scenario_(&scenario),
      workload_(&workload),
      calibrations_(std::move(calibrations)),
      sites_(std::make_shared<Sites>(scenario, workload)),
      lengths_(std::make_shared<LengthModels>(scenario, workload)),
      narrow_weights_(narrow_share(scenario, workload)) {
  PANPIPE_CHECK(calibrations_.size() == scenario.cluster.types.size(), "a calibration for each type of device");
}

const CostModel& CostModel::of_length(int length) const { return length == 0 ? *this : lengths_->of(length, calibrations_); }

const WorkloadCost& CostModel::workload(int site) const {
  if (workload_->layers) return units(site);
  const DeviceType& type = scenario_->cluster.types[type_of(site)];
  if (scenario_->profile) {
    const WorkloadCost& cost = units(site);
    if (cost.unmeasured.empty()) return cost;
    if (!type.has_rates()) throw not_measured(*scenario_, cost);
  }
  require_rates(type, *scenario_);
  return units(site);
}

Duration CostModel::host_bound(Duration device, const HostWork& work, int site, const Degrees& degrees) const {
  if (work.none() || workload_->layers || scenario_->cluster.given) return device;
  const Duration launch = launch_time(scenario_->framework, calibration(type_of(site)), degrees, sites_->hooked_modules());
  const Duration host = launch * static_cast<double>(work.launches) + work.other;
  if (scenario_->framework.synchronous_launches) return device + host;
  const auto [smaller, larger] = std::minmax({device.base(), host.base()});
  if (larger <= 0) return Duration(0);
  return Duration(larger * std::pow(1 + std::pow(smaller / larger, kHostNorm), 1 / kHostNorm));
}

Duration CostModel::overlap_slowdown(Duration collective, int site) const {
  if (calibrations_.empty()) return collective * Calibration{}.overlap_loss;
  return collective * calibration(type_of(site)).overlap_loss;
}

double CostModel::stage_jitter(const Degrees& degrees) const { return stage_jitter(degrees, Occupancy::of(*scenario_, degrees)); }

double CostModel::stage_jitter(const Degrees& degrees, const Occupancy& occupancy) const {
  if (workload_->layers) return 1.0;
  if (scenario_->profile) return pass_slowdown(*scenario_, degrees);  // measured times hold the rest
  if (scenario_->cluster.given || calibrations_.empty()) return 1.0;
  double spread = 0;
  for (const int type : occupancy.types()) spread = std::max(spread, calibration(type).stage_jitter);
  return 1.0 + spread * slowest_of(degrees.pipeline) + node_jitter(occupancy.nodes());
}

double CostModel::node_jitter(int nodes) const {
  if (workload_->layers || scenario_->profile || scenario_->cluster.given) return 0;
  return kNodeSpread * slowest_of(nodes);
}

Bytes CostModel::loss_bytes_live() const {
  if (!workload_->graph) return Bytes(0);
  const OperatorGraph& graph = *workload_->graph;
  if (graph.loss < 0) return Bytes(0);
  const Operator& loss = graph.operators[graph.tensors[graph.loss].producer];
  double logits = 0;
  for_each_operand(loss, [&](int t) {
    if (graph.tensors[t].role == TensorRole::Activation)
      logits = std::max(logits, static_cast<double>(graph.tensors[t].elements()));
  });
  return Bytes(static_cast<std::int64_t>(logits * scenario_->framework.loss_live_bytes_per_logit));
}

const Calibration& CostModel::calibration(int device_type) const { return calibrations_[device_type]; }

}  // namespace panpipe
