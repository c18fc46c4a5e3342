// What a plan decides of a Megatron-LM job, as the arguments that express it. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jobs/edit/command_edits.hpp"
#include "jobs/export.hpp"
#include "jobs/shell/arguments.hpp"

namespace panpipe::jobs {

// One decision. A job that decides it in another way has all of its arguments replaced.
struct MegatronDecision {
  std::string_view title;                   // "cuts of the pipeline"
  std::vector<std::string_view> options;    // the arguments that can express it
  std::string_view after;                   // the argument behind which new ones stand
  std::vector<std::string_view> with = {};  // arguments that it needs, and that a job may have for other reasons
};

struct MegatronChange {
  const MegatronDecision* decision = nullptr;
  std::vector<Argument> wanted;      // what expresses it in the plan
  std::vector<std::string> removed;  // arguments of the job that express it otherwise
};

// The decisions in which the two plans differ. `own` are the arguments of the job, whose way of stating stages is kept if it can
// express the plan.
std::vector<MegatronChange> megatron_changes(const ExportRequest& before, const ExportRequest& after, const Arguments& own);

}  // namespace panpipe::jobs
