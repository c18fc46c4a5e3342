#include "exec/launch/fits_host.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/error.hpp"
#include "base/text/counted.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/lowering/peak_memory.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "exec/launch/host.hpp"
#include "exec/launch/visible_gpus.hpp"

namespace panpipe::exec {
namespace {

// A process of the executor before it has a model: its heap, LibTorch's and the transport's. Measured (docs/running.md): resident
// memory less pages of files, which all processes share.
constexpr std::int64_t kProcessBytes = std::int64_t{100} << 20;

// A profile copies between two tensors of this size to measure the bandwidth of memory (exec/engine/profile/link_profiler.cpp).
constexpr std::int64_t kCopiedBytes = std::int64_t{128} << 20;

// The scenario with the memory of this executor on processors in place of its framework's: attention is fused, dropout is the
// model's own, and there is no GPU's runtime or allocator.
Scenario on_processors(Scenario scenario) {
  scenario.framework = Framework();
  scenario.framework.attention = AttentionKernel::Flash;
  scenario.framework.dropout = false;
  scenario.framework.allocator_factor = 1;
  scenario.framework.context = Bytes(0);
  return scenario;
}

// Times are not asked for.
class HostCosts final : public ModelCosts {
 public:
  using ModelCosts::ModelCosts;
  const WorkloadCost& workload(int site) const override { return units(site); }
};

// As roughly as an estimate is: "11.2 GiB", "380 MiB".
std::string about(std::int64_t bytes) {
  const bool large = bytes >= std::int64_t{1} << 30;
  const double value = static_cast<double>(bytes) / (large ? 0x1p30 : 0x1p20);
  return value < 100 && large ? fmt::format("{:.1f} GiB", value) : fmt::format("{:.0f} {}", value, large ? "GiB" : "MiB");
}

std::string why_processors(const HostUse& use) {
  if (!use.for_gpus) return "";
  return use.gpus == 0 ? "no GPU here: " : fmt::format("{} here for {}: ", counted(use.gpus, "GPU"), counted(use.ranks, "rank"));
}

// Where GPUs are here and the ranks leave them alone: why, and what to do.
std::string how_to_use_gpus(const HostUse& use) {
  if (!use.for_gpus || use.gpus == 0) return "";
  return use.gloo_asked ? ". --transport gloo leaves GPUs alone: --device cuda uses them"
                        : ". Ranks run on GPUs where each has its own: start as many ranks as GPUs, or let ranks share them with "
                          "--device cuda --transport gloo";
}

// "8 ranks run on the CPU, 2 cores"
std::string who_starts(const HostUse& use) {
  return fmt::format("{}{}{} run{} on the CPU, {}", counted(use.ranks, "rank"),
                     use.threads > 1 ? fmt::format(" of {} threads", use.threads) : std::string(),
                     use.one_process && use.ranks > 1 ? ", threads of one process," : "", use.ranks == 1 ? "s" : "",
                     counted(use.cores, "core"));
}

}  // namespace

std::vector<std::int64_t> run_memory(const Experiment& experiment, const Plan& plan) {
  if (!experiment.workload.graph) return {};
  const Experiment here(on_processors(experiment.scenario));
  std::vector<std::int64_t> need;
  for (const PeakMemory& rank : peak_memory(here.scenario, plan, HostCosts(here.model, plan)))
    need.insert(need.end(), static_cast<std::size_t>(plan.devices_of_rank()), rank.peak.base());
  return need;
}

std::int64_t profile_memory(const Experiment& experiment, const ProfileRequest& request) {
  if (request.only_transfers || !experiment.workload.graph) return 2 * kCopiedBytes;
  const Experiment here(on_processors(experiment.scenario));
  const HostCosts costs(here.model, here.scenario.degrees);
  const double per_element = costs.parameter_bytes() + costs.gradient_bytes() + costs.optimizer_bytes();
  std::int64_t all = 0, largest = 0;
  for (const UnitCost& unit : costs.workload(experiment.scenario.cluster.devices.front().type).units) {
    double bytes = static_cast<double>((unit.saved + unit.temporary).base());
    for (const ParameterUse& parameter : unit.parameters) bytes += per_element * static_cast<double>(parameter.elements);
    all += static_cast<std::int64_t>(bytes);
    largest = std::max(largest, static_cast<std::int64_t>(bytes));
  }
  std::int64_t window = 0;
  if (const Parsed<Bytes> stated = parse_bytes(request.window); !request.window.empty() && stated.value)
    window = stated.value->base();
  else
    window = profile_window(request.ranks);
  return std::max(2 * kCopiedBytes, std::max(largest, std::min(all, window)));
}

std::string reported_before_start(const HostUse& use, bool overcommit) {
  const std::int64_t own = kProcessBytes * (use.one_process ? 1 : use.ranks);
  const std::int64_t need = std::accumulate(use.need.begin(), use.need.end(), own);
  const bool known = !use.need.empty() && use.memory > 0;
  if (known && need > use.memory && !overcommit)
    throw MachineError(fmt::format(
        "{}: {}{}; they need about {} (an estimate; the largest rank {}), and this host has {}. Choose fewer layers, a smaller "
        "model or fewer ranks with --set, a machine with more memory{}, or --allow-overcommit to {} all the same",
        use.scenario, why_processors(use), who_starts(use), about(need),
        about(*std::max_element(use.need.begin(), use.need.end())), about(use.memory), use.for_gpus ? " or GPUs" : "",
        use.purpose));
  const bool crowded = use.ranks * std::max(1, use.threads) > use.cores;
  if (!use.for_gpus && !crowded && (!known || need <= use.memory)) return "";
  std::string text = why_processors(use) + who_starts(use);
  if (known)
    text += fmt::format("; {} need{} about {} of {}", use.ranks == 1 ? "it" : "they", use.ranks == 1 ? "s" : "", about(need),
                        about(use.memory));
  text += how_to_use_gpus(use);
  if (crowded) text += ". There are more ranks than cores: they take turns, so a step takes correspondingly longer";
  return text;
}

std::string reported_load(double load, int cores, const std::string& purpose) {
  if (load < 0.5 * cores) return "";
  return fmt::format(
      "this machine is busy: a load of {:.1f} on {} core{}; what this {} measures takes longer than on a quiet one", load, cores,
      cores == 1 ? "" : "s", purpose);
}

namespace {

HostUse here(HostUse use) {
  use.gpus = visible_gpus();
  use.cores = host_cores();
  use.memory = host_memory();
  return use;
}

}  // namespace

void check_host(const HostUse& use, bool overcommit) { reported_before_start(here(use), overcommit); }

void report_before_start(const HostUse& use, bool overcommit) {
  if (const std::string text = reported_before_start(here(use), overcommit); !text.empty())
    std::fputs(("panpipe: " + text + "\n").c_str(), stderr);
  const std::string load = reported_load(host_load(), static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), use.purpose);
  if (!load.empty() && isatty(STDERR_FILENO)) std::fputs(("panpipe: " + load + "\n").c_str(), stderr);
}

}  // namespace panpipe::exec
