#include "costmodel/prediction/trainer_remarks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/scenario/trainer.hpp"

namespace panpipe {

std::vector<std::string> trainer_remarks(const Scenario& scenario, const Plan& plan) {
  if (!scenario.trainer) return {};
  const Trainer& trainer = *scenario.trainer;
  Recompute most = Recompute::None;
  for (const StagePlan& stage : plan.stages) most = std::max(most, stage.recompute);
  std::vector<std::string> remarks;
  for (const TrainerObstacle& obstacle : obstacles(trainer, {plan, plan.schedule.name, most}))
    remarks.push_back(fmt::format("{} does not have {}: {}", trainer.full_title(), obstacle.what, obstacle.has));
  for (std::string& caution : cautions(trainer, plan)) remarks.push_back(std::move(caution));
  return remarks;
}

}  // namespace panpipe
