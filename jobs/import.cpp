#include "jobs/import.hpp"

#include <filesystem>
#include <string_view>

#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "jobs/captured/captured.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

// Whether a text has the key `panpipe`, with which every scenario begins. Jobs that are no YAML are never parsed for it.
bool has_scenario_key(std::string_view text) {
  constexpr std::string_view kKey = "panpipe", kQuotes = "\"'";
  for (std::size_t at = text.find(kKey); at != std::string_view::npos; at = text.find(kKey, at + 1)) {
    std::string_view before = text.substr(0, at), after = text.substr(at + kKey.size());
    if (!before.empty() && kQuotes.find(before.back()) != std::string_view::npos) before.remove_suffix(1);
    if (!after.empty() && kQuotes.find(after.front()) != std::string_view::npos) after.remove_prefix(1);
    const std::size_t last = before.find_last_not_of(" \t"), next = after.find_first_not_of(" \t");
    const bool begins = last == std::string_view::npos || std::string_view("\n{,").find(before[last]) != std::string_view::npos;
    if (begins && next != std::string_view::npos && after[next] == ':') return true;
  }
  return false;
}

}  // namespace

bool is_job(const std::string& file, const std::string& trainer) {
  if (trainer.empty() || !std::filesystem::exists(file) || std::filesystem::is_directory(file)) return false;
  const std::string text = read_text_file(file);
  return is_captured(text) || !has_scenario_key(text);
}

ImportedJob import_job(const std::string& trainer, const std::string& file, const JobOptions& options) {
  const Importer& importer = importer_named(trainer);
  if (file == "/dev/stdin") return importer.read(read_text_file(file), "standard input", options);
  return importer.read(read_text_file(file), file, with_folder_of(file, options));
}

JobOptions with_folder_of(const std::string& file, JobOptions options) {
  options.script.folder = std::filesystem::absolute(file).parent_path().string();
  return options;
}

std::string add_assumptions_of_model(ImportedJob& job, const std::string& output) {
  const std::string folder = output.empty() ? "." : std::filesystem::absolute(output).parent_path().string();
  try {
    const Scenario scenario = parse_scenario(scenario_text(job), output.empty() ? "the scenario" : output, folder);
    for (const std::string& assumption : assumptions_of(scenario.workload)) job.assumptions.push_back(assumption + ".");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace panpipe::jobs
