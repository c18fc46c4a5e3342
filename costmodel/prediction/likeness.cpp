#include "costmodel/prediction/likeness.hpp"

#include <algorithm>
#include <set>

#include "costmodel/cost/zero_and_optimizer.hpp"

namespace panpipe {
namespace {

constexpr double kHostBound = 0.2;  // of the step, waited for launches: beyond it the host sets the pace of some passes

// "80G", "32GB".
bool is_memory_size(const std::string& part) {
  const std::size_t digits = std::min(part.find_first_not_of("0123456789"), part.size());
  const std::string unit = part.substr(digits);
  return digits > 0 && (unit == "G" || unit == "GB");
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " + ") + name;
  return text;
}

std::string devices_alike(const Cluster& cluster) {
  std::set<std::int32_t> types;  // of thousands of devices a few
  for (const Device& device : cluster.devices) types.insert(device.type);
  std::set<std::string> chips;
  for (const std::int32_t type : types) chips.insert(chip_of(cluster.types[type].name));
  return joined(chips);
}

std::string precision_alike(Precision precision) {
  switch (precision) {
    case Precision::Bf16:
    case Precision::Fp16:
      return "16 bit";
    default:
      return std::string(name_of(precision));
  }
}

std::string choices_alike(const Framework& framework) {
  std::string kernels = "fused";
  if (framework.elementwise == Elementwise::Compiled) kernels = "compiled";
  if (framework.elementwise == Elementwise::Eager) kernels = "eager";
  return kernels + (is_fused(framework.attention) ? " kernels, fused attention" : " kernels, attention with scores");
}

// Choices that are not about kernels: the place and format of state, and the parameters with state.
std::string state_alike(const Scenario& scenario) {
  std::string text;
  if (scenario.workload.tuning.rank > 0) text += ", LoRA";
  if (!scenario.workload.tuning.frozen.empty()) text += ", frozen parameters";
  if (scenario.offload.optimizer || scenario.offload.parameters) text += ", state in the host's memory";
  if (scenario.optimizer.states || scenario.optimizer.master) text += ", other optimizer states";
  return text;
}

std::string parallel_alike(const Scenario& scenario, const Plan& plan) {
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

}  // namespace

std::string costs_alike(const Scenario& scenario) {
  const auto& types = scenario.cluster.types;
  if (!scenario.workload.layers_file.empty()) return "given";
  if (std::none_of(types.begin(), types.end(), [](const DeviceType& type) { return type.has_rates(); })) return "given";
  return scenario.profile ? "profile" : "formulas";
}

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

Likeness likeness_of(const Scenario& scenario, const Plan& plan, const StepTerms& terms, double step) {
  Likeness kind;
  kind.device = devices_alike(scenario.cluster);
  kind.choices = choices_alike(scenario.framework) + state_alike(scenario);
  kind.precision = precision_alike(scenario.precision);
  kind.parallel = parallel_alike(scenario, plan);
  kind.framework = scenario.framework.name;
  kind.schedule = plan.pipeline > 1 ? plan.schedule.name : "none";
  kind.costs = costs_alike(scenario);
  kind.host_bound = terms.host > kHostBound * step;
  return kind;
}

}  // namespace panpipe
