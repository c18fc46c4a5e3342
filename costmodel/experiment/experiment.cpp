#include "costmodel/experiment/experiment.hpp"

#include <algorithm>
#include <filesystem>

#include "costmodel/base/error.hpp"
#include "costmodel/base/file_hash.hpp"
#include "costmodel/base/files_write.hpp"
#include "costmodel/experiment/describe_plan.hpp"
#include "costmodel/experiment/result_files.hpp"
#include "costmodel/picture/timeline_picture.hpp"
#include "costmodel/workload/movable_units.hpp"

namespace panpipe {
namespace {
namespace fs = std::filesystem;

constexpr const char* kAdvice = "choose another folder with -o";

// A cut that is stated inside a unit: why not there. What names nothing at all is found when the plan is made.
void check_stated_cuts(const Scenario& scenario, const OperatorGraph& graph) {
  for (const std::string& place : scenario.partition) {
    const auto is_unit = [&](const UnitInfo& unit) { return unit.name == place || unit.name.starts_with(place + "."); };
    if (std::any_of(graph.units.begin(), graph.units.end(), is_unit)) continue;
    if (const std::string why = why_no_cut(graph, place); !why.empty())
      throw placed(InputError("partition: " + why), scenario, "partition");
  }
}

}  // namespace

const char* const kVersion = PANPIPE_VERSION;

Experiment::Experiment(Scenario loaded)
    : scenario(std::move(loaded)), workload(make_workload(scenario)), model(scenario, workload) {
  if (workload.graph) check_stated_cuts(scenario, *workload.graph);
}

Experiment::Experiment(Scenario loaded, std::vector<Calibration> calibrations)
    : scenario(std::move(loaded)), workload(make_workload(scenario)), model(scenario, workload, std::move(calibrations)) {}

Plan Experiment::plan(const std::string& file) const {
  return file.empty() ? make_plan(scenario, model) : load_plan(file, scenario, model);
}

ResultContext result_context(const Experiment& experiment, const std::string& scenario_file, const FilesRead& files,
                             std::vector<std::pair<std::string, std::string>> libraries, double wall_s) {
  ResultContext context;
  context.version = kVersion;
  context.scenario = scenario_file;
  for (const std::string& path : files.paths()) context.hashes.emplace_back(path, sha256_of_file(path));
  context.libraries = std::move(libraries);
  context.seed = experiment.scenario.seed;
  context.wall_s = wall_s;
  return context;
}

void check_result_files(const std::string& folder) {
  check_outputs(folder, {"result.json", "trace.json", "scenario.yaml", "plan.yaml", "report.txt", "schedule.svg"}, kAdvice);
}

std::string write_results(const Experiment& experiment, const Plan& plan, const Timeline& timeline, const ResultContext& context,
                          const std::string& notes, const std::string& folder) {
  check_result_files(folder);
  make_folder(folder, kAdvice);
  const auto write = [&](const char* name, const std::string& text) {
    write_file((fs::path(folder) / name).string(), text, kAdvice);
  };
  const Metrics figures = metrics(timeline);
  const ResultPlan described = describe_plan(experiment, plan, timeline);
  write("result.json", to_result_json(timeline, figures, context, described, true));
  write("trace.json", to_trace_json(timeline) + "\n");
  write("scenario.yaml", resolved_text(experiment.scenario));
  write("plan.yaml", to_yaml(plan, experiment.model.units(experiment.scenario.cluster.devices.front().type),
                             settings_of(experiment.scenario)));
  write("report.txt", result_text(experiment, timeline, figures, described, {}) + notes);
  write("schedule.svg", to_svg(picture_of(timeline, fs::path(context.scenario).stem().string())));
  return "written to " + folder +
         ": result.json, trace.json (open it at ui.perfetto.dev), scenario.yaml, plan.yaml, report.txt, schedule.svg\n";
}

}  // namespace panpipe
