// panpipe import log: a training log as a scenario and a measured run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace panpipe::cli {

void add_log_import(CLI::App& sub, std::function<int()>& run);

}  // namespace panpipe::cli
