#include "present/result/result_files.hpp"

#include <filesystem>

#include "base/files/file_hash.hpp"
#include "base/files/files_write.hpp"
#include "base/version.hpp"
#include "present/picture/timeline_picture.hpp"
#include "present/result/describe_plan.hpp"

namespace panpipe {
namespace {
namespace fs = std::filesystem;

constexpr const char* kAdvice = "choose another folder with -o";

}  // namespace

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

std::string write_results(const Experiment& experiment, const Plan& plan, const Timeline& timeline, const Metrics& figures,
                          const ResultContext& context, const std::string& notes, const std::string& folder) {
  check_result_files(folder);
  make_folder(folder, kAdvice);
  const auto write = [&](const char* name, const std::string& text) {
    write_file((fs::path(folder) / name).string(), text, kAdvice);
  };
  const ResultPlan described = describe_plan(experiment, plan, timeline);
  write("result.json", to_result_json(timeline, figures, context, described, true));
  write("trace.json", to_trace_json(timeline) + "\n");
  write("scenario.yaml", resolved_text(experiment.scenario));
  write("plan.yaml", to_yaml(plan, experiment.model.units(experiment.scenario.cluster.devices.front().type)));
  write("report.txt", result_text(experiment, timeline, figures, described, {}) + notes);
  write("schedule.svg", to_svg(picture_of(timeline, fs::path(context.scenario).stem().string())));
  return "written to " + folder +
         ": result.json, trace.json (open it at ui.perfetto.dev), scenario.yaml, plan.yaml, report.txt, schedule.svg\n";
}

}  // namespace panpipe
