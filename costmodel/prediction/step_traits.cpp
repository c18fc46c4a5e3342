#include "costmodel/prediction/step_traits.hpp"

#include <algorithm>
#include <set>

#include "base/index.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/prediction/plan_cautions.hpp"

namespace panpipe {
namespace {

// What a profile of a machine leaves of the spread of the times that it measures: our own profiled runs are some per cent off.
constexpr double kLeftByProfile = 0.25;

// A device whose calibration is another's, or whose clock is lowered by a rule, may differ from its prediction by so many times
// as much in what its own chip does. Assumed: no such device was compared.
constexpr double kUnmeasured = 2;

// "80G", "32GB".
bool is_memory_size(const std::string& part) {
  const std::size_t digits = std::min(part.find_first_not_of("0123456789"), part.size());
  const std::string unit = part.substr(digits);
  return digits > 0 && (unit == "G" || unit == "GB");
}

std::string precision_of(Precision precision) {
  const bool is_half = precision == Precision::Bf16 || precision == Precision::Fp16;
  return is_half ? "16 bit" : std::string(name_of(precision));
}

std::string parallel_of(const Scenario& scenario, const Plan& plan) {
  std::string text;
  const auto add = [&](int degree, const char* kind) {
    if (degree > 1) text += (text.empty() ? "" : " + ") + std::string(kind);
  };
  add(plan.tensor, "tensor");
  add(plan.context, "context");
  add(plan.pipeline, "pipeline");
  add(plan.data, zero_in_effect(scenario.framework, plan) >= 3 ? "sharded data" : "data");
  return text.empty() ? "one device" : text;
}

// The names of a cluster's types of device in use, of thousands of devices a few.
template <class NameOf>
std::string names_of_types(const Cluster& cluster, NameOf name_of) {
  std::set<std::int32_t> types;
  for (const Device& device : cluster.devices) types.insert(device.type);
  std::set<std::string> names;
  for (const std::int32_t type : types) names.insert(name_of(cluster.types[type].name));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " + ") + name;
  return text;
}

// Of the first two devices of the plan that share a node.
std::string wiring_of(const Cluster& cluster, const Plan& plan) {
  for (std::size_t i = 1; i < plan.devices.size(); ++i) {
    const int before = plan.devices[i - 1], device = plan.devices[i];
    if (cluster.devices[before].node != cluster.devices[device].node) continue;
    const PathClass path = cluster.route(before, device).path;
    // How a pair without peer access reaches its neighbour is one kind, with one socket or two.
    return std::string(name_of(path == PathClass::HostSockets ? PathClass::Host : path));
  }
  return "";
}

}  // namespace

std::string chips_of(const Cluster& cluster) { return names_of_types(cluster, chip_of); }

std::string chip_of(const std::string& device) {
  std::string chip;
  for (std::size_t at = 0; at <= device.size();) {
    const std::size_t end = std::min(device.find('-', at), device.size());
    const std::string part = device.substr(at, end - at);
    if (!is_memory_size(part)) chip += (chip.empty() ? "" : "-") + part;
    at = end + 1;
  }
  return chip;
}

bool has_given_costs(const Scenario& scenario) {
  const auto& types = scenario.cluster.types;
  return !scenario.workload.layers_file.empty() ||
         std::none_of(types.begin(), types.end(), [](const DeviceType& type) { return type.has_rates(); });
}

StepTraits traits_of(const Scenario& scenario, const Plan& plan, const Sensitivity& sensitivity) {
  StepTraits traits;
  traits.sensitivity = sensitivity;
  traits.of = class_of(scenario, plan);
  if (traits.of == StepClass::Profiled)
    for (const Direction measured : {Direction::Products, Direction::MemoryTraffic, Direction::Attention, Direction::Host,
                                     Direction::Node, Direction::Synchronisation})
      traits.sensitivity[at(measured)] *= kLeftByProfile;
  if (traits.of != StepClass::Profiled && (!unmeasured(scenario.cluster).empty() || unmeasured_recipe(scenario) != nullptr))
    for (const Direction of_chip : {Direction::Products, Direction::MemoryTraffic, Direction::Attention})
      traits.sensitivity[at(of_chip)] *= kUnmeasured;
  traits.device = chips_of(scenario.cluster);
  traits.framework = scenario.framework.name;
  traits.precision = precision_of(scenario.precision);
  traits.parallel = parallel_of(scenario, plan);
  traits.machine = names_of_types(scenario.cluster, [](const std::string& name) { return name; });
  traits.wiring = wiring_of(scenario.cluster, plan);
  traits.schedule = plan.pipeline > 1 ? plan.schedule.name : "none";
  return traits;
}

}  // namespace panpipe
