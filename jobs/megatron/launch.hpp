// The training commands of a Megatron-LM job's text: a launch script, or arguments alone.
#pragma once

#include <string>
#include <vector>

#include "jobs/job_options.hpp"
#include "jobs/shell/launch_script.hpp"

namespace panpipe::jobs {

struct MegatronLaunches {
  std::vector<Launch> launches;      // that differ, at least one
  std::vector<WrittenFile> written;  // files that the script writes
  int nodes = 0, gpus_per_node = 0;  // of #SBATCH lines; 0: not stated
  std::vector<std::string> remarks;
};

// Throws InputError as read_launch_script and shell_words do.
MegatronLaunches megatron_launches(const std::string& text, const std::string& name, const JobOptions& options);

}  // namespace panpipe::jobs
