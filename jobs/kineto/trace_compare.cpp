#include "jobs/kineto/trace_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe::jobs {
namespace {

constexpr double kMicroseconds = 1e6;

double microseconds_of(Duration time) { return time.base() * kMicroseconds; }
double& of(PredictedGroups& groups, KernelGroup group) { return groups.group_us[at(group)]; }

// `attention` of the compute is the attention core's.
void add_pass(PredictedGroups& groups, const Breakdown& cost, Duration attention, double times) {
  const Duration core = std::min(attention, cost.compute);
  of(groups, KernelGroup::Attention) += times * microseconds_of(core);
  of(groups, KernelGroup::Products) += times * microseconds_of(cost.compute - core);
  of(groups, KernelGroup::Elementwise) += times * microseconds_of(cost.memory);
}

void add_unit(PredictedGroups& groups, const UnitCost& unit, Recompute mode, double microbatches) {
  add_pass(groups, unit.forward.breakdown, unit.attention_forward, microbatches);
  if (unit.backward) {
    add_pass(groups, unit.backward->breakdown, unit.attention_backward, microbatches);
  } else {
    add_pass(groups, unit.input_gradient.breakdown, unit.attention_backward, microbatches);
    add_pass(groups, unit.weight_gradient.breakdown, Duration(0), microbatches);
  }
  if (mode == Recompute::None || unit.block.empty() || !unit.recomputes) return;
  const PassCost& again = mode == Recompute::Full ? unit.recompute_full : unit.recompute_selective;
  add_pass(groups, again.breakdown, unit.attention_forward, microbatches);
}

KernelGroup group_of_label(const std::string& label) {
  const KernelGroup group = group_of_kernel("kernel", label, label);
  return is_communication(group) ? group : KernelGroup::Other;
}

}  // namespace

PredictedGroups predicted_groups(const Experiment& experiment, const Plan& plan, const Prediction& prediction, int device) {
  const Timeline& timeline = prediction.timeline;
  const auto own = std::find_if(timeline.devices.begin(), timeline.devices.end(),
                                [&](const DeviceTimeline& known) { return known.device == device; });
  if (own == timeline.devices.end())
    throw InputError(fmt::format("device {} has no part in the plan of {}", device, experiment.scenario.file),
                     "--rank N names another");
  PredictedGroups groups;
  groups.device = device;
  const int twin = own->same_as >= 0 ? own->same_as : device;
  std::set<std::pair<int, int>> forwards;  // stage, microbatch: slices of a sequence are parts of one
  for (const Span& span : timeline.spans) {
    if (span.device != twin) continue;
    const double length = microseconds_of(span.end - span.start);
    if (span.lane == Lane::Compute && span.action.kind == ActionKind::F)
      forwards.emplace(span.action.stage, span.action.microbatch);
    if (span.lane == Lane::Compute && span.action.kind == ActionKind::Opt) of(groups, KernelGroup::Optimizer) += length;
    if (span.lane == Lane::Tensor || span.lane == Lane::Data) of(groups, group_of_label(span.label)) += length;
    if (span.lane == Lane::Send || span.lane == Lane::Receive) of(groups, KernelGroup::SendReceive) += length;
    if (span.lane == Lane::Copy) of(groups, KernelGroup::Copies) += length;
  }
  const DeviceType* type = &experiment.scenario.cluster.type_of(device);
  const int site = static_cast<int>(type - experiment.scenario.cluster.types.data());
  const WorkloadCost& costs = experiment.model.workload(site);
  for (const auto& [stage, microbatch] : forwards) {
    const StagePlan& part = plan.stages[stage];
    for (int unit = part.first_unit; unit < part.end_unit; ++unit) add_unit(groups, costs.units[unit], part.recompute, 1);
  }
  groups.step_us = microseconds_of(timeline.step_time);
  for (const DeviceMetrics& metrics : prediction.metrics.per_device)
    if (metrics.device == device) groups.exposed_us = metrics.exposed_communication_s * kMicroseconds;
  double busy = groups.exposed_us;
  for (const KernelGroup group :
       {KernelGroup::Products, KernelGroup::Attention, KernelGroup::Elementwise, KernelGroup::Optimizer})
    busy += of(groups, group);
  groups.idle_us = std::max(0.0, groups.step_us - busy);
  return groups;
}

std::vector<TraceRow> rows_of(const TraceSummary& measured, const PredictedGroups* predicted) {
  std::vector<TraceRow> rows;
  double normalization = 0;
  for (std::size_t i = 0; i < kKernelGroups; ++i) {
    const auto group = static_cast<KernelGroup>(i);
    TraceRow row{std::string(name_of(group)), measured.group_us[i], predicted ? predicted->group_us[i] : 0,
                 is_communication(group)};
    if (predicted && group == KernelGroup::Normalization) {
      normalization = row.measured_us;
      continue;
    }
    if (predicted && group == KernelGroup::Elementwise) {
      row.group = "element-wise, normalization";
      row.measured_us += normalization;
    }
    if (row.measured_us > 0 || row.predicted_us > 0) rows.push_back(std::move(row));
  }
  const auto total = [&](const char* name, double seen, double expected) { rows.push_back({name, seen, expected, false, true}); };
  total("exposed communication", measured.exposed_us, predicted ? predicted->exposed_us : 0);
  total("idle", measured.idle_us, predicted ? predicted->idle_us : 0);
  total("step", measured.step_us, predicted ? predicted->step_us : 0);
  return rows;
}

}  // namespace panpipe::jobs
