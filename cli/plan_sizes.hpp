// panpipe plan over sizes of a cluster: finds the best plan on each, and the number of GPUs that a deadline, a budget or an
// objective needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/plan_question.hpp"

namespace CLI {
class App;
}

namespace panpipe::cli {

void add_size_options(CLI::App& sub, app::SizeOptions& options);

// Prints the answer and returns the exit code. `keep` receives the best size's plan, if there is one, and a text about its size;
// it may be empty.
int run_sizes(const app::PlanQuestion& question, const app::Search& search, bool json,
              const std::function<void(const Experiment&, const planner::Answer&, const std::string& size)>& keep);

}  // namespace panpipe::cli
