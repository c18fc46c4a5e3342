#include "cli/predict.hpp"

#include <fmt/format.h>
#include <sha256.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/output.hpp"
#include "cli/version.hpp"
#include "costmodel/timeline/result.hpp"

namespace panpipe::cli {
namespace {

namespace fs = std::filesystem;

std::string sha256_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string bytes = content.str();
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), digest);
  return digest;
}

// Those that take part in a prediction and whose versions are known here; fmt prints the numbers.
std::vector<std::pair<std::string, std::string>> libraries() {
  std::vector<std::pair<std::string, std::string>> used = {
      {"CLI11", CLI11_VERSION},
      {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)}};
#ifdef PANPIPE_SIMGRID_VERSION
  used.emplace_back("simgrid", PANPIPE_SIMGRID_VERSION);
#endif
  return used;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw MachineError("cannot make the folder " + folder + ": " + error.message() + "; choose another with -o");
}

}  // namespace

void add_scenario_options(CLI::App& sub, std::string& scenario, std::vector<std::string>& overrides) {
  sub.add_option("SCENARIO", scenario, "scenario file (YAML)")->required();
  sub.add_option("--set", overrides, "override a key: --set batch.micro=4 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_predict_options(CLI::App& sub, PredictOptions& options) {
  add_scenario_options(sub, options.scenario, options.overrides);
  sub.add_option("--plan", options.plan, "take partition, placement and schedule from a plan file")->type_name("FILE");
  sub.add_option("-o", options.output, "write result.json, trace.json, scenario.yaml, plan.yaml and report.txt into this folder")
      ->type_name("DIR");
  sub.add_flag("--json", options.json, "print the result document instead of the table");
  sub.add_flag("--timeline", options.timeline, "with --json: include every span");
}

Experiment::Experiment(Scenario loaded)
    : scenario(std::move(loaded)), workload(make_workload(scenario)), model(scenario, workload) {}

Plan Experiment::plan(const std::string& file) const {
  return file.empty() ? make_plan(scenario, model) : load_plan(file, scenario, model);
}

void present(const Experiment& experiment, const Plan& plan, const Timeline& timeline, const PredictOptions& options,
             const FilesRead& files, const std::string& notes, double wall_s) {
  const Metrics figures = metrics(timeline);
  ResultContext context;
  context.version = kVersion;
  context.scenario = options.scenario;
  for (const std::string& path : files.paths()) context.hashes.emplace_back(path, sha256_of(path));
  context.libraries = libraries();
  context.seed = experiment.scenario.seed;
  context.wall_s = wall_s;
  if (options.json) {
    print(to_result_json(timeline, figures, context, options.timeline));
  } else {
    print(to_table(timeline, figures, color_wanted()) + notes);
  }
  if (options.output.empty()) return;
  make_folder(options.output);
  const auto write = [&](const char* name, const std::string& text) {
    write_file((fs::path(options.output) / name).string(), text, "choose another folder with -o");
  };
  write("result.json", to_result_json(timeline, figures, context, true));
  write("trace.json", to_trace_json(timeline) + "\n");
  write("scenario.yaml", resolved_text(experiment.scenario));
  const int type = experiment.scenario.cluster.devices.front().type;
  write("plan.yaml", to_yaml(plan, experiment.model.workload(type)));
  write("report.txt", to_table(timeline, figures, false) + notes);
  std::fputs(("written to " + options.output +
              ": result.json, trace.json (open it at ui.perfetto.dev), scenario.yaml, plan.yaml, report.txt\n")
                 .c_str(),
             stderr);
}

}  // namespace panpipe::cli
