#include "planner/schedule_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/scenario/trainer.hpp"

namespace panpipe::planner {

const Node* written(const Scenario& scenario, std::string_view key, std::string_view inside) {
  const Node* node = scenario.document ? scenario.document->find(std::string(key)) : nullptr;
  if (node == nullptr || inside.empty()) return node;
  return node->kind == NodeKind::Map ? node->find(std::string(inside)) : nullptr;
}

bool may_choose(const Scenario& scenario, std::string_view family) {
  const Trainer& trainer = trainer_of(scenario);
  // One stage has any order; a trainer without a pipeline has that of 1f1b.
  const bool no_pipeline = trainer.schedules && trainer.schedules->empty();
  if (no_pipeline ? family != "1f1b" : !trainer.runs_schedule(family)) return false;
  const Node* list = written(scenario, "schedule");
  if (list == nullptr || list->kind != NodeKind::Sequence) return true;
  return std::any_of(list->items.begin(), list->items.end(), [&](const NodePtr& item) { return item->text == family; });
}

void check_trainer(const Scenario& scenario) {
  // What is open will be chosen among what the trainer has.
  Degrees stated = scenario.degrees;
  for (const Axis& axis : kAxes)
    if (is_open(scenario, fmt::format("parallel.{}", axis.key))) axis.put(stated, axis.of(Degrees{}));
  const Recompute recompute = is_open(scenario, "recompute") ? Recompute::None : scenario.recompute;
  const std::string family = scenario.schedule.csv.empty() ? scenario.schedule.name : "";
  // Where the data is open, enough of it is chosen for the precision.
  const Precision precision = is_open(scenario, "parallel.data") ? Precision::Fp32 : scenario.precision;
  const auto offload = scenario.schedule.options.find("offload");
  const bool activations = offload != scenario.schedule.options.end() && offload->second != "none";
  const TrainedPlan plan = {stated,
                            family,
                            recompute,
                            precision,
                            !scenario.recompute_scope.firsts.empty(),
                            scenario.offload,
                            activations,
                            scenario.recompute_scope};
  for (const TrainerObstacle& obstacle : obstacles(trainer_of(scenario), plan)) {
    if (is_open(scenario, obstacle.key)) continue;
    throw fault_at(scenario, obstacle.key, fmt::format("{} does not have {}", trainer_of(scenario).full_title(), obstacle.what),
                   obstacle.key == "schedule" ? obstacle.has + "; or leave it open: schedule: auto" : obstacle.has);
  }
}

}  // namespace panpipe::planner
