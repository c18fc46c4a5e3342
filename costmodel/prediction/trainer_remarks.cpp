#include "costmodel/prediction/trainer_remarks.hpp"

#include <fmt/format.h>

#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/scenario/trainer.hpp"

namespace panpipe {

namespace {

std::vector<TrainerObstacle> obstacles_of(const Trainer& trainer, const Plan& plan) {
  return obstacles(trainer, {plan, plan.schedule.name, most_recompute(plan)});
}

}  // namespace

std::vector<std::string> trainer_remarks(const Scenario& scenario, const Plan& plan) {
  if (!scenario.trainer) return {};
  const Trainer& trainer = *scenario.trainer;
  std::vector<std::string> remarks;
  for (const TrainerObstacle& obstacle : obstacles_of(trainer, plan))
    remarks.push_back(fmt::format("{} does not have {}: {}", trainer.full_title(), obstacle.what, obstacle.has));
  for (std::string& caution : cautions(trainer, plan)) remarks.push_back(std::move(caution));
  return remarks;
}

std::vector<std::string> trainers_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const std::string& name : trainer_names())
    if (obstacles_of(load_trainer(name), plan).empty()) names.push_back(name);
  return names;
}

}  // namespace panpipe
