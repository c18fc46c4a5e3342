// panpipe import megatron, deepspeed, accelerate, nanotron, torchtitan: jobs of other trainers as scenarios.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace panpipe::cli {

void add_job_imports(CLI::App& sub, std::function<int()>& run);

// A file that the command line names, as the file `output` must spell it: names of shipped files stay, paths are seen from the
// output's folder.
std::string reference_from(const std::string& output, const std::string& file);

}  // namespace panpipe::cli
