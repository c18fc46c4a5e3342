// Exports a plan as a job of another trainer, with a list of properties that the trainer cannot express.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/prediction/experiment.hpp"
#include "jobs/job_options.hpp"

namespace panpipe::jobs {

struct ExportRequest {
  const Experiment& experiment;
  const Plan& plan;
  std::string scenario;          // as the user named it
  std::string plan_file;         // empty: the scenario's own plan
  std::string file;              // written file; empty: standard output
  std::string base = {};         // the owner's file, which only the plan changes; empty: a job of its own
  JobOptions base_options = {};  // what that file leaves open, as its import takes it
};

struct ExportedJob {
  std::string trainer;  // its title
  std::string text;
  std::vector<std::string> cannot;   // phrases that follow "cannot express"
  std::vector<std::string> stated;   // keys, in addition to the usual ones, that the text states
  bool places_ranks = false;         // the text states how ranks are numbered over the devices
  std::vector<std::string> besides;  // further facts or steps for the user, one sentence each
  std::string difference;            // of a base: the changes, as diff -u shows them; empty if there are none
  std::string schedule_csv;          // for the file next to it (order_file_of); empty: not needed
};

// By a trainer's name or alias. Throws InputError for a trainer to which nothing is exported, if it cannot run the plan's
// schedule or degrees, and for an order that needs a file next to the text while the text has no file.
ExportedJob export_job(const std::string& trainer, const ExportRequest& request);

// "job.csv" for "job.toml".
std::string order_file_of(const std::string& file);

}  // namespace panpipe::jobs
