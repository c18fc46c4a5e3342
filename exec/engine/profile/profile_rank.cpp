#include "exec/engine/profile/profile_rank.hpp"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/profile/link_profiler.hpp"
#include "exec/engine/profile/robust_median.hpp"
#include "exec/engine/profile/unit_profiler.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/float32_products.hpp"
#include "exec/engine/training/optimizer.hpp"
#include "exec/launch/host.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;

constexpr Clock::duration kLongTimeout = std::chrono::minutes(10);
constexpr int kWarmUp = 2, kLeastRepetitions = 5;

std::int64_t window_bytes(const ProfileRequest& request, at::Device device) {
  if (!request.window.empty()) {
    const Parsed<Bytes> parsed = parse_bytes(request.window);
    if (!parsed.value) throw InputError("--window: " + parsed.problem);
    return parsed.value->base();
  }
  if (const std::int64_t free = free_memory(device); free > 0) return free / 4 / std::max(1, request.ranks);
  return profile_window(request.ranks);
}

// The same number on every rank: each window gets its share of the time, measured by the slowest rank's last warm-up.
int repetitions(const ProfileRequest& request, Transport& transport, double round_s, double share_s) {
  double slowest = 0;
  for (const std::string& text : transport.all_gather(std::to_string(round_s), kTimeout, "agreeing on repetitions"))
    slowest = std::max(slowest, std::stod(text));
  const double fitting = slowest > 0 ? share_s / slowest : request.repetitions;
  return std::max(kLeastRepetitions, static_cast<int>(std::min(fitting, static_cast<double>(request.repetitions))));
}

// Everybody's samples of everybody's units, on rank 0.
std::vector<UnitSamples> pooled(Transport& transport, const std::vector<UnitSamples>& mine) {
  json rows = json::array();
  for (const UnitSamples& unit : mine) rows.push_back({unit.forward, unit.backward, unit.input_gradient, unit.weight_gradient});
  const std::vector<std::uint8_t> bytes = json::to_cbor(rows);
  const auto all = transport.all_gather(std::string(bytes.begin(), bytes.end()), kTimeout, "gathering what was measured");
  std::vector<UnitSamples> sum(mine.size());
  for (const std::string& text : all) {
    const json rank = json::from_cbor(text);
    for (std::size_t u = 0; u < sum.size(); ++u) {
      std::vector<double>* lists[] = {&sum[u].forward, &sum[u].backward, &sum[u].input_gradient, &sum[u].weight_gradient};
      for (std::size_t list = 0; list < 4; ++list)
        for (const json& sample : rank[u][list]) lists[list]->push_back(sample.get<double>());
    }
  }
  return sum;
}

// A step sums its passes, and they meet the machine's faster and slower moments as these come: the mean of the samples counts,
// not their median, without the eighth at either end.
double trimmed_mean(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const auto cut = static_cast<std::ptrdiff_t>(samples.size() / 8);
  const double sum = std::accumulate(samples.begin() + cut, samples.end() - cut, 0.0);
  return sum / static_cast<double>(std::ssize(samples) - 2 * cut);
}

ProfiledUnit to_unit(const UnitSamples& samples, const UnitMemory& memory) {
  ProfiledUnit unit;
  const auto take = [](const std::vector<double>& values, Duration& time) {
    const RobustMedian found = robust_median(values);
    time = seconds(trimmed_mean(values));
    return found.spread * found.median;
  };
  const double wide = take(samples.forward, unit.forward) + take(samples.backward, unit.backward);
  take(samples.input_gradient, unit.input_gradient);
  take(samples.weight_gradient, unit.weight_gradient);
  const double whole = (unit.forward + unit.backward).base();
  unit.spread = whole > 0 ? wide / whole : 0;
  unit.saved = Bytes(memory.saved);
  unit.keeps = memory.keeps;
  unit.kept_for_weight = Bytes(memory.kept_for_weight);
  unit.temporary = Bytes(memory.temporary);
  return unit;
}

// The optimizer over this window's parameters, gradients as they are.
double optimizer_seconds(const PreparedProfile& job, const SeededParameters& parameters, at::Device device,
                         std::int64_t& elements) {
  std::vector<at::Tensor> values, gradients;
  for (const auto& [root, value] : parameters.trained()) {
    values.push_back(value.detach());
    gradients.push_back(value.grad().defined() ? value.grad() : at::zeros_like(value).detach());
    elements += value.numel();
  }
  if (values.empty() || steps_matrices(job.experiment.scenario.optimizer.name)) return 0;
  Optimizer optimizer(job.experiment.scenario.optimizer, values);
  optimizer.step(gradients, 1e-9);  // makes its state
  Stopwatch watch(device);
  std::vector<double> samples;
  for (int i = 0; i < 6; ++i) watch.time(samples, [&] { optimizer.step(gradients, 1e-9); });
  watch.read();
  return robust_median(samples).median;
}

class Windows {
 public:
  Windows(const PreparedProfile& job, Transport& transport, const RankDevice& device, Profile& profile,
          std::vector<MeasuredOperator>* operators)
      : job_(job),
        transport_(transport),
        device_(device.device()),
        profile_(profile),
        operators_(operators),
        autocast_(autocast_of(job.graph(), job.experiment.scenario.precision)),
        windows_(windows(job.graph(), job.layout, window_bytes(job.request, device_))) {}

  void measure() {
    for (const auto& [first, end] : windows_) measure_window(first, end);
    const std::string& optimizer = job_.experiment.scenario.optimizer.name;
    if (!optimizer.empty() && optimizer != "none" && !steps_matrices(optimizer))  // whose time is not one of elements
      profile_.optimizer = {optimizer, std::max<std::int64_t>(1, elements_), seconds(optimizer_s_)};
  }

 private:
  void measure_window(int first, int end) {
    UnitProfiler profiler(job_.graph(), job_.layout, first, end, static_cast<std::uint64_t>(job_.experiment.scenario.seed),
                          device_, transport_.rank() % job_.experiment.scenario.degrees.tensor, autocast_);
    const auto together = [&] { transport_.barrier(kTimeout, "measuring units"); };
    std::vector<UnitSamples> samples;
    double round = 0;
    for (int i = 0; i < kWarmUp; ++i) {
      const auto start = Clock::now();
      profiler.repeat(together, samples);
      round = seconds_since(start);
    }
    samples.clear();
    const double share = job_.request.seconds / static_cast<double>(windows_.size());
    const int count = repetitions(job_.request, transport_, round, share);
    for (int i = 0; i < count; ++i) profiler.repeat(together, samples);
    samples = pooled(transport_, samples);
    together();
    optimizer_s_ += optimizer_seconds(job_, profiler.parameters(), device_, elements_);
    together();
    if (operators_) measure_operators_of(first, end, profiler.parameters());
    if (transport_.rank() == 0) add_units(first, end, profiler, samples);
    transport_.barrier(kLongTimeout, "measuring the memory of units");  // nobody else allocates meanwhile
  }

  void add_units(int first, int end, const UnitProfiler& profiler, const std::vector<UnitSamples>& samples) {
    MemoryAccount account;
    DeviceMemory memory(device_, account, DeviceMemory::Count::Requested);
    for (int u = first; u < end; ++u) add_unit(u, to_unit(samples[u - first], profiler.memory(u, memory)));
  }

  // On all ranks side by side, and rank 0's are kept. A GPU's memory is counted for all ranks that share it: there rank 0 alone.
  void measure_operators_of(int first, int end, const SeededParameters& parameters) {
    MemoryAccount account;
    DeviceMemory memory(device_, account, DeviceMemory::Count::Requested);
    transport_.barrier(kTimeout, "measuring operators");
    for (int u = first; u < end && (device_.is_cpu() || transport_.rank() == 0); ++u)
      for (const MeasuredOperator& row :
           measure_operators(job_.graph(), job_.layout, u, parameters, static_cast<std::uint64_t>(job_.experiment.scenario.seed),
                             job_.request.repetitions, device_, memory, autocast_))
        if (transport_.rank() == 0) operators_->push_back(row);
  }

  void add_unit(int u, ProfiledUnit unit) {
    const Experiment& experiment = job_.experiment;
    const UnitCost& known = experiment.model.units(experiment.scenario.cluster.devices.front().type).units[u];
    unit.name = known.name;
    unit.structure = known.structure;
    const StageRange& stage = job_.layout.stages[u];
    unit.operators = stage.end_operator - stage.first_operator;
    profile_.units.push_back(std::move(unit));
  }

  const PreparedProfile& job_;
  Transport& transport_;
  at::Device device_;
  Profile& profile_;
  std::vector<MeasuredOperator>* operators_;  // null: not asked for
  std::optional<at::ScalarType> autocast_;
  std::vector<std::pair<int, int>> windows_;
  double optimizer_s_ = 0;
  std::int64_t elements_ = 0;
};

}  // namespace

PreparedProfile::PreparedProfile(ProfileRequest asked)
    : request(std::move(asked)), experiment(load_scenario(request.scenario, request.overrides)) {
  if (!experiment.workload.graph)
    throw fault_at(experiment.scenario, "workload", "measured layers are times already: there is nothing to profile",
                   "name a built-in model, or give an exported one: {pt2: FILE}");
  if (experiment.scenario.degrees.context > 1)
    throw fault_at(experiment.scenario, "parallel.context",
                   "a profile measures passes of whole sequences, not of the parts that context-parallel ranks share",
                   "profile with parallel.context 1");
  // Fewer ranks than that stand for the first ones of a group: one device measures one shard, and shards are alike.
  if (experiment.scenario.degrees.experts_apart())
    throw fault_at(experiment.scenario, experiment.scenario.degrees.expert > 1 ? "parallel.expert" : "parallel.expert_tensor",
                   "profiles measure units with all experts on one rank",
                   "profile without parallel.expert and parallel.expert_tensor");
  if (const int tensor = experiment.scenario.degrees.tensor; request.ranks % tensor != 0 && tensor % request.ranks != 0)
    throw fault_at(experiment.scenario, "parallel.tensor",
                   fmt::format("tensor-parallel ranks compute side by side, and {} of them do not divide the {} that profile",
                               tensor, request.ranks),
                   fmt::format("profile with --ranks {}, or one shard with --ranks 1", tensor));
  layout = make_stage_layout(graph(), plan_of_units(graph()));
}

Profile profile_rank(const PreparedProfile& job, Transport& transport, std::vector<MeasuredOperator>* operators) {
  Profile profile;
  const RankDevice device(job.request.device, transport.local_rank());
  set_float32_products(job.experiment.scenario.precision);
  const int tensor = job.experiment.scenario.degrees.tensor;
  transport.barrier(kTimeout, "the start of the profile");
  if (!job.request.only_transfers) {
    const double bandwidth = measure_memory_bandwidth(device.device());
    profile.memory_bandwidth = Bandwidth(bandwidth);
    transport.barrier(kTimeout, "measuring launches");
    profile.launch = seconds(measure_launch(device.device()));
    Windows(job, transport, device, profile, job.request.operators.empty() ? nullptr : operators).measure();
  }
  MeasuredMessages messages = measure_transfers(transport, 2 * job.request.repetitions, device.device());
  profile.transfers = std::move(messages.transfers);
  profile.collectives = measure_collectives(transport, job.request.repetitions, transport.size(), device.device());
  if (tensor != transport.size())
    for (ProfiledCollective& sums : measure_collectives(transport, job.request.repetitions, tensor, device.device()))
      profile.collectives.push_back(std::move(sums));
  if (messages.work) profile.collectives.push_back(std::move(*messages.work));
  return transport.rank() == 0 ? profile : Profile{};
}

}  // namespace panpipe::exec
