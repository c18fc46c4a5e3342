#include "planner/piper/candidates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/prediction/prediction.hpp"

namespace panpipe::planner::piper {
namespace {

// Passes of a step beyond which a candidate is not estimated: the search itself takes milliseconds.
constexpr long long kMostPasses = 50000;

// "data 4, 2 x 8" for stages with 4, 8 and 8 replicas.
std::string degrees_text(const std::vector<StageChoice>& stages, int StageChoice::*degree) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i;
    while (end < stages.size() && stages[end].*degree == stages[i].*degree) ++end;
    runs.push_back(end - i == 1 || end - i == stages.size() ? std::to_string(stages[i].*degree)
                                                            : fmt::format("{} x {}", end - i, stages[i].*degree));
    i = end;
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

enum class Recomputes { None, Some, All };

Recomputes recomputes(const PlanningProblem& problem, const StageChoice& stage) {
  bool able = false, some = false, all = true;
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    const Choice& taken = choice_of(problem, stage, i);
    // Where recompute saves nothing it makes no difference which of the two is taken.
    bool differs = false, offers_none = false;
    for (std::size_t way = 0; way < problem.degrees.size(); ++way) {
      if (problem.degrees[way] != stage.tensor) continue;
      for (const Choice& c : problem.layers[stage.layers[i]].choices[way]) {
        differs |= c.recompute != taken.recompute && (c.time != taken.time || c.in_flight != taken.in_flight);
        offers_none |= !c.recompute;
      }
    }
    if (!differs && offers_none) continue;
    able = true;
    some |= taken.recompute;
    all &= taken.recompute;
  }
  return !able || !some ? Recomputes::None : all ? Recomputes::All : Recomputes::Some;
}

// Of several profiles of one degree and one recompute the engines take the first.
std::string unstated_profile(const PlanningProblem& problem, const StageChoice& stage) {
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    const Choice& taken = choice_of(problem, stage, i);
    for (const Choice& first : choices_of(problem, stage, i)) {
      if (&first == &taken) break;
      if (first.recompute == taken.recompute)
        return fmt::format("layer '{}' takes its profile '{}', and the engines run it by '{}', the first for its degree",
                           problem.layers[stage.layers[i]].name, taken.name, first.name);
    }
  }
  return "";
}

// Why the engines cannot run the stages; empty when nothing speaks against it.
std::string unrunnable(const PlanningProblem& problem, const std::vector<StageChoice>& stages) {
  for (const StageChoice& stage : stages)
    if (stage.data != stages.front().data || stage.tensor != stages.front().tensor)
      return "its degrees differ from stage to stage, which the engines cannot run";
  int next = 0;
  for (const StageChoice& stage : stages) {
    if (recomputes(problem, stage) == Recomputes::Some)
      return "a stage recomputes some of its layers only, which the engines cannot run";
    if (std::string reason = unstated_profile(problem, stage); !reason.empty()) return reason;
    for (const int layer : stage.layers)
      if (layer != next++) return "its stages are not contiguous in the order of the layers, as the engines need them";
  }
  return "";
}

Plan plan_of(const Scenario& scenario, const PlanningProblem& problem, const std::vector<StageChoice>& stages) {
  PlanRequest request = request_of(scenario);
  request.degrees.pipeline = static_cast<int>(stages.size());
  request.degrees.tensor = stages.front().tensor;
  request.degrees.data = stages.front().data;
  request.degrees.virtual_stages = 1;
  request.degrees.microbatches = problem.microbatches / stages.front().data;
  request.placement.reset();
  request.partition.clear();
  for (std::size_t s = 1; s < stages.size(); ++s) request.cuts.push_back(stages[s].layers.front());
  const Workload workload = make_workload(scenario, request.degrees);
  return make_plan(scenario, request, CostModel(scenario, workload));
}

}  // namespace

Candidate candidate_of(const PlanningProblem& problem, const std::vector<StageChoice>& stages) {
  Candidate candidate;
  int devices = 0;
  double slowest = 0, peak = 0;
  std::size_t recomputed = 0;
  for (const StageChoice& stage : stages) {
    PlannedStage planned;
    planned.data = stage.data;
    planned.tensor = stage.tensor;
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      const std::string& name = problem.layers[stage.layers[i]].name;
      planned.operators.push_back(name);
      if (choice_of(problem, stage, i).recompute) planned.recompute.push_back(name);
    }
    for (int d = 0; d < stage.data * stage.tensor; ++d) planned.devices.push_back(devices++);
    recomputed += planned.recompute.size();
    slowest = std::max(slowest, stage.load);
    peak = std::max(peak, stage.memory);
    candidate.stages.push_back(std::move(planned));
  }
  candidate.summary =
      fmt::format("{} stage{}, data {}, tensor {}, {} of {} layers recomputed, {} of {} devices", stages.size(),
                  stages.size() == 1 ? "" : "s", degrees_text(stages, &StageChoice::data),
                  degrees_text(stages, &StageChoice::tensor), recomputed, problem.layers.size(), devices, problem.devices);
  candidate.schedule = "1f1b";
  candidate.metrics = {{"time_per_sample", slowest},
                       {"steady_step_time", problem.microbatches * slowest},
                       {"synchronous_step_time", step_time(problem, stages)},
                       {"devices", devices},
                       {"peak_memory_bytes", peak}};
  return candidate;
}

std::string add_plan(const Experiment& experiment, const PlanningProblem& problem, const std::vector<StageChoice>& stages,
                     Candidate& candidate) {
  if (std::string reason = unrunnable(problem, stages); !reason.empty()) return reason;
  try {
    auto plan = std::make_shared<Plan>(plan_of(experiment.scenario, problem, stages));
    if (plan->stages.size() != stages.size()) return fmt::format("the schedule {} cuts stages further", plan->schedule.name);
    const Recompute mode = experiment.scenario.recompute == Recompute::Selective ? Recompute::Selective : Recompute::Full;
    for (std::size_t s = 0; s < stages.size(); ++s)
      plan->stages[s].recompute = recomputes(problem, stages[s]) == Recomputes::All ? mode : Recompute::None;
    candidate.schedule = plan->schedule.name;
    candidate.settings = {{"batch.microbatches", std::to_string(plan->microbatches)},
                          {"parallel.pipeline", std::to_string(plan->pipeline)},
                          {"parallel.tensor", std::to_string(plan->tensor)},
                          {"parallel.data", std::to_string(plan->data)}};
    const long long passes = 2LL * plan->pipeline * plan->microbatches * plan->data * plan->tensor;
    if (passes <= kMostPasses) {
      const Metrics figures = predict(experiment.scenario, *plan).metrics;
      candidate.metrics.emplace_back("step_time_s", figures.step_time_s);
      candidate.metrics.emplace_back("estimated_peak_memory_bytes", figures.peak_memory_bytes);
      candidate.metrics.emplace_back("fits", figures.fits ? 1 : 0);
      candidate.metrics.emplace_back("step_time_p10_s", figures.step_time_p10_s);
      candidate.metrics.emplace_back("step_time_p50_s", figures.step_time_p50_s);
      candidate.metrics.emplace_back("step_time_p90_s", figures.step_time_p90_s);
      candidate.evidence = figures.evidence;
    }
    candidate.plan = std::move(plan);
  } catch (const InputError& error) {
    return error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    return error.what();
  }
  return "";
}

}  // namespace panpipe::planner::piper
