// plan: the best plan for a scenario's model on its cluster.
#include <vector>

#include "app/plan_question.hpp"
#include "base/error.hpp"
#include "costmodel/scenario/resolve_document.hpp"
#include "planner/answer_text.hpp"
#include "present/result/heading.hpp"
#include "web/engine/call.hpp"

namespace panpipe::web {
namespace {

app::SearchRequest request_of(const Call& call) {
  app::SearchRequest request;
  request.method = call.text("method", request.method);
  request.objective = call.text("objective");
  request.trainer = call.text("trainer");
  request.threads = 1;
  request.candidates = static_cast<std::size_t>(call.number("candidates", static_cast<int>(request.candidates)));
  request.open = call.truth("open");
  app::check_search_request(request);
  return request;
}

Json settings_of(const planner::Candidate& candidate) {
  Json settings = Json::array();
  for (const auto& [key, value] : candidate.settings) settings.push_back(key + "=" + value);
  return settings;
}

}  // namespace

Answer answer_plan(const Call& call) {
  const app::SearchRequest request = request_of(call);
  const std::string name = call.name();
  const app::PlanQuestion question([&] { return scenario_document(name); }, name, call.settings(), request);
  const Experiment experiment(question.searched());
  planner::SearchOptions options = app::search_options_of(request);
  options.progress = [](const planner::SearchState& state) {
    report_progress(
        {{"evaluated", state.evaluated}, {"excluded", state.pruned}, {"best", state.best}, {"bound", state.lower_bound}});
  };
  planner::Answer answer = question.answer(experiment, options);
  app::add_assumptions(answer, experiment);
  Json settings = Json::array();
  for (const planner::Candidate& candidate : answer.candidates) settings.push_back(settings_of(candidate));
  Answer made;
  made.add_json("document", planner::to_json(answer));
  made.add("text", present::heading_of_search(experiment.scenario, experiment.workload) + planner::to_summary(answer, {}));
  made.add("settings", settings).add("kept", question.kept(experiment.scenario));
  made.add("exit", static_cast<int>(answer.candidates.empty() ? ExitCode::CheckFailed : ExitCode::Done));
  if (const auto plan = app::plan_file_of(answer, experiment)) made.add("plan", plan->yaml).add("plan_of", plan->candidate);
  return made;
}

}  // namespace panpipe::web
