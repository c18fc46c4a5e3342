#include "present/result/describe_plan.hpp"

#include <algorithm>

#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/pass_rules.hpp"
#include "costmodel/plan/transfer_semantics.hpp"
#include "present/result/heading.hpp"
#include "present/result/traffic_paths.hpp"

namespace panpipe::present {
namespace {

PlanFacts facts_of(const Experiment& experiment, const Plan& plan) {
  const Scenario& scenario = experiment.scenario;
  PlanFacts facts;
  facts.schedule = plan.schedule.name;
  facts.transfers = name_of(transfer_semantics(scenario, ModelCosts(experiment.model, plan).measured()));
  facts.degrees = plan;
  facts.degrees.zero = zero_in_effect(scenario.framework, plan);
  facts.degrees.shard = facts.degrees.zero > 0 && plan.shard_group() < plan.replicas() ? plan.shard_group() : 0;
  facts.stages = plan.schedule.stages;
  facts.overlaps_reductions = plan.replicas() > 1 && overlaps_reductions(scenario, facts.degrees.zero);
  std::vector<bool> apart(plan.stages.size(), false);  // recomputed by actions of the schedule
  for (const auto& row : plan.schedule.order)
    for (const Action& action : row) {
      if (action.kind == ActionKind::R) apart[action.stage] = true;
      facts.splits_backward = facts.splits_backward || action.kind == ActionKind::W;
      facts.braided = facts.braided || (action.is_compute() && action.group != GroupKind::None);
      facts.overlaps_reductions = facts.overlaps_reductions || (plan.replicas() > 1 && action.kind == ActionKind::ReduceGrad);
    }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Recompute recompute = plan.stages[s].recompute;
    facts.recomputed_stages += recompute != Recompute::None || apart[s] ? 1 : 0;
    facts.fully_recomputed_stages += recompute == Recompute::Full || (recompute == Recompute::None && apart[s]) ? 1 : 0;
  }
  return facts;
}

}  // namespace

ResultPlan describe_plan(const Experiment& experiment, const Plan& plan, const Timeline& timeline) {
  return {facts_of(experiment, plan), traffic_paths(experiment.scenario.cluster, plan, timeline),
          heading_of(experiment.scenario, experiment.workload, plan)};
}

std::string result_text(const Experiment& experiment, const Timeline& timeline, const Metrics& metrics, const ResultPlan& plan,
                        const TextStyle& style) {
  return wrapped(plan.heading, style.width) + to_table(timeline, metrics, style, mean_tokens(experiment));
}

}  // namespace panpipe::present
