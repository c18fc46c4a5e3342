// panpipe plan over sizes of a cluster: finds the best plan on each, and the number of GPUs that a deadline, a budget or an
// objective needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/plan.hpp"

namespace CLI {
class App;
}

namespace panpipe::cli {

void add_size_options(CLI::App& sub, app::SizeOptions& options);

struct SizeCall {
  std::string scenario;                                                // its name
  std::function<Scenario(const std::vector<std::string>& more)> load;  // `more`: overrides in addition to its own
  bool json = false;
  std::function<planner::Answer(const Experiment&, const app::SearchRequest&)> search;
  // Receives the best size's plan, if there is one, and a text about its size.
  std::function<void(const Experiment&, const planner::Answer&, const std::string& size)> keep;
};

int run_sizes(const app::SearchRequest& plan, const app::SizeOptions& options, const SizeCall& call);

}  // namespace panpipe::cli
