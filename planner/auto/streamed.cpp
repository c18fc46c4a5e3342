#include "planner/auto/streamed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/plan/host_memory.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "planner/auto/configuration.hpp"
#include "planner/auto/space.hpp"
#include "planner/candidate.hpp"
#include "planner/family_form.hpp"
#include "planner/schedule_choice.hpp"

namespace panpipe::planner {
namespace {

constexpr int kMostMicro = 32;                  // samples: a device holds one microbatch of a slot
constexpr int kMostSlots = 4;                   // of a rank in a round
constexpr int kMostOfOne = 32, kStepOfOne = 4;  // the same where there is one rank
constexpr std::size_t kSimulated = 3;

struct Found {
  double step = 0;
  Scenario scenario;
  std::shared_ptr<const Plan> plan;
};

struct Tried {
  std::vector<Found> fit;  // the fastest, at most kSimulated
  std::int64_t estimated = 0, without_room = 0;
  double least_memory = 0;  // of those without room
  std::string fault;        // of the first that does not exist
};

void take(Tried& tried, Found found) {
  tried.fit.push_back(std::move(found));
  std::stable_sort(tried.fit.begin(), tried.fit.end(), [](const Found& a, const Found& b) { return a.step < b.step; });
  if (tried.fit.size() > kSimulated) tried.fit.pop_back();
}

void estimate_one(const Experiment& variant, ScheduleRequest schedule, Tried& tried) {
  PlanRequest request = request_of(variant.scenario);
  request.schedule = std::move(schedule);
  request.recompute = Recompute::None;  // slots of the backward recompute by themselves
  try {
    const Plan plan = make_plan(variant.scenario, request, variant.model);
    check_host_memory(variant.scenario, plan, variant.model);
    const TaskGraph graph = lower(variant.scenario, plan, variant.model);
    const StepFigures figures = step_figures(graph, variant.scenario, plan);
    ++tried.estimated;
    if (!figures.fits) {
      if (tried.without_room++ == 0 || figures.peak_memory_bytes < tried.least_memory)
        tried.least_memory = figures.peak_memory_bytes;
      return;
    }
    Scenario scenario = variant.scenario;
    scenario.schedule = request.schedule;
    scenario.recompute = Recompute::None;
    take(tried, {figures.step_time_s, std::move(scenario), std::make_shared<const Plan>(plan)});
  } catch (const InputError& error) {
    if (tried.fault.empty()) tried.fault = error.what();
  } catch (const NoAnswer& error) {
    if (tried.fault.empty()) tried.fault = error.what();
  }
}

// On one rank a round has all microbatches: weights come as seldom as they can, and nothing waits for other ranks.
void try_orders(const Experiment& variant, Tried& tried, const SearchOptions& options) {
  const int ranks = variant.scenario.degrees.pipeline, all = variant.scenario.degrees.microbatches;
  const int most = ranks == 1 ? kMostOfOne : kMostSlots * ranks, step = ranks == 1 ? kStepOfOne : std::max(1, ranks / 4);
  if (!may_choose(variant.scenario, "roundpipe")) return;
  for (int slots = std::max(ranks, step); slots <= most; slots += step)
    for (const int share : {3, 4, 5})  // a forward takes about a quarter of what both take
      for (const int round : ranks == 1 ? std::set{all} : std::set{ranks, std::min(2 * ranks, all)}) {
        const int forward = (slots + share / 2) / share;
        if (forward < 1 || slots - forward < 2 || options.stopped()) continue;
        ScheduleRequest order;
        order.name = "roundpipe";
        order.options = {{"forward_slots", std::to_string(forward)}, {"backward_slots", std::to_string(slots - forward)}};
        if (round != ranks) order.options["round"] = std::to_string(round);
        estimate_one(variant, std::move(order), tried);
      }
}

Candidate candidate_of(const Found& found, const SearchOptions& options) {
  Candidate candidate;
  const Experiment experiment(found.scenario);
  const Plan& plan = *found.plan;
  const TaskGraph graph = answered(found.scenario, plan, experiment.model);
  Configuration configuration;
  static_cast<Degrees&>(configuration) = plan;
  configuration.family = static_cast<std::int16_t>(form_named(""));
  configuration.recompute = found.scenario.recompute;
  configuration.virtual_stages = 1;
  candidate.schedule = plan.schedule.name;
  std::string order = plan.schedule.name;
  candidate.settings = {{"batch.micro", std::to_string(plan.micro)}, {"batch.microbatches", std::to_string(plan.microbatches)}};
  for (const auto& [key, value] : written_degrees(plan)) candidate.settings.emplace_back("parallel." + key, value);
  candidate.settings.emplace_back("recompute", name_of(found.scenario.recompute));
  candidate.settings.emplace_back("schedule.name", plan.schedule.name);
  for (const auto& [key, value] : found.scenario.schedule.options) {
    candidate.schedule_options.emplace_back(key, value);
    candidate.settings.emplace_back("schedule." + key, value);
    order += fmt::format(" {}={}", key, value);
  }
  candidate.summary = summary_of(configuration, order, found.scenario.offload);
  state_metrics(candidate, predict(graph, found.scenario, plan));
  if (options.simulate && !options.stopped()) {
    const Prediction prediction = predict(graph, found.scenario, plan, options.simulate);
    candidate.simulated = figures_of(prediction);
    candidate.run = prediction.metrics.run;
  }
  candidate.stages = stages_of(plan, experiment.model.units(found.scenario.cluster.devices.front().type));
  candidate.plan = found.plan;
  return candidate;
}

// Why nothing of the kind can be searched; empty: it can.
std::string obstacle_of(const Experiment& experiment, const Space& space) {
  const Scenario& scenario = experiment.scenario;
  if (scenario.cluster.node.size() > 1 || space.node_size < space.devices)
    return "the weights lie in the memory of one node's host";
  if (!experiment.workload.graph || !scenario.workload.pt2_file.empty() || scenario.profile)
    return "the workload's costs are for given sizes";
  const Degrees& stated = scenario.degrees;
  if (stated.data > 1 || stated.context > 1 || stated.expert > 1) return "replicas are stated";
  if (!is_open(scenario, "schedule") || !is_open(scenario, "recompute")) return "the schedule and recompute are stated";
  return "";
}

}  // namespace

Answer search_streamed(const Experiment& experiment, const SearchOptions& options) {
  Answer answer;
  answer.objective = "step_time_s";
  const Space space = space_of(experiment);
  if (answer.reason = obstacle_of(experiment, space); !answer.reason.empty()) return answer;
  Tried tried;
  for (const int micro : space.micro) {
    if (micro > kMostMicro || space.global_batch % micro != 0) continue;
    Scenario scenario = experiment.scenario;
    Degrees& degrees = scenario.degrees;
    degrees.micro = micro;
    degrees.microbatches = static_cast<int>(space.global_batch / micro);
    if (space.pipeline_open) degrees.pipeline = space.devices;
    if (is_open(scenario, "parallel.tensor")) degrees.tensor = 1;
    degrees.virtual_stages = 1;
    degrees.zero = 0;
    const Experiment variant(std::move(scenario));
    const std::int64_t without = tried.without_room, before = tried.estimated;
    try_orders(variant, tried, options);
    if (options.stopped() || (tried.estimated > before && tried.estimated - before == tried.without_room - without)) break;
  }
  answer.search.evaluated = tried.estimated;
  for (const Found& found : tried.fit) answer.candidates.push_back(candidate_of(found, options));
  if (answer.candidates.empty()) {
    answer.reason = tried.estimated > 0 ? fmt::format("none of {} orders fits: the smallest needs {:.1f} GiB", tried.estimated,
                                                      tried.least_memory / 0x1p30)
                                        : tried.fault;
    return answer;
  }
  std::stable_sort(answer.candidates.begin(), answer.candidates.end(), [](const Candidate& a, const Candidate& b) {
    return (a.simulated.empty() ? a.metrics : a.simulated).front().second <
           (b.simulated.empty() ? b.metrics : b.simulated).front().second;
  });
  answer.simulation_decides = !answer.candidates.front().simulated.empty();
  answer.search.best = tried.fit.front().step;
  answer.notes.push_back(
      fmt::format("{} orders whose weights come for a turn were estimated; they have no bound", tried.estimated));
  return answer;
}

}  // namespace panpipe::planner
