// Bytes per parameter, the framework's own memory, and the optimizer step (docs/models/memory-terms.md).
#include <algorithm>

#include "costmodel/cluster/fabric.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/cost/gradient_traffic.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/cost/narrow_products.hpp"
#include "costmodel/cost/shared_cores.hpp"
#include "costmodel/cost/unit_allocations.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"

namespace panpipe {
namespace {

double element_bytes(Precision precision) { return static_cast<double>(size_of(compute_dtype(precision)).base()); }

double divided_over(const Scenario& scenario, const Degrees& degrees, int stage) {
  return zero_in_effect(scenario.framework, degrees) >= stage ? degrees.shard_group() : 1;
}

// bitsandbytes keeps a scale in fp32 for each block of 256 elements (bitsandbytes/optim/optimizer.py, block_wise).
constexpr double kInt8State = 1 + 4.0 / 256;

double master_element(const Scenario& scenario) {
  if (!is_mixed(scenario.precision)) return 0;
  const MasterFormat format = scenario.optimizer.master.value_or(MasterFormat::Fp32);
  return format == MasterFormat::Fp32 ? 4 : format == MasterFormat::Bf16 ? 2 : 0;
}

// Of the weights that the step updates.
double updated_element(const Scenario& scenario) {
  const double master = master_element(scenario);
  return master > 0 ? master : element_bytes(scenario.precision);
}

// A moment's element: as stated, else in the format of the updated weights, as in PyTorch's optimizers.
double state_element(const Scenario& scenario) {
  const auto& format = scenario.optimizer.states;
  if (!format) return updated_element(scenario);
  return *format == StateFormat::Fp32 ? 4 : *format == StateFormat::Bf16 ? 2 : kInt8State;
}

bool keeps_8bit_states(const Scenario& scenario) { return scenario.optimizer.states == StateFormat::Int8; }

// Bytes of a step relative to the same step with the optimizer's default formats: the gradient is read, the weight written;
// master and moments are read and written.
double share_of_formats(const Scenario& scenario) {
  if (!scenario.optimizer.states && !scenario.optimizer.master) return 1;
  const double element = element_bytes(scenario.precision), moved = 2.0 * moments(scenario.optimizer.name);
  const auto bytes = [&](double master, double state) {
    return 4 + element + (master > 0 ? 2 * master : element) + moved * state;
  };
  const double plain = is_mixed(scenario.precision) ? 4 : 0;
  return bytes(master_element(scenario), state_element(scenario)) / bytes(plain, plain > 0 ? plain : element);
}

// An optimizer's moments, and its step where an operation is a kernel, of one or many tensors: bytes of a parameter, and kernels
// of a parameter or a group of them. PyTorch's multi-tensor optimizers run one kernel per operation, over 4-byte elements. Adam:
// the two means (12 and 8 + 12), root, bias correction and epsilon (8 each), the step (16); AdamW additionally decays the weight
// (8). Momentum: decay 12, buffer 8 + 12, step 12.
struct OptimizerKind {
  std::string_view name;
  int moments;
  double traffic;
  int kernels;
};
constexpr OptimizerKind kOptimizers[] = {
    {"sgd", 0, 24, 2}, {"none", 0, 0, 0}, {"momentum", 1, 44, 4}, {"adam", 2, 72, 7}, {"adamw", 2, 80, 8}};

// What an optimizer of matrices does not step as such, it steps as AdamW.
const OptimizerKind& optimizer_named(const std::string& optimizer) {
  const std::string_view name = steps_matrices(optimizer) ? std::string_view("adamw") : std::string_view(optimizer);
  const auto found = std::find_if(std::begin(kOptimizers), std::end(kOptimizers), [&](const auto& o) { return o.name == name; });
  return found == std::end(kOptimizers) ? kOptimizers[0] : *found;
}

// Traffic of the step relative to Adam's: tensors read and written (weight, gradient; a moment is read and written).
double traffic_share(const std::string& optimizer) { return optimizer == "none" ? 0 : (3.0 + 2.0 * moments(optimizer)) / 7.0; }

// A fused kernel reads and writes everything once. States of 8 bits have a separate fused kernel, one launch per parameter.
double optimizer_traffic(const Scenario& scenario, const Calibration& c) {
  const std::string& optimizer = scenario.optimizer.name;
  const OptimizerKernel kernel = scenario.framework.optimizer_kernel;
  const bool fused = kernel == OptimizerKernel::Fused || kernel == OptimizerKernel::Groups || keeps_8bit_states(scenario);
  return fused ? c.optimizer_traffic * scenario.framework.optimizer_factor * traffic_share(optimizer)
               : optimizer_named(optimizer).traffic;
}

// Clipping to a norm reads each gradient, then scales it in place, for the share that a rank updates.
double clipping_traffic(const Scenario& scenario) {
  const bool clips = scenario.framework.gradient_clipping != GradientClipping::None && scenario.optimizer.name != "none";
  return clips ? 3 * travelling_gradient_bytes(scenario) : 0;
}

// Setting a gradient that a rank keeps to zero writes it.
double zeroing_traffic(const Scenario& scenario) {
  return scenario.framework.zero_gradients && scenario.optimizer.name != "none" ? travelling_gradient_bytes(scenario) : 0;
}

// Autograd reads the gradient of a pass, and reads and writes the sum, in every pass after the first (in every one if sums start
// as zeros): the mean over the passes of a step.
double summing_traffic(const Scenario& scenario, double passes) {
  const Framework& framework = scenario.framework;
  if (scenario.optimizer.name == "none" || framework.gradient_accumulation != GradientAccumulation::Autograd) return 0;
  return 3.0 * (passes - (framework.zero_gradients ? 0 : 1)) / passes * travelling_gradient_bytes(scenario);
}

// A launch of PyTorch's multi-tensor kernels takes 320 blocks of 65536 elements (ATen/native/cuda/MultiTensorApply.cuh and
// ForeachFunctors.cuh), and about 48 tensors at most.
constexpr double kManyElements = 320.0 * 65536;
constexpr int kNormKernels = 2, kScaleKernels = 1;

// A rank's part of its parameters, in elements and in tensors.
struct Share {
  double elements = 0, tensors = 0;
};

// Launches of the step: over the share of the parameters that a rank updates, and over the gradients that it keeps. A fused
// kernel's are few.
double step_launches(const Scenario& scenario, const Share& updated, const Share& kept, bool updates) {
  const Framework& framework = scenario.framework;
  double each = 0, many = 0;  // kernels a parameter, and of many parameters
  const int kernels = optimizer_named(scenario.optimizer.name).kernels;
  if (updates && (keeps_8bit_states(scenario) || framework.optimizer_kernel == OptimizerKernel::Loop))
    each = keeps_8bit_states(scenario) ? 1 : kernels;
  else if (updates && framework.optimizer_kernel == OptimizerKernel::Foreach)
    many = kernels;
  if (framework.gradient_clipping == GradientClipping::Loop) each += kNormKernels + kScaleKernels;
  if (framework.gradient_clipping == GradientClipping::Foreach) many += kNormKernels + kScaleKernels;
  return many * updated.elements / kManyElements + each * updated.tensors + (framework.zero_gradients ? kept.tensors : 0);
}

// A scaler of gradients divides them in place, and looks through them for infinities on the way.
double unscaling_traffic(const Scenario& scenario) {
  return scenario.framework.gradient_scaler && scenario.precision == Precision::Fp16 && scenario.optimizer.name != "none" ? 8 : 0;
}

// Adam on a host, for all devices of a node together: 30 bytes a parameter, 10^9 of them in 0.55 s. So did DeepSpeed in training:
// 72.7e9 over four nodes of eight A100 in 10 s (deepspeedai/DeepSpeed issue 6834). Whole steps of Qwen2.5-3B on two A100 leave no
// more than 0.77 s where processes are bound to cores, and 1.0 where they are not (pull request 7474); a small server takes 1.0
// to 1.25 (issue 6695). With nothing else on two Xeon 8168 it is 0.257 s (ZeRO-Offload, arXiv 2101.06840, table 4).
constexpr double kHostAdam = 30, kHostBytes = 30 / 0.55e-9;

double devices_of_a_node(const Cluster& cluster, const Degrees& degrees) {
  double first = 0;
  for (const Device& device : cluster.devices) first += device.node == cluster.devices.front().node ? 1 : 0;
  return std::min(first, static_cast<double>(degrees.device_count()));
}

}  // namespace

double updated_bytes(const Scenario& scenario) { return updated_element(scenario); }

int moments(const std::string& optimizer) { return optimizer_named(optimizer).moments; }

double checkpoint_bytes_per_parameter(const Scenario& scenario) {
  return updated_element(scenario) + moments(scenario.optimizer.name) * state_element(scenario);
}

double streamed_state_bytes(const Scenario& scenario) {
  const HostedState& hosted = scenario.offload;
  if (!hosted.optimizer || !hosted.streams) return 0;
  const int kept = moments(scenario.optimizer.name);
  const int streamed = (hosted.first_moment && kept > 0 ? 1 : 0) + (hosted.second_moment && kept > 1 ? 1 : 0);
  return streamed * state_element(scenario) + (hosted.master ? master_element(scenario) : 0);
}

int zero_in_effect(const Framework& framework, const Degrees& degrees) {
  if (degrees.shard == 1 || !degrees.exchanges()) return 0;
  return std::max(degrees.zero, framework.distributed_optimizer ? 1 : 0);
}

double travelling_gradient_bytes(const Scenario& scenario) {
  if (!is_mixed(scenario.precision)) return element_bytes(scenario.precision);
  // Mixed precision accumulates in fp32, everything else in the weights' own format.
  return scenario.framework.gradient_bytes > 0 ? scenario.framework.gradient_bytes : 4;
}

MixedPrecision mixed_precision_in_effect(const Framework& framework, const Degrees& degrees) {
  if (framework.mixed_precision != MixedPrecision::Autocast) return framework.mixed_precision;
  return zero_in_effect(framework, degrees) >= 2 ? MixedPrecision::Sharded : MixedPrecision::Autocast;
}

// PyTorch's Adam takes the roots of the second moments: of all parameters at once, or of one, which it divides into another
// tensor (torch/optim/adam.py, _multi_tensor_adam and _single_tensor_adam). SGD and fused kernels work in place.
OptimizerTemporary optimizer_temporary(const Scenario& scenario) {
  if (moments(scenario.optimizer.name) < 2 || keeps_8bit_states(scenario) || scenario.offload.optimizer) return {};
  const double root = state_element(scenario);
  const OptimizerKernel kernel = scenario.framework.optimizer_kernel;
  return {kernel == OptimizerKernel::Foreach ? root : 0, kernel == OptimizerKernel::Loop ? 2 * root : 0};
}

namespace {

// DeepSpeed, under ZeRO.
bool steps_in_groups(const Scenario& scenario, const Degrees& degrees) {
  return scenario.framework.optimizer_kernel == OptimizerKernel::Groups && degrees.zero >= 1 &&
         moments(scenario.optimizer.name) > 0;
}

}  // namespace

// DeepSpeed lays the gradients that a rank updates in one tensor of their own format, and casts it to the master's: under ZeRO 1
// and 2 all (runtime/zero/stage_1_and_2.py, step), under ZeRO 3 a group of 10^9 elements, sub_group_size's default (stage3.py,
// _prepare_fp32_grad_for_sub_group).
double grouped_gradients(const Scenario& scenario, const Degrees& degrees, double elements) {
  constexpr double kGroup = 1e9;
  if (!steps_in_groups(scenario, degrees) || scenario.offload.optimizer) return 0;
  const double at_once = degrees.zero >= 3 ? std::min(kGroup, elements) : elements;
  return at_once * (travelling_gradient_bytes(scenario) + updated_element(scenario));
}

// A bucket of reduce_bucket_size elements, and two under ZeRO 2 with overlap_comm, its default (runtime/zero/stage_1_and_2.py,
// ipg_buffer; stage3.py, __ipg_bucket_flat_buffer).
double reduction_buckets(const Scenario& scenario, const Degrees& degrees) {
  if (!steps_in_groups(scenario, degrees) || degrees.zero < 2) return 0;
  return (degrees.zero == 2 ? 2 : 1) * scenario.framework.gradient_bucket_elements * travelling_gradient_bytes(scenario);
}

bool keeps_whole_gradients(const Scenario& scenario, const Degrees& degrees) {
  return scenario.framework.gradient_storage == GradientStorage::Unsharded && degrees.microbatches > 1 &&
         zero_in_effect(scenario.framework, degrees) >= 2;
}

// FSDP that keeps parameters whole between forward and backward (ZeRO 2) holds its shards in addition.
double CostModel::parameter_bytes(const Degrees& degrees) const {
  const double element = element_bytes(scenario_->precision);
  const MixedPrecision mixed = mixed_precision_in_effect(scenario_->framework, degrees);
  if (mixed == MixedPrecision::MasterCopy) return element / divided_over(*scenario_, degrees, 3);
  const double updated = updated_element(*scenario_);
  const int zero = zero_in_effect(scenario_->framework, degrees);
  return mixed == MixedPrecision::Autocast || zero < 2
             ? updated
             : updated / divided_over(*scenario_, degrees, 2) + (zero == 2 ? element : 0);
}

double CostModel::gradient_bytes(const Degrees& degrees) const {
  if (scenario_->offload.gradients) return 0;
  // FSDP that reduces behind a step's last microbatch keeps the sum in the format that travels
  // (torch/distributed/fsdp/_fully_shard/_fsdp_param.py, to_accumulated_grad_if_needed).
  if (keeps_whole_gradients(*scenario_, degrees)) return travelling_gradient_bytes(*scenario_);
  // A parameter's gradient has its format, whatever travels.
  if (mixed_precision_in_effect(scenario_->framework, degrees) != MixedPrecision::MasterCopy)
    return updated_element(*scenario_) / divided_over(*scenario_, degrees, 2);
  const double copy = scenario_->framework.bf16_extra_gradient_bytes;
  double bytes = travelling_gradient_bytes(*scenario_);
  // An optimizer with separate gradients: training's have the weights' format, and its own are an fp32 copy. With bf16 the copy
  // holds the sums over microbatches, so it covers all gradients. With fp16 it is made at the step, for the share that the rank
  // updates.
  if (copy > 0 && is_mixed(scenario_->precision))
    bytes = element_bytes(scenario_->precision) +
            copy / (outside_products(scenario_->precision) == Precision::Bf16 ? 1 : divided_over(*scenario_, degrees, 1));
  return bytes / divided_over(*scenario_, degrees, 2);
}

double CostModel::state_bytes(const Degrees& degrees) const {
  if (scenario_->optimizer.name == "none" || scenario_->offload.optimizer) return 0;
  return state_element(*scenario_) / divided_over(*scenario_, degrees, 1);
}

double CostModel::optimizer_bytes(const Degrees& degrees) const {
  const std::string& name = scenario_->optimizer.name;
  if (name == "none" || scenario_->offload.on_host_step()) return 0;
  const bool copies = mixed_precision_in_effect(scenario_->framework, degrees) == MixedPrecision::MasterCopy;
  return ((copies ? master_element(*scenario_) : 0) + moments(name) * state_element(*scenario_) -
          streamed_state_bytes(*scenario_)) /
         divided_over(*scenario_, degrees, 1);
}

Bytes CostModel::framework_context() const { return scenario_->cluster.given ? Bytes(0) : scenario_->framework.context; }

std::vector<UnitAllocations> CostModel::unit_allocations(int site, bool copies_weights) const {
  const int type = type_of(site);
  if (!workload_->graph || scenario_->cluster.given) return {};
  const DeviceRates rates = device_rates(scenario_->cluster.types[type], calibration(type), *scenario_);
  return panpipe::unit_allocations(*workload_->graph, rates, copies_weights);
}

double CostModel::allocator_factor() const { return scenario_->cluster.given ? 1.0 : scenario_->framework.allocator_factor; }

// Weights of products in 8 bits are cast in a step's first microbatch and kept. Those that ZeRO 3 gathers are cast in every
// microbatch, whose backward keeps the forward's copy. Bytes per element of the model.
double CostModel::cast_traffic(int device_type, const Degrees& degrees) const {
  if (narrow_weights_ <= 0) return 0;
  const DeviceRates rates = device_rates(scenario_->cluster.types[device_type], calibration(device_type), *scenario_);
  const double cast = narrow_weight_cast(rates, scenario_->framework.fp8_parameters);
  const double times = divided_over(*scenario_, degrees, 3) > 1 ? degrees.microbatches : 1;
  const double turned = rates.narrow.single_weight ? 2 * rates.narrow.weight * degrees.microbatches : 0;
  return narrow_weights_ * (cast * times + turned);
}

Breakdown CostModel::accumulation(std::int64_t elements, int splits, int site, const Degrees& degrees) const {
  Breakdown cost;
  const int device_type = type_of(site);
  const DeviceType& type = scenario_->cluster.types[device_type];
  if (scenario_->profile || elements == 0 || !type.has_rates()) return cost;
  const double passes = static_cast<double>(degrees.microbatches) * splits;
  const double traffic =
      summing_traffic(*scenario_, passes) * static_cast<double>(elements) / divided_over(*scenario_, degrees, 2);
  cost.traffic = Bytes(static_cast<std::int64_t>(traffic));
  const double bandwidth = type.memory_bandwidth.base() * calibration(device_type).memory_efficiency /
                           slowdown_of_type(scenario_->cluster, device_type);
  cost.memory = cost.total = Duration(traffic / bandwidth);
  return cost;
}

Breakdown CostModel::optimizer(std::int64_t elements, std::int64_t tensors, int site, const Degrees& degrees) const {
  return step_of(elements, tensors, site, degrees, true);
}

Breakdown CostModel::around_update(std::int64_t elements, std::int64_t tensors, int site, const Degrees& degrees) const {
  Breakdown cost = step_of(elements, tensors, site, degrees, false);
  const Breakdown once = step_of(0, 0, site, degrees, false);
  cost.launch -= once.launch;
  cost.host -= once.launch;
  cost.host_paced -= once.launch;
  cost.total -= once.total;
  return cost;
}

Breakdown CostModel::step_of(std::int64_t elements, std::int64_t tensors, int site, const Degrees& degrees, bool updates) const {
  Breakdown cost;
  if (const Profile* profile = scenario_->profile.get();
      profile && profile->optimizer.parameters > 0 && profile->optimizer.name == scenario_->optimizer.name) {
    if (!updates) return cost;
    const double share = static_cast<double>(elements) / static_cast<double>(profile->optimizer.parameters);
    cost.compute = cost.total =
        profile->optimizer.time * (share / divided_over(*scenario_, degrees, 1) * optimizer_slowdown(*scenario_, degrees) *
                                   slowdown_of_type(scenario_->cluster, type_of(site)));
    cost.source = CostSource::Measured;
    return cost;
  }
  const int device_type = type_of(site);
  const DeviceType& type = scenario_->cluster.types[device_type];
  if (!type.has_rates()) return cost;
  const Calibration& c = calibration(device_type);
  const auto all = static_cast<double>(elements);
  const auto share = [&](int stage) {
    const double ranks = divided_over(*scenario_, degrees, stage);
    return Share{all / ranks, static_cast<double>(tensors) / ranks};
  };
  const Share updated = share(1), kept = share(2);
  const bool on_host = scenario_->offload.on_host_step();
  const double formats = share_of_formats(*scenario_),
               step = on_host || !updates ? 0 : optimizer_traffic(*scenario_, c) * formats;
  const double traffic = (step + unscaling_traffic(*scenario_) + clipping_traffic(*scenario_)) * updated.elements +
                         zeroing_traffic(*scenario_) * kept.elements + cast_traffic(device_type, degrees) * all;
  cost.traffic = Bytes(static_cast<std::int64_t>(traffic));
  cost.memory = Duration(
      traffic / (type.memory_bandwidth.base() * c.memory_efficiency / slowdown_of_type(scenario_->cluster, device_type)));
  const double launches = scenario_->optimizer.name == "none" ? 0 : step_launches(*scenario_, updated, kept, updates);
  cost.launch = c.step;  // data, logging: once per step
  if (launches > 0) {
    // Homogeneous in elements and tensors, as searches assume: the time per step over this many steps.
    constexpr int kLaunches = 1'000'000;
    const double steps = kLaunches / launches;
    cost.launch += host_bound(cost.memory * steps, kLaunches, site, degrees) / steps - cost.memory;
  }
  if (on_host)
    cost.compute = Duration(kHostAdam * traffic_share(scenario_->optimizer.name) * formats * updated.elements / kHostBytes *
                            devices_of_a_node(scenario_->cluster, degrees));
  cost.host = cost.host_paced = cost.launch;
  cost.total = cost.compute + cost.memory + cost.launch;
  return cost;
}

}  // namespace panpipe
