#include "cli/predict.hpp"

#include <sha256.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

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

// Whole or not at all: written beside, then renamed.
void write_file(const fs::path& path, const std::string& text) {
  const fs::path beside = path.string() + ".part";
  errno = 0;
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file)
    throw MachineError("cannot write " + path.string() + ": " + std::strerror(errno ? errno : EIO) +
                       "; choose another folder with -o");
  std::error_code error;
  fs::rename(beside, path, error);
  if (error) throw MachineError("cannot write " + path.string() + ": " + error.message() + "; choose another folder with -o");
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
             double wall_s, const std::string& notes) {
  const Metrics figures = metrics(timeline);
  ResultContext context;
  context.version = kVersion;
  context.scenario = options.scenario;
  context.hashes.emplace_back(options.scenario, sha256_of(options.scenario));
  if (!options.plan.empty()) context.hashes.emplace_back(options.plan, sha256_of(options.plan));
  context.seed = experiment.scenario.seed;
  context.wall_s = wall_s;
  const bool color = !options.json && isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  if (options.json) {
    std::fputs((to_result_json(timeline, figures, context, options.timeline) + "\n").c_str(), stdout);
  } else {
    std::fputs((to_table(timeline, figures, color) + notes).c_str(), stdout);
  }
  if (options.output.empty()) return;
  make_folder(options.output);
  const fs::path folder = options.output;
  write_file(folder / "result.json", to_result_json(timeline, figures, context, true) + "\n");
  write_file(folder / "trace.json", to_trace_json(timeline) + "\n");
  write_file(folder / "scenario.yaml", resolved_text(experiment.scenario));
  const int type = experiment.scenario.cluster.devices.front().type;
  write_file(folder / "plan.yaml", to_yaml(plan, experiment.model.workload(type)));
  write_file(folder / "report.txt", to_table(timeline, figures, false) + notes);
  std::fputs(("written to " + options.output +
              ": result.json, trace.json (open it at ui.perfetto.dev), scenario.yaml, plan.yaml, report.txt\n")
                 .c_str(),
             stderr);
}

}  // namespace panpipe::cli
