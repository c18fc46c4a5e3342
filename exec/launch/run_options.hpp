// The options of `panpipe run`, shared by the command line and panpipe-exec.
#pragma once

#include <string>
#include <vector>

#include "exec/launch/run_request.hpp"

namespace CLI {
class App;
}

namespace panpipe::exec {

void add_run_options(CLI::App& app, RunRequest& request);

// Checks beyond CLI11's: values out of range, contradictory options, missing folders. Throws InputError.
void check_run_options(const RunRequest& request);

// The part of check_run_options to repeat once the inputs are known: no output may overwrite an input.
void check_run_outputs(const RunRequest& request);

// The overrides of --set, and those implied by other options (--pretrained).
std::vector<std::string> all_overrides(const RunRequest& request);

// Arguments that add_run_options() parses back to this request.
std::vector<std::string> to_arguments(const RunRequest& request);

}  // namespace panpipe::exec
