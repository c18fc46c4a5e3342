// panpipe import log: a training log as a scenario and a measured run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "app/import_log.hpp"

namespace panpipe::cli {

void add_log_import(CLI::App& sub, std::function<int()>& run);

// The options for what a log does not state; `scenario`: the name of the option for a scenario of the job.
void add_job_of_log(CLI::App& sub, app::LogRequest& request, const char* scenario);

}  // namespace panpipe::cli
