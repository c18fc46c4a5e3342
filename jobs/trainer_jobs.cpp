#include "jobs/trainer_jobs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "jobs/deepspeed/export.hpp"
#include "jobs/deepspeed/import.hpp"
#include "jobs/megatron/export.hpp"
#include "jobs/megatron/import.hpp"
#include "jobs/nanotron/export.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::string_view kNoModel = "; the configuration holds none";

// The row of a word that has the wanted side.
template <class Has>
const TrainerJobs& row_of(const std::string& word, const char* side, Has has) {
  const std::string name = trainer_name_of(word);
  std::vector<std::string_view> known;
  for (const TrainerJobs& row : trainer_jobs()) {
    if (!has(row)) continue;
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  throw InputError(fmt::format("{} has no {}", name, side), fmt::format("known: {}", fmt::join(known, ", ")), code::kUnknownName);
}

}  // namespace

const std::vector<TrainerJobs>& trainer_jobs() {
  static const std::vector<TrainerJobs> table = {
      {.name = "megatron-core",
       .importer = {.what = "a launch script or the arguments of a Megatron-LM job",
                    .file = "a launch script, or the arguments as a shell would pass them",
                    .gpus = "the launcher's arguments",
                    .notes = "A script is followed, and nothing in it is run. Behind the file stand the script's own arguments.",
                    .vocabulary = true,
                    .script = true,
                    .read = import_megatron},
       .write = export_megatron,
       .edit = edit_megatron},
      {.name = "deepspeed",
       .importer = {.what = "a configuration of DeepSpeed",
                    .file = "ds_config.json",
                    .gpus = "one node",
                    .model = kNoModel,
                    .read = import_deepspeed},
       .write = export_deepspeed,
       .edit = edit_deepspeed},
      {.name = "accelerate",
       .importer = {.what = "a configuration of Hugging Face Accelerate",
                    .file = "what `accelerate config` writes",
                    .gpus = "num_processes",
                    .model = kNoModel,
                    .read = import_accelerate},
       .write = export_accelerate},
      {.name = "huggingface",
       .importer = {.what = "the arguments of Hugging Face's Trainer",
                    .file = "what `python -m panpipe.capture huggingface` prints, or a file of TrainingArguments",
                    .gpus = "the captured ranks, or one node",
                    .model = "; a file of TrainingArguments holds none, a capture does",
                    .read = import_huggingface},
       .write = export_huggingface,
       .edit = edit_huggingface},
      {.name = "nemo",
       .importer = {.what = "a recipe of Megatron-Bridge",
                    .file = "what `python -m panpipe.capture nemo` prints",
                    .gpus = "the captured ranks, or one node",
                    .vocabulary = true,
                    .read = import_nemo}},
      {.name = "nanotron",
       .importer = {.what = "a configuration of nanotron",
                    .file = "the configuration that run_train.py takes",
                    .gpus = "the product of the degrees",
                    .model = " instead of the configuration's",
                    .read = import_nanotron},
       .write = export_nanotron,
       .edit = edit_nanotron},
      {.name = "torchtitan",
       .importer = {.what = "a configuration of torchtitan",
                    .file = "its TOML or Python file, or what `python -m panpipe.capture torchtitan` prints",
                    .gpus = "the product of the degrees, or one node",
                    .model = " instead of the flavor's",
                    .notes = "Behind the file stand overrides as torchtitan takes them: --parallelism.tensor_parallel_degree 2.",
                    .overrides = true,
                    .read = import_torchtitan},
       .write = export_torchtitan,
       .edit = edit_torchtitan},
      {.name = "torch", .write = export_torch},
  };
  return table;
}

const Importer& importer_named(const std::string& trainer) {
  return row_of(trainer, "import", [](const TrainerJobs& row) { return row.importer.read != nullptr; }).importer;
}

const TrainerJobs& exporter_named(const std::string& trainer) {
  return row_of(trainer, "export", [](const TrainerJobs& row) { return row.write != nullptr; });
}

const TrainerJobs& editor_named(const std::string& trainer) {
  return row_of(trainer, "export into a job of its own", [](const TrainerJobs& row) { return row.edit != nullptr; });
}

}  // namespace panpipe::jobs
