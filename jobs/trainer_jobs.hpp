// The trainers whose jobs are read or written, one row each. What they can run is in scenarios/trainers/
// (costmodel/scenario/trainer.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jobs/edit/base_job.hpp"
#include "jobs/export.hpp"
#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// How a trainer's job is read. Without `read` it is not.
struct Importer {
  std::string_view what = {};   // "the arguments of a Megatron-LM job"
  std::string_view file = {};   // the contents of its file
  std::string_view gpus = {};   // origin of the number of GPUs without --gpus
  std::string_view model = {};  // the part of --model in a job, for help; empty: a job always states its model
  std::string_view notes = {};  // a last line of help
  bool vocabulary = false, overrides = false, script = false;  // uses these options
  ImportedJob (*read)(const std::string& text, const std::string& name, const JobOptions& options) = nullptr;
};

struct TrainerJobs {
  std::string_view name;  // "megatron-core", as in scenarios/trainers/
  Importer importer = {};
  // Throws InputError if the trainer can run nothing like the plan. null: nothing is exported.
  ExportedJob (*write)(const ExportRequest& request) = nullptr;
  // The ways in which a job that the importer reads is edited into a plan, the best first. null: no job is edited.
  std::vector<EditAttempt> (*edit)(const EditRequest& request) = nullptr;
};
const std::vector<TrainerJobs>& trainer_jobs();

// The readers and writers of the table that are nobody else's, each in its trainer's folder. Readers throw InputError with places
// for invalid values and for degrees that do not divide the GPUs. Accelerate's file (YAML) holds neither model nor batch.
ImportedJob import_accelerate(const std::string& text, const std::string& name, const JobOptions& options);
ImportedJob import_huggingface(const std::string& text, const std::string& name, const JobOptions& options);  // or a capture
ImportedJob import_nanotron(const std::string& text, const std::string& name, const JobOptions& options);     // YAML
// TOML until February 2026, then Python; also a capture. Throws for unknown flavors, too.
ImportedJob import_torchtitan(const std::string& text, const std::string& name, const JobOptions& options);
ExportedJob export_accelerate(const ExportRequest& request);   // what `accelerate launch --config_file` takes
ExportedJob export_huggingface(const ExportRequest& request);  // a file of TrainingArguments
ExportedJob export_torch(const ExportRequest& request);        // a script for torch.distributed.pipelining
ExportedJob export_torchtitan(const ExportRequest& request);

// By name or alias. Throw InputError for an unknown word, and for a trainer that has no such side.
const Importer& importer_named(const std::string& trainer);
const TrainerJobs& exporter_named(const std::string& trainer);
const TrainerJobs& editor_named(const std::string& trainer);

}  // namespace panpipe::jobs
