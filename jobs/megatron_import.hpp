// Arguments of Megatron-LM's pretrain_*.py as a scenario.
#pragma once

#include <optional>
#include <string>

#include "jobs/job.hpp"

namespace panpipe::jobs {

struct MegatronOptions {
  std::string cluster = {};            // file or shipped name; empty: nodes of eight H100
  std::optional<int> gpus = {};        // of the job; else what the launcher's arguments say
  std::optional<int> vocabulary = {};  // where the arguments do not state it
};

// `text` holds the arguments as a shell would pass them, with or without the launcher and the script. Throws InputError with
// places: values that are none, contradictory degrees, variables that only a shell knows.
ImportedJob import_megatron(const std::string& text, const std::string& name, const MegatronOptions& options);

}  // namespace panpipe::jobs
