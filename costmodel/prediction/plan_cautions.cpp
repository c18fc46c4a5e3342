#include "costmodel/prediction/plan_cautions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "costmodel/cluster/fabric.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/prediction/blame.hpp"
#include "costmodel/prediction/support.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/transformer.hpp"
#include "schedule/rolling.hpp"

namespace panpipe {

namespace {

std::vector<TrainerObstacle> obstacles_of(const Trainer& trainer, const Plan& plan, const HostedState& hosted,
                                          const RecomputeScope& scope, Precision precision = Precision::Fp32) {
  return obstacles(trainer, {plan, plan.schedule.name, most_recompute(plan), precision, !first_blocks(plan).empty(), hosted,
                             has_action(plan.schedule, ActionKind::Offload), scope});
}

void add_disturbed(const Cluster& cluster, std::vector<std::string>& all) {
  for (const DeviceType& type : cluster.types)
    if (type.may_be_faster > 0)
      all.push_back(
          fmt::format("{} was measured while other work ran on it: alone it may be {:.2f} times as fast; panpipe measure-device "
                      "measures it again",
                      type.name, 1 + type.may_be_faster));
}

void add_unmeasured(const Cluster& cluster, std::vector<std::string>& all) {
  for (const std::string& device : unmeasured(cluster)) all.push_back(device + "; the interval is wider for it");
}

// Their costs come from counted operations and bytes alone.
void add_unmeasured_layers(const WorkloadRequest& workload, std::vector<std::string>& all) {
  if (!workload.config) return;
  const TransformerTraits& traits = workload.config->dimensions.traits;
  std::vector<std::string> layers;
  if (traits.has_linear()) layers.emplace_back("linear-attention or state-space layers");
  if (traits.index.heads > 0) layers.emplace_back("attention to chosen keys");
  if (traits.further_tokens > 0) layers.emplace_back("multi-token prediction");
  if (!layers.empty())
    all.push_back(fmt::format("no measured run with {} was compared: the interval does not know how far off they are",
                              fmt::join(layers, ", ")));
}

void add_unmeasured_recipe(const Scenario& scenario, std::vector<std::string>& all) {
  if (const Recipe* recipe = unmeasured_recipe(scenario))
    all.push_back(
        fmt::format("the evidence has no measured run with {}: its rates and casts are a priori; the interval is wider for it",
                    recipe->title));
}

void add_post_training(const Scenario& scenario, std::vector<std::string>& all) {
  if (scenario.lengths.shapes.size() > 1)
    all.emplace_back(
        "no measured run with microbatches of unequal length was compared: each costs as one of equals of its length");
  if (scenario.samples.any())
    all.emplace_back("no measured run with packed samples was compared: their attention is a sum of squares");
  if (scenario.rollout) all.emplace_back("rollouts take what the scenario states, whatever their number of GPUs does to it");
}

void add_rolling(const Schedule& schedule, std::vector<std::string>& all) {
  const Rolling rolling = rolling_of(schedule);
  if (rolling == Rolling::None) return;
  all.emplace_back("no measured run without a flush between steps was compared");
  if (staleness(schedule) > 0)
    all.push_back(fmt::format(
        "the gradients of {} are stale by one update: it trains something else than a schedule with a flush", schedule.name));
}

void add_of_trainer(const Scenario& scenario, const Plan& plan, std::vector<std::string>& all) {
  const Trainer& trainer = *scenario.trainer;
  for (const TrainerObstacle& obstacle :
       obstacles_of(trainer, plan, scenario.offload, scenario.recompute_scope, scenario.precision))
    all.push_back(fmt::format("{} does not have {}: {}", trainer.full_title(), obstacle.what, obstacle.has));
  for (std::string& caution : cautions(trainer, plan)) all.push_back(std::move(caution));
  if (scenario.lengths.shapes.size() > 1 && plan.pipeline > 1 && trainer.name.starts_with("megatron"))
    all.push_back(
        fmt::format("{} exchanges shapes before each message (variable_seq_lengths), which was reported to hang: "
                    "github.com/NVIDIA/Megatron-LM issue 5100",
                    trainer.full_title()));
  if (std::string release = unknown_release(trainer); !release.empty()) all.push_back(std::move(release));
  if (const std::string& costs = scenario.framework.name; costs != trainer.framework)
    all.push_back(fmt::format("steps cost as framework {}, as the scenario states; those of {} cost as {}", costs,
                              trainer.full_title(), trainer.framework));
}

}  // namespace

std::vector<std::string> unmeasured(const Cluster& cluster) {
  std::vector<std::string> all;
  for (int t = 0; t < static_cast<int>(cluster.types.size()); ++t) {
    const DeviceType& type = cluster.types[at(t)];
    if (slowdown_of_type(cluster, t) != 1) continue;  // as its sound type
    const auto source = type.sources.find("calibration");
    if (source != type.sources.end() && origin_of_number(source->second) == NumberOrigin::Inferred)
      all.push_back(type.name + ": " + source->second);
    if (const double clock = clock_of_type(cluster, t); clock < 1)
      all.push_back(fmt::format("{} at {:.0f} % of its clock: a rule from three RTX 3090", type.name, 100 * clock));
  }
  return all;
}

const Recipe* unmeasured_recipe(const Scenario& scenario) {
  const Recipe* recipe = narrow_scope(scenario.precision, scenario.framework).recipe;
  return recipe != nullptr && !recipe->compared ? recipe : nullptr;
}

std::vector<std::string> plan_cautions(const Scenario& scenario, const Plan& plan) {
  std::vector<std::string> all;
  add_disturbed(scenario.cluster, all);
  add_unmeasured(scenario.cluster, all);
  add_unmeasured_layers(scenario.workload, all);
  add_unmeasured_recipe(scenario, all);
  add_post_training(scenario, all);
  add_rolling(plan.schedule, all);
  for (const Blame& blame : blame_of(scenario, plan)) all.push_back(to_text(blame));
  if (scenario.trainer) add_of_trainer(scenario, plan, all);
  return all;
}

std::vector<std::string> trainers_of(const Plan& plan, const HostedState& hosted, const RecomputeScope& scope) {
  std::vector<std::string> names;
  for (const std::string& name : trainer_names())
    if (obstacles_of(load_trainer(name), plan, hosted, scope).empty()) names.push_back(name);
  return names;
}

}  // namespace panpipe
