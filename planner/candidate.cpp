#include "planner/candidate.hpp"

namespace panpipe::planner {

std::vector<std::pair<std::string, double>> figures_of(const Timeline& timeline) {
  const Metrics m = metrics(timeline);
  return {{"step_time_s", m.step_time_s},
          {"samples_per_s", m.samples_per_s},
          {"mfu", m.mfu},
          {"bubble_step", m.bubble_step},
          {"bubble_span", m.bubble_span},
          {"compute_s", m.compute_s},
          {"exposed_communication_s", m.exposed_communication_s},
          {"peak_memory_bytes", m.peak_memory_bytes},
          {"memory_limit_bytes", m.memory_limit_bytes},
          {"memory_share", m.memory_share},
          {"fits", m.fits ? 1.0 : 0.0}};
}

std::vector<PlannedStage> stages_of(const Plan& plan, const WorkloadCost& workload) {
  std::vector<PlannedStage> stages;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    PlannedStage& stage = stages.emplace_back();
    stage.data = plan.data;
    stage.tensor = plan.tensor;
    for (int u = plan.stages[s].first_unit; u < plan.stages[s].end_unit; ++u) {
      const UnitCost& unit = workload.units[static_cast<std::size_t>(u)];
      stage.operators.push_back(unit.name);
      if (plan.stages[s].recompute != Recompute::None && !unit.block.empty()) stage.recompute.push_back(unit.name);
    }
    const int rank = plan.schedule.stage_to_rank[s];
    for (int d = 0; d < plan.data; ++d)
      for (int t = 0; t < plan.tensor; ++t) stage.devices.push_back(plan.device(rank, d, t));
  }
  return stages;
}

}  // namespace panpipe::planner
