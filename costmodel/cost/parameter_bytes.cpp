// Bytes per parameter, framework's own memory, optimizer step (docs/models/memory-terms.md).
#include <algorithm>

#include "base/error.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/cost/gradient_traffic.hpp"
#include "costmodel/cost/shared_cores.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"

namespace panpipe {
namespace {

double element_bytes(Precision precision) { return static_cast<double>(size_of(compute_dtype(precision)).base()); }

double divided_over(const Scenario& scenario, const Degrees& degrees, int stage) {
  return zero_in_effect(scenario.framework, degrees) >= stage ? degrees.shard_group() : 1;
}

// Traffic of the step relative to Adam's: tensors read and written (weight, gradient; a moment is read and written).
double traffic_share(const std::string& optimizer) {
  if (optimizer == "none") return 0;
  return (3.0 + 2.0 * moments(optimizer)) / 7.0;
}

// PyTorch's multi-tensor optimizers run a kernel an operation, each over 4-byte elements. Adam: the two means (12 and 8 + 12),
// root, bias correction and epsilon (8 each), the step (16); AdamW decays the weight besides (8). Momentum: decay 12, buffer 8 +
// 12, step 12. A fused kernel reads and writes everything once.
double optimizer_traffic(const Framework& framework, const Calibration& c, const std::string& optimizer) {
  const double fused = c.optimizer_traffic * framework.optimizer_factor * traffic_share(optimizer);
  if (framework.optimizer_kernel == OptimizerKernel::Fused)
    return fused;  // else an operation is a kernel, of one or many tensors
  if (optimizer == "adam") return 72;
  if (optimizer == "adamw") return 80;
  if (optimizer == "momentum") return 44;
  return optimizer == "none" ? 0 : 24;
}

// Kernels of the step for each parameter, or for many, where an operation is a kernel: as optimizer_traffic counts them.
int optimizer_kernels(const std::string& optimizer) {
  if (optimizer == "adam") return 7;
  if (optimizer == "adamw") return 8;
  if (optimizer == "momentum") return 4;
  return optimizer == "none" ? 0 : 2;
}

// Clipping to a norm reads each gradient, then scales it in place; setting to zeros writes it; autograd reads a microbatch's and
// reads and writes the sum, of every microbatch after the first (of every one where sums start as zeros).
double gradient_traffic(const Scenario& scenario, const Degrees& degrees) {
  const Framework& framework = scenario.framework;
  if (scenario.optimizer.name == "none") return 0;
  double passes = framework.gradient_clipping == GradientClipping::None ? 0 : 3;
  if (framework.zero_gradients) passes += 1;
  if (framework.gradient_accumulation == GradientAccumulation::Autograd)
    passes += 3.0 * (degrees.microbatches - (framework.zero_gradients ? 0 : 1));
  return passes * travelling_gradient_bytes(scenario);
}

// A launch of PyTorch's multi-tensor kernels takes 320 blocks of 65536 elements (ATen/native/cuda/MultiTensorApply.cuh and
// ForeachFunctors.cuh), and about 48 tensors at most.
constexpr double kManyElements = 320.0 * 65536;
constexpr int kNormKernels = 2, kScaleKernels = 1;

// Launches of the step over a rank's share of the parameters. A fused kernel's are few.
double step_launches(const Scenario& scenario, const Workload& workload, double elements) {
  const Framework& framework = scenario.framework;
  double each = 0, many = 0;  // kernels a parameter, and of many parameters
  if (framework.optimizer_kernel == OptimizerKernel::Loop) each += optimizer_kernels(scenario.optimizer.name);
  if (framework.optimizer_kernel == OptimizerKernel::Foreach) many += optimizer_kernels(scenario.optimizer.name);
  if (framework.gradient_clipping == GradientClipping::Loop) each += kNormKernels + kScaleKernels;
  if (framework.gradient_clipping == GradientClipping::Foreach) many += kNormKernels + kScaleKernels;
  if (framework.zero_gradients) each += 1;
  double launches = many * elements / kManyElements;
  if (each > 0 && workload.graph) {
    double tensors = 0, all = 0;
    for (const Tensor& tensor : workload.graph->tensors)
      if (tensor.role == TensorRole::Parameter && tensor.tied_to < 0) {
        ++tensors;
        all += static_cast<double>(tensor.elements());
      }
    if (all > 0) launches += each * tensors * (elements / all);
  }
  return launches;
}

// A scaler of gradients divides them in place, and looks through them for infinities on the way.
double unscaling_traffic(const Scenario& scenario) {
  return scenario.framework.gradient_scaler && scenario.precision == Precision::Fp16 && scenario.optimizer.name != "none" ? 8 : 0;
}

}  // namespace

int moments(const std::string& optimizer) {
  if (optimizer == "adam" || optimizer == "adamw") return 2;
  return optimizer == "momentum" ? 1 : 0;
}

double checkpoint_bytes_per_parameter(const Scenario& scenario) {
  return (is_mixed(scenario.precision) ? 4 : element_bytes(scenario.precision)) * (1 + moments(scenario.optimizer.name));
}

int zero_in_effect(const Framework& framework, const Degrees& degrees) {
  if (degrees.shard == 1) return 0;
  return std::max(degrees.zero, framework.distributed_optimizer ? 1 : 0);
}

double travelling_gradient_bytes(const Scenario& scenario) {
  if (!is_mixed(scenario.precision)) return element_bytes(scenario.precision);
  // Mixed precision accumulates in fp32, everything else in the weights' own format.
  return scenario.framework.gradient_bytes > 0 ? scenario.framework.gradient_bytes : 4;
}

double CostModel::parameter_bytes(const Degrees& degrees) const {
  return element_bytes(scenario_->precision) / divided_over(*scenario_, degrees, 3);
}

double CostModel::gradient_bytes(const Degrees& degrees) const {
  const double copy = scenario_->framework.bf16_extra_gradient_bytes;
  double bytes = travelling_gradient_bytes(*scenario_);
  // An optimizer with gradients of its own: training's are in the weights' format, its own are a copy in fp32. That of bf16 holds
  // the sums over the microbatches, so all of them; that of fp16 is made at the step, of the share that the rank updates.
  if (copy > 0 && is_mixed(scenario_->precision))
    bytes = element_bytes(scenario_->precision) +
            copy / (scenario_->precision == Precision::Bf16 ? 1 : divided_over(*scenario_, degrees, 1));
  return bytes / divided_over(*scenario_, degrees, 2);
}

double CostModel::optimizer_bytes(const Degrees& degrees) const {
  const std::string& name = scenario_->optimizer.name;
  if (name == "none") return 0;
  const bool has_master = is_mixed(scenario_->precision);
  const double state = has_master ? 4 : element_bytes(scenario_->precision);
  return ((has_master ? 4.0 : 0.0) + moments(name) * state) / divided_over(*scenario_, degrees, 1);
}

Bytes CostModel::framework_context() const { return scenario_->cluster.given ? Bytes(0) : scenario_->framework.context; }

double CostModel::allocator_factor() const { return scenario_->cluster.given ? 1.0 : scenario_->framework.allocator_factor; }

Breakdown CostModel::optimizer(std::int64_t elements, int site, const Degrees& degrees) const {
  Breakdown cost;
  if (const Profile* profile = scenario_->profile.get();
      profile && profile->optimizer.parameters > 0 && profile->optimizer.name == scenario_->optimizer.name) {
    const double share = static_cast<double>(elements) / static_cast<double>(profile->optimizer.parameters);
    cost.compute = cost.total =
        profile->optimizer.time * (share / divided_over(*scenario_, degrees, 1) * optimizer_slowdown(*scenario_, degrees));
    cost.source = CostSource::Measured;
    return cost;
  }
  const int device_type = type_of(site);
  const DeviceType& type = scenario_->cluster.types[static_cast<std::size_t>(device_type)];
  if (!type.has_rates()) return cost;
  const Calibration& c = calibration(device_type);
  const double share = static_cast<double>(elements) / divided_over(*scenario_, degrees, 1);
  const double traffic = (optimizer_traffic(scenario_->framework, c, scenario_->optimizer.name) + unscaling_traffic(*scenario_) +
                          gradient_traffic(*scenario_, degrees)) *
                         share;
  cost.traffic = Bytes(static_cast<std::int64_t>(traffic));
  cost.memory = Duration(traffic / (type.memory_bandwidth.base() * c.memory_efficiency));
  const double launches = scenario_->optimizer.name == "none" ? 0 : step_launches(*scenario_, *workload_, share);
  cost.launch = c.step;  // data, logging: once per step
  if (launches > 0) {
    // Linear in the elements, as searches take it to be: of so many steps like this one.
    constexpr int kLaunches = 1'000'000;
    const double steps = kLaunches / launches;
    cost.launch += host_bound(cost.memory * steps, kLaunches, site, degrees) / steps - cost.memory;
  }
  cost.total = cost.memory + cost.launch;
  return cost;
}

}  // namespace panpipe
