#include "present/result/result_files.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/files/file_hash.hpp"
#include "base/files/files_write.hpp"
#include "base/text/quantity_text.hpp"
#include "base/version.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "present/picture/timeline_picture.hpp"
#include "present/result/describe_plan.hpp"

namespace panpipe::present {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t kBytesOfSpan = 500;  // in both documents
constexpr const char* kAdvice = "choose another folder with -o";

}  // namespace

std::vector<std::pair<std::string, std::string>> hashes_of(const FilesRead& files) {
  std::vector<std::pair<std::string, std::string>> hashes;
  for (const std::string& path : files.paths()) hashes.emplace_back(path, sha256_of_file(path));
  return hashes;
}

ResultContext result_context(const Experiment& experiment, const std::string& scenario_file,
                             std::vector<std::pair<std::string, std::string>> hashes,
                             std::vector<std::pair<std::string, std::string>> libraries, double wall_s) {
  ResultContext context;
  context.version = kVersion;
  context.scenario = scenario_file;
  context.hashes = std::move(hashes);
  context.libraries = std::move(libraries);
  context.seed = experiment.scenario.seed;
  context.assumed = assumptions_of(experiment.scenario.workload);
  context.trainer = experiment.scenario.trainer;
  context.wall_s = wall_s;
  return context;
}

void check_result_files(const std::string& folder) {
  check_outputs(folder, {"result.json", "trace.json", "scenario.yaml", "plan.yaml", "report.txt", "schedule.svg"}, kAdvice);
}

std::string write_results(const Experiment& experiment, const Plan& plan, const Timeline& timeline, const Metrics& figures,
                          const ResultContext& context, const std::string& notes, const std::string& folder, bool all_spans) {
  check_result_files(folder);
  make_folder(folder, kAdvice);
  const auto write = [&](const char* name, const std::string& text) {
    write_file((fs::path(folder) / name).string(), text, kAdvice);
  };
  const ResultPlan described = describe_plan(experiment, plan, timeline);
  const bool with_spans = all_spans || timeline.spans.size() <= kMostSpans;
  write("result.json", to_result_json(timeline, figures, context, described, with_spans));
  std::error_code none;  // of an earlier step there may be one
  if (with_spans)
    write("trace.json", to_trace_json(timeline) + "\n");
  else
    fs::remove(fs::path(folder) / "trace.json", none);
  write("scenario.yaml", resolved_text(experiment.scenario));
  write("plan.yaml", to_yaml(plan, experiment.model.units(experiment.scenario.cluster.devices.front().type)));
  write("report.txt", result_text(experiment, timeline, figures, described, {}) + notes);
  write("schedule.svg", to_svg(picture_of(timeline, fs::path(context.scenario).stem().string())));
  if (with_spans)
    return "written to " + folder +
           ": result.json, trace.json (open it at ui.perfetto.dev), scenario.yaml, plan.yaml, report.txt, schedule.svg\n";
  return fmt::format(
      "written to {}: result.json, scenario.yaml, plan.yaml, report.txt, schedule.svg\n"
      "note: the step has {} spans, more than {}: result.json is without them and trace.json is not written; --all-spans writes "
      "both, about {}\n",
      folder, timeline.spans.size(), kMostSpans, to_text(Bytes(static_cast<std::int64_t>(timeline.spans.size()) * kBytesOfSpan)));
}

}  // namespace panpipe::present
