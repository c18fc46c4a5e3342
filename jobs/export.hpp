// Answers out: a plan in the words of another trainer, with a list of what that trainer has no words for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/prediction/experiment.hpp"

namespace panpipe::jobs {

struct ExportRequest {
  const Experiment& experiment;
  const Plan& plan;
  std::string scenario;   // as the user named it
  std::string plan_file;  // empty: the scenario's own plan
  std::string file;       // that is written; empty: standard output
};

struct ExportedJob {
  std::string text;
  std::vector<std::string> cannot;   // phrases behind "cannot express"
  std::vector<std::string> said;     // keys besides the usual ones that the text says
  bool places_ranks = false;         // the text says how ranks are numbered over the devices
  std::vector<std::string> besides;  // what else a user must know or do, a sentence each
  std::string schedule_csv;          // for the file beside it (csv_beside); empty: none is needed
};

// A trainer that plans can be written for, and what it can run: `panpipe plan --for` searches no further.
struct Trainer {
  std::string_view name;   // "megatron"
  std::string_view title;  // "Megatron-LM"
  std::vector<std::string_view> schedules;
  bool whole_layers = true;            // stages begin and end between layers
  bool tensor = true;                  // has tensor parallelism, context parallelism and experts over ranks
  bool sequence_with_experts = false;  // trains experts beside tensor parallelism with sequence parallelism only
  bool pipeline_next = false;          // numbers the ranks of a replica side by side where it is asked to
  std::vector<int> zero;               // stages of ZeRO that it has
  std::vector<Recompute> recompute;
  // Throws InputError where the trainer can run nothing like the plan.
  ExportedJob (*write)(const ExportRequest& request);
};
const std::vector<Trainer>& trainers();
// InputError with a suggestion where there is none of that name.
const Trainer& trainer_named(const std::string& name);

// InputError where the trainer does not have the plan's schedule or degrees.
ExportedJob export_job(const Trainer& trainer, const ExportRequest& request);

// "job.csv" of "job.toml".
std::string csv_beside(const std::string& file);

// The trainers, each in a file of its own.
ExportedJob export_megatron(const ExportRequest& request);
ExportedJob export_torchtitan(const ExportRequest& request);
ExportedJob export_deepspeed(const ExportRequest& request);
ExportedJob export_torch(const ExportRequest& request);

}  // namespace panpipe::jobs
