#include "jobs/import.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "jobs/accelerate/import.hpp"
#include "jobs/deepspeed/import.hpp"
#include "jobs/megatron/import.hpp"
#include "jobs/nanotron/import.hpp"
#include "jobs/torchtitan/import.hpp"

namespace panpipe::jobs {

const std::vector<Importer>& importers() {
  constexpr std::string_view kNoModel = "; the configuration holds none";
  static const std::vector<Importer> table = {
      {.name = "megatron",
       .what = "the arguments of a Megatron-LM job",
       .file = "the arguments as a shell would pass them",
       .gpus = "the launcher's arguments",
       .vocabulary = true,
       .read = import_megatron},
      {.name = "deepspeed",
       .what = "a configuration of DeepSpeed",
       .file = "ds_config.json",
       .gpus = "one node",
       .model = kNoModel,
       .read = import_deepspeed},
      {.name = "accelerate",
       .what = "a configuration of Hugging Face Accelerate",
       .file = "what `accelerate config` writes",
       .gpus = "num_processes",
       .model = kNoModel,
       .read = import_accelerate},
      {.name = "nanotron",
       .what = "a configuration of nanotron",
       .file = "the configuration that run_train.py takes",
       .gpus = "the product of the degrees",
       .model = " instead of the configuration's",
       .read = import_nanotron},
      {.name = "torchtitan",
       .what = "a configuration of torchtitan",
       .file = "the TOML file (releases until February 2026)",
       .gpus = "the product of the degrees, or one node",
       .model = " instead of the flavor's",
       .notes = "Behind the file stand overrides as torchtitan takes them: --parallelism.tensor_parallel_degree 2.",
       .overrides = true,
       .read = import_torchtitan},
  };
  return table;
}

ImportedJob import_job(const std::string& trainer, const std::string& file, const JobOptions& options) {
  std::vector<std::string> names;
  for (const Importer& importer : importers()) {
    if (importer.name == trainer)
      return importer.read(read_text_file(file), file == "/dev/stdin" ? "standard input" : file, options);
    names.emplace_back(importer.name);
  }
  throw InputError(fmt::format("there is no import of '{}'{}", trainer, suggestion_or_list(trainer, names)), "",
                   code::kUnknownName);
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
