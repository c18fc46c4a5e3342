// The plan that a scenario states, next to the candidates of a search.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/prediction/plan_cautions.hpp"
#include "planner/auto/exact.hpp"
#include "planner/candidate.hpp"
#include "planner/family_form.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {
namespace {

long long samples_of(const Scenario& scenario) {
  const Degrees& degrees = scenario.degrees;
  return static_cast<long long>(degrees.micro) * degrees.microbatches * degrees.data;
}

// The plan as the search would name it if it had found it.
Exact exact_of_yours(const Scenario& scenario, std::shared_ptr<const Plan> plan) {
  Exact exact;
  static_cast<Degrees&>(exact.configuration) = *plan;
  exact.configuration.virtual_stages = std::max(1, plan->schedule.stages / std::max(1, plan->schedule.ranks));
  exact.configuration.family = static_cast<std::int16_t>(form_named(""));
  exact.configuration.recompute = scenario.recompute;
  exact.plan = std::move(plan);
  return exact;
}

Candidate predicted_yours(const Experiment& experiment, const SearchOptions& options) {
  const Scenario& scenario = experiment.scenario;
  const Exact exact = exact_of_yours(scenario, std::make_shared<const Plan>(experiment.plan("")));
  const TaskGraph graph = answered(scenario, *exact.plan, experiment.model);
  Candidate yours = described(experiment.model, exact.plan, graph);
  yours.summary = summary_of(exact.configuration, exact.plan->schedule.name, scenario.offload, first_blocks(*exact.plan),
                             scenario.recompute_scope);
  if (options.simulate) {
    const Prediction simulated = predict(graph, scenario, *exact.plan, options.simulate);
    yours.simulated = figures_of(simulated);
    if (options.method == Method::Auto) yours.run = simulated.metrics.run;
  }
  yours.schedule_options.assign(scenario.schedule.options.begin(), scenario.schedule.options.end());
  yours.settings = settings_of(exact, scenario.recompute_scope);
  yours.settings.emplace_back("schedule", yours.schedule);
  yours.cautions = plan_cautions(scenario, *exact.plan);
  check_finite(yours);
  return yours;
}

}  // namespace

void add_yours(const Experiment& searched, const Scenario& yours, const SearchOptions& options, Answer& answer) {
  if (options.method == Method::Piper) return;
  if (const long long own = samples_of(yours), all = samples_of(searched.scenario); own != all) {
    answer.without_yours = fmt::format(
        "your plan trains {} samples a step, the plans searched {}: state batch.global instead of batch.microbatches", own, all);
    return;
  }
  try {
    answer.yours = predicted_yours(Experiment(yours), options);
  } catch (const InputError& error) {
    answer.without_yours = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    answer.without_yours = error.what();
  }
  if (!answer.yours) answer.without_yours = "your plan cannot run: " + answer.without_yours;
}

}  // namespace panpipe::planner
