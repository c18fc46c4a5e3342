// Exports a plan as a job of another trainer, with a list of properties that the trainer cannot express.
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
  std::string file;       // written file; empty: standard output
};

struct ExportedJob {
  std::string text;
  std::vector<std::string> cannot;   // phrases that follow "cannot express"
  std::vector<std::string> stated;   // keys, in addition to the usual ones, that the text states
  bool places_ranks = false;         // the text states how ranks are numbered over the devices
  std::vector<std::string> besides;  // further facts or steps for the user, one sentence each
  std::string schedule_csv;          // for the file next to it (order_file_of); empty: not needed
};

// A trainer that plans can be exported to, and its capabilities: `panpipe plan --for` searches only these.
struct Trainer {
  std::string_view name;   // "megatron"
  std::string_view title;  // "Megatron-LM"
  std::vector<std::string_view> schedules;
  bool whole_layers = true;            // stages begin and end between layers
  bool tensor = true;                  // supports tensor parallelism, context parallelism and experts over ranks
  bool sequence_with_experts = false;  // trains experts with tensor parallelism only under sequence parallelism
  bool any_order = false;              // runs an order without a name from a file
  bool pipeline_next = false;          // can number the ranks of a replica consecutively
  std::vector<int> zero;               // supported ZeRO stages
  std::vector<Recompute> recompute;
  // Throws InputError if the trainer can run nothing like the plan.
  ExportedJob (*write)(const ExportRequest& request);
};
const std::vector<Trainer>& trainers();
// Throws InputError with a suggestion for an unknown name.
const Trainer& trainer_named(const std::string& name);

// Throws InputError if the trainer does not support the plan's schedule or degrees, and for an order that needs a file next to
// the text while the text has no file.
ExportedJob export_job(const Trainer& trainer, const ExportRequest& request);

// "job.csv" for "job.toml".
std::string order_file_of(const std::string& file);

// The trainers, one file each.
ExportedJob export_megatron(const ExportRequest& request);
ExportedJob export_torchtitan(const ExportRequest& request);
ExportedJob export_deepspeed(const ExportRequest& request);
ExportedJob export_torch(const ExportRequest& request);

}  // namespace panpipe::jobs
