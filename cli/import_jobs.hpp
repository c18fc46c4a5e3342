// panpipe import TRAINER: turns jobs of other trainers into scenarios.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace panpipe::cli {

void add_job_imports(CLI::App& sub, std::function<int()>& run);

// The spelling of a file from the command line inside the file `output`: names of shipped files stay, paths become relative to
// the output's folder.
std::string reference_from(const std::string& output, const std::string& file);

}  // namespace panpipe::cli
