// --largest of `panpipe estimate` and `panpipe plan`: their options, and the output of the answer.
#pragma once

#include "app/largest.hpp"

namespace CLI {
class App;
}

namespace panpipe::cli {

void add_largest_options(CLI::App& sub, app::LargestRequest& request);

// Throws InputError for devices without --largest.
void check_largest_options(const app::LargestRequest& request);

// Prints the answer and returns the exit code: 1 if no value fits on any of the devices.
int run_largest(const app::LargestRequest& request, const app::LargestSource& source, bool json);

}  // namespace panpipe::cli
