#include "app/import_log.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "app/log_and_job.hpp"
#include "base/error.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/yaml_document.hpp"
#include "base/option_fault.hpp"
#include "costmodel/prediction/estimated_step.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "validation/runs/csv_table.hpp"
#include "validation/runs/run_prediction.hpp"

namespace panpipe::app {
namespace {

namespace fs = std::filesystem;

// The job that the log states; what is missing for it goes to `open`.
void read_job(const LogRequest& request, LogAnswer& answer) {
  try {
    answer.job = jobs::import_stated_job(answer.log, request.job);
  } catch (const InputError& error) {
    for (const Diagnostic& each : error.diagnostics()) answer.open.push_back({each.message, option_of(each)});
    return;
  }
  const std::string fault = jobs::add_assumptions_of_model(*answer.job, request.output);
  answer.scenario = jobs::scenario_text(*answer.job);
  if (!fault.empty()) answer.open.push_back({"the scenario of the log does not load: " + fault, "job"});
  if (request.job.cluster.empty()) answer.open.push_back({"the log does not state the machine", "cluster"});
}

void plan_given_job(const LogRequest& request, LogAnswer& answer) {
  answer.planned = plan_scenario(
      request.scenario, [&] { return load_scenario(request.scenario, request.overrides); }, "");
}

void plan_logged_job(const LogRequest& request, LogAnswer& answer) {
  read_job(request, answer);
  if (!answer.open.empty()) return;
  const std::string folder = request.output.empty() ? "." : fs::absolute(request.output).parent_path().string();
  const std::string name = request.output.empty() ? request.file : request.output;
  try {
    answer.planned = plan_scenario(
        name, [&] { return parse_scenario(answer.scenario, name, folder); }, "");
  } catch (const NoAnswer& error) {
    answer.open.push_back({error.what(), ""});
  }
}

}  // namespace

std::vector<std::string> LogAnswer::contradictions() const {
  std::vector<std::string> found = {other_job, other_trainer};
  std::erase(found, "");
  return found;
}

LogAnswer import_log(const LogRequest& request) {
  LogAnswer answer;
  answer.scenario_file = request.scenario.empty() ? request.output : request.scenario;
  const bool given = !request.scenario.empty();
  if (given) plan_given_job(request, answer);
  answer.log = jobs::read_training_log(
      request.file, request.run, given ? job_size(answer.planned->experiment.scenario, answer.planned->plan) : jobs::JobSize{});
  if (!given) plan_logged_job(request, answer);
  if (!answer.planned) return answer;
  const PlannedScenario& planned = *answer.planned;
  const Scenario& scenario = planned.experiment.scenario;
  answer.other_job = other_job(answer.log, scenario, planned.plan);
  answer.other_trainer = other_trainer(answer.log, scenario);
  EstimatedStep step = estimated_step(planned.graph, scenario, planned.plan);
  LoggedPrediction& predicted = answer.predicted.emplace();
  predicted.terms = terms_of(planned.graph, step.metrics, step.metrics.step_time_s);
  const jobs::PeakKind kind = answer.log.run.peak_kind;
  predicted.peak_bytes =
      validation::peak_of_kind(step.metrics, kind == jobs::PeakKind::None ? "device" : std::string(name_of(kind)));
  predicted.metrics = std::move(step.metrics);
  predicted.traits = std::move(step.traits);
  return answer;
}

std::string table_with_row(const LogAnswer& answer, const std::string& file) {
  const validation::RunRow row = row_of(answer, file);
  if (!fs::exists(file)) return run_csv(row);
  const validation::CsvTable table = validation::load_csv(file);
  read_runs(table, file);  // it is a table of runs
  forget_input(file);
  return csv_with_row(table, row);
}

}  // namespace panpipe::app
