// The options of `panpipe run`, the same for the command line and for panpipe-exec.
#pragma once

#include <string>
#include <vector>

#include "exec/launch/run_request.hpp"

namespace CLI {
class App;
}

namespace panpipe::exec {

void add_run_options(CLI::App& app, RunRequest& request);

// What CLI11 cannot say: values out of range, options that contradict each other, folders that are not there. InputError.
void check_run_options(const RunRequest& request);

// Of check_run_options, to be asked again once the inputs are known: none of them is overwritten.
void check_run_outputs(const RunRequest& request);

// Those of --set, and what other options say of the scenario (--pretrained).
std::vector<std::string> all_overrides(const RunRequest& request);

// The words that add_run_options() reads back as this request.
std::vector<std::string> to_arguments(const RunRequest& request);

}  // namespace panpipe::exec
