#include "costmodel/prediction/step_class.hpp"

#include "base/index.hpp"
#include "costmodel/workload/model_config.hpp"

namespace panpipe {
namespace {

bool without_nvlink(PathClass path) {
  return path == PathClass::PeerPcie || path == PathClass::Host || path == PathClass::HostSockets;
}

bool over_pcie(const Cluster& cluster, const Plan& plan) {
  for (std::size_t i = 1; i < plan.devices.size() && i < at(cluster.node.front().devices); ++i) {
    const int before = plan.devices[i - 1], device = plan.devices[i];
    if (cluster.devices[before].node != cluster.devices[device].node) continue;
    if (without_nvlink(cluster.route(before, device).path)) return true;
  }
  return false;
}

bool has_experts(const WorkloadRequest& workload) {
  return workload.config && workload.config->dimensions.traits.experts.count > 0;
}

// Presets that count nothing around experts are of code that nobody has read for it: what a layer launches, copies and pads
// there.
bool counts_experts(const Framework& framework) { return framework.expert_forward_operators > 0; }

}  // namespace

std::string_view name_of(StepClass of) {
  constexpr std::string_view kNames[] = {"dense, NVLink",      "one GPU",  "PCIe",    "8 bits",        "experts",
                                         "experts, uncounted", "adapters", "offload", "measured units"};
  return kNames[at(of)];
}

StepClass class_of(const Scenario& scenario, const Plan& plan) {
  if (scenario.profile) return StepClass::Profiled;
  if (const HostedState& hosted = scenario.offload; hosted.any()) return StepClass::Offload;
  if (over_pcie(scenario.cluster, plan)) return StepClass::Pcie;
  if (has_experts(scenario.workload))
    return counts_experts(scenario.framework) ? StepClass::Experts : StepClass::UncountedExperts;
  if (scenario.workload.tuning.any()) return StepClass::Adapters;
  if (plan.devices.size() <= 1) return StepClass::OneGpu;
  if (has_narrow_products(scenario.precision)) return StepClass::EightBit;
  return StepClass::Dense;
}

}  // namespace panpipe
