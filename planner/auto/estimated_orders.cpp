#include "planner/auto/estimated_orders.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/plan/host_memory.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "planner/auto/configuration.hpp"
#include "planner/candidate.hpp"
#include "planner/family_form.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kOrdersSimulated = 3;

}  // namespace

bool EstimatedOrders::estimate(const Experiment& variant, const ScheduleRequest& schedule, Recompute recompute,
                               int stages_per_rank) {
  PlanRequest request = request_of(variant.scenario);
  request.schedule = schedule;
  request.recompute = recompute;
  request.degrees.virtual_stages = stages_per_rank;
  try {
    const Plan plan = make_plan(variant.scenario, request, variant.model);
    check_host_memory(variant.scenario, plan, variant.model);
    const TaskGraph graph = lower(variant.scenario, plan, variant.model);
    const StepFigures figures = step_figures(graph, variant.scenario, plan);
    ++estimated_;
    if (!figures.fits) {
      least_memory_ = without_room_++ == 0 ? figures.peak_memory_bytes : std::min(least_memory_, figures.peak_memory_bytes);
      return false;
    }
    Scenario scenario = variant.scenario;
    scenario.schedule = schedule;
    scenario.recompute = recompute;
    scenario.degrees.virtual_stages = stages_per_rank;
    fit_.push_back({figures.step_time_s, std::move(scenario), std::make_shared<const Plan>(plan)});
    std::stable_sort(fit_.begin(), fit_.end(), [](const Found& a, const Found& b) { return a.step < b.step; });
    if (fit_.size() > kOrdersSimulated) fit_.pop_back();
    return true;
  } catch (const InputError& error) {
    if (fault_.empty()) fault_ = error.what();
  } catch (const NoAnswer& error) {
    if (fault_.empty()) fault_ = error.what();
  }
  return false;
}

Candidate EstimatedOrders::candidate_of(const Found& found, const SearchOptions& options) {
  const Experiment experiment(found.scenario);
  const Plan& plan = *found.plan;
  const ScheduleOptions& options_of_order = found.scenario.schedule.options;
  const TaskGraph graph = answered(found.scenario, plan, experiment.model);
  Candidate candidate = described(experiment.model, found.plan, graph);
  Configuration configuration;
  static_cast<Degrees&>(configuration) = plan;
  configuration.family = static_cast<std::int16_t>(form_named(""));
  configuration.recompute = found.scenario.recompute;
  configuration.virtual_stages = 1;
  candidate.schedule_options.assign(options_of_order.begin(), options_of_order.end());
  std::string order = plan.schedule.name;
  for (const auto& [key, value] : options_of_order) order += fmt::format(" {}={}", key, value);
  candidate.settings = {{"batch.micro", std::to_string(plan.micro)}, {"batch.microbatches", std::to_string(plan.microbatches)}};
  for (const auto& [key, value] : written_degrees(plan)) candidate.settings.emplace_back("parallel." + key, value);
  candidate.settings.emplace_back("recompute", name_of(found.scenario.recompute));
  candidate.settings.emplace_back("schedule", schedule_setting(plan.schedule.name, options_of_order));
  candidate.summary = summary_of(configuration, order, found.scenario.offload);
  if (options.simulate && !options.stopped()) {
    const Prediction prediction = predict(graph, found.scenario, plan, options.simulate);
    candidate.simulated = figures_of(prediction);
    candidate.run = prediction.metrics.run;
  }
  return candidate;
}

Answer EstimatedOrders::answer(const SearchOptions& options, const std::string& kind) const {
  Answer answer;
  answer.objective = "step_time_s";
  answer.search.evaluated = estimated_;
  for (const Found& found : fit_) answer.candidates.push_back(candidate_of(found, options));
  if (answer.candidates.empty()) {
    answer.reason = estimated_ > 0
                        ? fmt::format("none of {} orders fits: the smallest needs {:.1f} GiB", estimated_, least_memory_ / 0x1p30)
                        : fault_;
    return answer;
  }
  std::stable_sort(answer.candidates.begin(), answer.candidates.end(), [](const Candidate& a, const Candidate& b) {
    return (a.simulated.empty() ? a.metrics : a.simulated).front().second <
           (b.simulated.empty() ? b.metrics : b.simulated).front().second;
  });
  answer.simulation_decides = !answer.candidates.front().simulated.empty();
  answer.search.best = fit_.front().step;
  answer.notes.push_back(fmt::format("{} orders {} were estimated; they have no bound", estimated_, kind));
  return answer;
}

}  // namespace panpipe::planner
