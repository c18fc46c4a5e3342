#include "costmodel/prediction/memory_hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/text/memory_text.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/plan/host_memory.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/memory_room.hpp"

namespace panpipe {
namespace {

bool is_torchs(const Scenario& scenario) { return scenario.framework.allocator != AllocatorModel::Factor; }

bool recomputes_less_than(const Plan& plan, Recompute mode) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& stage) { return stage.recompute < mode; });
}

void recompute_all(Scenario& scenario, Plan& plan, Recompute mode) {
  scenario.recompute = mode;
  scenario.recompute_scope = {};
  for (StagePlan& stage : plan.stages) stage.recompute = mode, stage.recompute_first = 0;
}

struct Setting {
  std::string_view assignment, meaning;
  bool (*is_new)(const Scenario&, const Plan&);
  void (*apply)(Scenario&, Plan&);
};

// The least costly first.
constexpr Setting kSettings[] = {
    {"framework.allocator=expandable-segments", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
     [](const Scenario& s, const Plan&) { return s.framework.allocator == AllocatorModel::Caching; },
     [](Scenario& s, Plan&) { s.framework.allocator = AllocatorModel::Expandable; }},
    {"framework.optimizer_kernel=fused", "fused=True of torch.optim",
     [](const Scenario& s, const Plan&) { return is_torchs(s) && s.framework.optimizer_kernel != OptimizerKernel::Fused; },
     [](Scenario& s, Plan&) { s.framework.optimizer_kernel = OptimizerKernel::Fused; }},
    {"framework.gradient_storage=set-to-none", "zero_grad(set_to_none=True)",
     [](const Scenario& s, const Plan& p) {
       return is_torchs(s) && p.zero == 0 && s.framework.gradient_storage == GradientStorage::Kept;
     },
     [](Scenario& s, Plan&) { s.framework.gradient_storage = GradientStorage::SetToNone; }},
    {"parallel.zero=1", "",
     [](const Scenario& s, const Plan& p) { return p.zero == 0 && p.replicas() > 1 && !s.optimizer.sharding; },
     [](Scenario& s, Plan& p) { s.degrees.zero = p.zero = 1; }},
    {"recompute=selective", "", [](const Scenario&, const Plan& p) { return recomputes_less_than(p, Recompute::Selective); },
     [](Scenario& s, Plan& p) { recompute_all(s, p, Recompute::Selective); }},
    {"recompute=full", "", [](const Scenario&, const Plan& p) { return recomputes_less_than(p, Recompute::Full); },
     [](Scenario& s, Plan& p) { recompute_all(s, p, Recompute::Full); }},
    {"offload.blocks=all", "kept activations in the host's memory",
     [](const Scenario& s, const Plan&) {
       return !s.offload.streams_activations() && s.workload.layers_file.empty() && s.recompute_scope.chunk <= 1;
     },
     [](Scenario& s, Plan&) { s.offload.blocks = HostedState::kAllBlocks; }},
    {"offload.optimizer=cpu", "",
     [](const Scenario& s, const Plan&) {
       return !s.offload.optimizer && s.workload.layers_file.empty() && !steps_matrices(s.optimizer.name);
     },
     [](Scenario& s, Plan&) { s.offload.optimizer = true; }},
    {"offload.parameters=cpu", "",
     [](const Scenario& s, const Plan& p) { return !s.offload.parameters && p.zero == 3 && p.replicas() > 1; },
     [](Scenario& s, Plan&) { s.offload.parameters = true; }},
};

struct Need {
  Bytes bytes{0}, limit{0};
  double share() const { return bytes / limit; }
};

std::optional<Need> need_of(const Scenario& scenario, const Plan& plan) {
  const Workload workload = make_workload(scenario, plan);
  const CostModel model(scenario, workload);
  check_host_memory(scenario, plan, model);
  const TaskGraph graph = answered(scenario, plan, model);
  const std::vector<DeviceTimeline> devices = memory_of_ranks(graph, estimate_times(graph));
  const DeviceTimeline* fullest = fullest_device(devices);
  if (fullest == nullptr || fullest->limit <= Bytes(0)) return std::nullopt;
  return Need{fullest->peak, fullest->limit};
}

// From the least room to the most.
int rank_of(std::string_view how) { return how == "not" ? 0 : how == "hardly" ? 1 : how == "probably" ? 2 : 3; }

}  // namespace

std::vector<MemoryHint> memory_hints(const Scenario& scenario, const Plan& plan) {
  std::vector<MemoryHint> hints;
  const std::optional<Need> now = need_of(scenario, plan);
  if (!now || rank_of(fits_how(now->share())) > rank_of("hardly")) return hints;
  for (const Setting& setting : kSettings) {
    if (!setting.is_new(scenario, plan)) continue;
    Scenario changed = scenario;
    Plan with = plan;
    setting.apply(changed, with);
    std::optional<Need> need;
    try {
      need = need_of(changed, with);
    } catch (const InputError&) {  // not together with the rest of this scenario
      continue;
    } catch (const NoAnswer&) {
      continue;
    }
    if (!need || rank_of(fits_how(need->share())) <= rank_of(fits_how(now->share()))) continue;
    hints.push_back(
        {setting.assignment, setting.meaning, need->bytes, need->limit, now->bytes - need->bytes, fits_how(need->share())});
  }
  return hints;
}

std::string to_text(const MemoryHint& hint) {
  return fmt::format("{}{} needs {} less: it fits {}", hint.setting,
                     hint.meaning.empty() ? "" : fmt::format(" ({})", hint.meaning),
                     memory_text(static_cast<double>(hint.saved.base())), hint.fits_how);
}

}  // namespace panpipe
