#include "exec/engine/profile/profile_rank.hpp"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/measure/gathered.hpp"
#include "exec/engine/profile/link_profiler.hpp"
#include "exec/engine/profile/robust_median.hpp"
#include "exec/engine/profile/unit_profiler.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/float32_products.hpp"
#include "exec/engine/training/optimizer.hpp"
#include "exec/launch/host.hpp"

namespace panpipe::exec {
namespace {

constexpr Clock::duration kLongTimeout = std::chrono::minutes(10);
constexpr int kWarmUp = 2, kLeastRepetitions = 5;

std::int64_t window_bytes(const ProfileRequest& request, at::Device device) {
  if (!request.window.empty()) {
    const Parsed<Bytes> parsed = parse_bytes(request.window);
    if (!parsed.value) throw InputError("--window: " + parsed.problem);
    return parsed.value->base();
  }
  if (const std::int64_t free = device_bytes(device).free; free > 0) return free / 4 / std::max(1, request.ranks);
  return profile_window(request.ranks);
}

// The same number on every rank: each window gets its share of the time, measured by the slowest rank's last warm-up.
int repetitions(const ProfileRequest& request, Transport& transport, double round_s, double share_s) {
  const std::vector<double> all = gathered(transport, round_s, kTimeout, "agreeing on repetitions");
  const double slowest = std::max(0.0, *std::max_element(all.begin(), all.end()));
  const double fitting = slowest > 0 ? share_s / slowest : request.repetitions;
  return std::max(kLeastRepetitions, static_cast<int>(std::min(fitting, static_cast<double>(request.repetitions))));
}

// Everybody's samples of everybody's units, on rank 0.
std::vector<UnitSamples> pooled(Transport& transport, const std::vector<UnitSamples>& mine) {
  std::vector<UnitSamples> sum(mine.size());
  for (const auto& rank : gathered(transport, mine, kTimeout, "gathering what was measured"))
    for (std::size_t u = 0; u < sum.size(); ++u)
      for (std::size_t pass = 0; pass < sum[u].size(); ++pass)
        sum[u][pass].insert(sum[u][pass].end(), rank[u][pass].begin(), rank[u][pass].end());
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

ProfiledUnit to_unit(const PreparedProfile& job, int u, const UnitSamples& samples, const UnitMemory& memory) {
  const Experiment& experiment = job.experiment;
  const UnitCost& known = experiment.model.units(experiment.scenario.cluster.devices.front().type).units[u];
  ProfiledUnit unit;
  unit.name = known.name;
  unit.structure = known.structure;
  unit.operators = job.layout.stages[u].end_operator - job.layout.stages[u].first_operator;
  const auto mean = [&](UnitPass pass) { return seconds(trimmed_mean(samples[panpipe::at(pass)])); };
  unit.forward = mean(UnitPass::Forward);
  unit.backward = mean(UnitPass::Backward);
  unit.input_gradient = mean(UnitPass::InputGradient);
  unit.weight_gradient = mean(UnitPass::WeightGradient);
  const auto width = [&](UnitPass pass) {
    const RobustMedian found = robust_median(samples[panpipe::at(pass)]);
    return found.spread * found.median;
  };
  const double whole = (unit.forward + unit.backward).base();
  unit.spread = whole > 0 ? (width(UnitPass::Forward) + width(UnitPass::Backward)) / whole : 0;
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
  OptimizerRequest request = job.experiment.scenario.optimizer;
  request.learning_rate = 1e-9;
  Optimizer optimizer(request, {}, values);
  optimizer.step(gradients, 0);  // the first use loads kernels
  return median_seconds(device, 6, [&] { optimizer.step(gradients, 0); });
}

// This rank's samples of a window's units, in `share_s` seconds after the warm-up.
std::vector<UnitSamples> samples_of(const PreparedProfile& job, Transport& transport, UnitProfiler& profiler, double share_s) {
  const auto together = [&] { transport.barrier(kTimeout, "measuring units"); };
  std::vector<UnitSamples> samples;
  double round_s = 0;
  for (int i = 0; i < kWarmUp; ++i) {
    const auto start = Clock::now();
    profiler.repeat(together, samples);
    round_s = seconds_since(start);
  }
  samples.clear();
  const int count = repetitions(job.request, transport, round_s, share_s);
  for (int i = 0; i < count; ++i) profiler.repeat(together, samples);
  return samples;
}

// `operators`: null: not asked for.
void measure_units(const PreparedProfile& job, Transport& transport, at::Device device, Profile& profile,
                   std::vector<MeasuredOperator>* operators) {
  const Scenario& scenario = job.experiment.scenario;
  const auto all = windows(job.graph(), job.layout, window_bytes(job.request, device));
  double optimizer_s = 0;
  std::int64_t elements = 0;
  for (const auto& [first, end] : all) {
    UnitProfiler profiler(job.graph(), job.layout, first, end, static_cast<std::uint64_t>(scenario.seed), device,
                          transport.rank() % scenario.degrees.tensor, autocast_of(job.graph(), scenario.precision));
    const std::vector<UnitSamples> samples =
        pooled(transport, samples_of(job, transport, profiler, job.request.seconds / static_cast<double>(all.size())));
    transport.barrier(kTimeout, "measuring units");
    optimizer_s += optimizer_seconds(job, profiler.parameters(), device, elements);
    transport.barrier(kTimeout, "measuring units");
    MemoryAccount account;
    DeviceMemory memory(device, account, DeviceMemory::Count::Requested);
    if (operators) {
      transport.barrier(kTimeout, "measuring operators");
      // On all ranks side by side, and rank 0's are kept. A GPU's memory is counted for all ranks that share it: there rank 0
      // alone.
      for (int u = first; u < end && (device.is_cpu() || transport.rank() == 0); ++u)
        for (const MeasuredOperator& row : profiler.operators(u, job.request.repetitions, memory))
          if (transport.rank() == 0) operators->push_back(row);
    }
    for (int u = first; u < end && transport.rank() == 0; ++u)
      profile.units.push_back(to_unit(job, u, samples[u - first], profiler.memory(u, memory)));
    transport.barrier(kLongTimeout, "measuring the memory of units");  // nobody else allocates meanwhile
  }
  const std::string& optimizer = scenario.optimizer.name;
  if (!optimizer.empty() && optimizer != "none" && !steps_matrices(optimizer))  // whose time is not one of elements
    profile.optimizer = {optimizer, std::max<std::int64_t>(1, elements), seconds(optimizer_s)};
}

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
    measure_units(job, transport, device.device(), profile, job.request.operators.empty() ? nullptr : operators);
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
