// An owner's job with another plan: what the plan decides is changed in its text, and every other byte stays.
#pragma once

#include <string>
#include <vector>

#include "jobs/edit/document_edits.hpp"
#include "jobs/export.hpp"
#include "jobs/job_options.hpp"

namespace panpipe::jobs {

struct BaseJob {
  std::string text;
  std::string name;  // the file, as named in messages and in the difference
  JobOptions options = {};
};

// What an editor of one trainer's jobs is given: both plans, of the same scenario.
struct EditRequest {
  const BaseJob& base;
  const ImportedJob& job;       // the base, as it is read
  const ExportRequest& before;  // the base's own plan
  const ExportRequest& after;
};

// One way to edit the base.
struct EditAttempt {
  TextEdits edits;
  std::vector<std::string> by_hand = {};  // what cannot be edited: "line 7: write ..."
  std::vector<std::string> options = {};  // arguments that the plan decides, though the importer reads no part of a plan in them
  std::string other_cuts = {};  // what cuts the trainer makes by itself instead of the plan's; empty: it takes the plan's
};

// The base, a document of which `root` is the tree, with these settings.
EditAttempt document_attempt(const BaseJob& base, const Node& root, DocumentForm form, const std::vector<Setting>& settings);

struct EditedJob {
  std::string text;
  std::string difference;                // unified diff; empty if the plan is the base's own
  std::vector<std::string> cannot = {};  // as in ExportedJob
};

// The editors, one a trainer.
std::vector<EditAttempt> edit_megatron(const EditRequest& request);
std::vector<EditAttempt> edit_torchtitan(const EditRequest& request);
std::vector<EditAttempt> edit_deepspeed(const EditRequest& request);
std::vector<EditAttempt> edit_nanotron(const EditRequest& request);
std::vector<EditAttempt> edit_huggingface(const EditRequest& request);

// Throws InputError if the base is another model's or another number of GPUs, if it cannot be edited, and if the edited job, read
// again, would not be the plan.
EditedJob edit_job(const std::string& trainer, const ExportRequest& request, const BaseJob& base);

}  // namespace panpipe::jobs
