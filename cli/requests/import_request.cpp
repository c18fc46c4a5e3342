#include "cli/requests/import_request.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "jobs/accelerate_import.hpp"
#include "jobs/deepspeed_import.hpp"
#include "jobs/megatron_import.hpp"
#include "jobs/nanotron_import.hpp"
#include "jobs/torchtitan_import.hpp"

namespace panpipe::cli {

jobs::ImportedJob import_job(const ImportRequest& request) {
  using Import = jobs::ImportedJob (*)(const ImportRequest&, const std::string& text, const std::string& name);
  static const std::vector<std::pair<std::string, Import>> importers = {
      {"megatron",
       [](const ImportRequest& r, const std::string& text, const std::string& name) {
         return jobs::import_megatron(text, name, {r.job.cluster, r.job.gpus, r.vocabulary});
       }},
      {"deepspeed", [](const ImportRequest& r, const std::string& text,
                       const std::string& name) { return jobs::import_deepspeed(text, name, r.job); }},
      {"accelerate", [](const ImportRequest& r, const std::string& text,
                        const std::string& name) { return jobs::import_accelerate(text, name, r.job); }},
      {"nanotron", [](const ImportRequest& r, const std::string& text,
                      const std::string& name) { return jobs::import_nanotron(text, name, r.job); }},
      {"torchtitan", [](const ImportRequest& r, const std::string& text,
                        const std::string& name) { return jobs::import_torchtitan(text, name, r.overrides, r.job); }},
  };
  std::vector<std::string> names;
  for (const auto& [name, import] : importers) {
    if (name == request.trainer)
      return import(request, read_text_file(request.file), request.file == "/dev/stdin" ? "standard input" : request.file);
    names.push_back(name);
  }
  throw InputError(fmt::format("there is no import of '{}'{}", request.trainer, suggestion_or_list(request.trainer, names)));
}

std::string add_assumptions_of_model(jobs::ImportedJob& job, const std::string& output) {
  const std::string folder = output.empty() ? "." : std::filesystem::absolute(output).parent_path().string();
  try {
    const Scenario scenario = parse_scenario(jobs::scenario_text(job), output.empty() ? "the scenario" : output, folder);
    for (const std::string& assumption : assumptions_of(scenario.workload)) job.assumptions.push_back(assumption + ".");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace panpipe::cli
