#include "planner/piper/planning_problem.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe::planner::piper {

const Choice& choice_of(const PlanningProblem& problem, const StageChoice& stage, std::size_t member) {
  const std::vector<Choice>& choices = choices_of(problem, stage, member);
  PANPIPE_CHECK(at(stage.choice[member]) < choices.size(), "a stage has a choice that its layer does not offer");
  return choices[stage.choice[member]];
}

namespace {

void evaluate_stage(const PlanningProblem& problem, const Incidence& edges, StageChoice& stage) {
  std::vector<bool> inside(problem.layers.size(), false);
  for (const int layer : stage.layers) inside[layer] = true;
  bool recomputes = false;
  double time = 0, bytes = 0, parameters = 0;
  stage.memory = 0;
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    const Choice& choice = choice_of(problem, stage, i);
    time += choice.time;
    parameters += choice.parameters;
    stage.memory += choice.in_flight * stage.in_flight + choice.fixed;
    recomputes |= choice.recompute;
    const std::vector<int>& into = edges.into[stage.layers[i]];
    for (std::size_t k = 0; k < into.size(); ++k)
      if (const Edge& edge = problem.edges[into[k]]; !inside[edge.from]) bytes += edge.bytes + extra(choice.receive, k);
    const std::vector<int>& out_of = edges.out_of[stage.layers[i]];
    for (std::size_t k = 0; k < out_of.size(); ++k)
      if (const Edge& edge = problem.edges[out_of[k]]; !inside[edge.to]) bytes += edge.bytes + extra(choice.send, k);
  }
  if (recomputes) stage.memory += problem.recompute_reserve;
  const double d = stage.data;
  stage.load =
      (time + 2 * bytes / problem.bandwidth) / d + 4 * (d - 1) / d * parameters / (problem.bandwidth * problem.microbatches);
}

}  // namespace

std::vector<int> data_degrees_of(const PlanningProblem& problem) {
  std::vector<int> degrees;
  const int most = std::min(problem.devices, problem.microbatches);
  for (int d = std::max(1, problem.least_data); d <= (problem.most_data > 0 ? std::min(most, problem.most_data) : most); ++d)
    if (problem.microbatches % d == 0) degrees.push_back(d);
  return degrees;
}

Incidence::Incidence(const PlanningProblem& problem) : into(problem.layers.size()), out_of(problem.layers.size()) {
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    into[problem.edges[e].to].push_back(static_cast<int>(e));
    out_of[problem.edges[e].from].push_back(static_cast<int>(e));
  }
}

double evaluate(const PlanningProblem& problem, std::vector<StageChoice>& stages) {
  const Incidence edges(problem);
  int replicas = 0;
  double slowest = 0;
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    replicas += stage->data;
    stage->in_flight = (replicas + stage->data - 1) / stage->data;
    evaluate_stage(problem, edges, *stage);
    slowest = std::max(slowest, stage->load);
  }
  return slowest;
}

double step_time(const PlanningProblem& problem, const std::vector<StageChoice>& stages) {
  double slowest = 0, sum = 0, longest = 0;
  for (const StageChoice& stage : stages) {
    slowest = std::max(slowest, stage.load);
    sum += stage.data * stage.load;
    longest = std::max(longest, stage.data * stage.load);
  }
  return problem.microbatches * slowest + sum - longest;
}

}  // namespace panpipe::planner::piper
