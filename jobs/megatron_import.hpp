// Imports arguments of Megatron-LM's pretrain_*.py as a scenario.
#pragma once

#include <optional>
#include <string>

#include "jobs/job.hpp"

namespace panpipe::jobs {

struct MegatronOptions {
  std::string cluster = {};            // file or shipped name; empty: nodes of eight H100
  std::optional<int> gpus = {};        // of the job; else from the launcher's arguments
  std::optional<int> vocabulary = {};  // if the arguments do not state it
};

// `text` holds the arguments as passed by a shell, with or without the launcher and the script. Throws InputError with places for
// invalid values, contradictory degrees, and shell variables.
ImportedJob import_megatron(const std::string& text, const std::string& name, const MegatronOptions& options);

}  // namespace panpipe::jobs
