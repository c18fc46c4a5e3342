#include "costmodel/prediction/trainer_remarks.hpp"

#include <fmt/format.h>

#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/scenario/trainer.hpp"

namespace panpipe {

namespace {

std::vector<TrainerObstacle> obstacles_of(const Trainer& trainer, const Plan& plan, Precision precision = Precision::Fp32) {
  return obstacles(trainer, {plan, plan.schedule.name, most_recompute(plan), precision});
}

}  // namespace

std::vector<std::string> trainer_remarks(const Scenario& scenario, const Plan& plan) {
  if (!scenario.trainer) return {};
  const Trainer& trainer = *scenario.trainer;
  std::vector<std::string> remarks;
  for (const TrainerObstacle& obstacle : obstacles_of(trainer, plan, scenario.precision))
    remarks.push_back(fmt::format("{} does not have {}: {}", trainer.full_title(), obstacle.what, obstacle.has));
  for (std::string& caution : cautions(trainer, plan)) remarks.push_back(std::move(caution));
  if (std::string release = unknown_release(trainer); !release.empty()) remarks.push_back(std::move(release));
  if (const std::string& costs = scenario.framework.name; costs != trainer.framework)
    remarks.push_back(fmt::format("steps cost as framework {}, as the scenario states; those of {} cost as {}", costs,
                                  trainer.full_title(), trainer.framework));
  return remarks;
}

std::vector<std::string> trainers_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const std::string& name : trainer_names())
    if (obstacles_of(load_trainer(name), plan).empty()) names.push_back(name);
  return names;
}

}  // namespace panpipe
