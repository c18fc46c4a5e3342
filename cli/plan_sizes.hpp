// panpipe plan over sizes of a cluster: finds the best plan on each, and the number of GPUs that a deadline, a budget or an
// objective needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace CLI {
class App;
}

namespace panpipe::cli {

struct SizeOptions {
  std::vector<int> gpus, nodes;
  std::string tokens, deadline, budget;
};

void add_size_options(CLI::App& sub, SizeOptions& options);

// True if the call requests more than a plan on the scenario's own cluster.
bool asks_for_sizes(const SizeOptions& options, const std::string& objective);

// The scenario's overrides together with the run given by the options.
std::vector<std::string> with_run(const SizeOptions& options, std::vector<std::string> overrides);

struct SizeCall {
  std::string scenario;
  std::vector<std::string> overrides;
  std::string objective;  // "step", "cost", "energy"; empty: the fewest GPUs, or the fastest if nothing limits them
  bool json = false;
  std::function<planner::Answer(const Experiment&)> search;
  // Receives the best size's plan, if there is one, and a text about its size.
  std::function<void(const Experiment&, const planner::Answer&, const std::string& size)> keep;
};

int run_sizes(const SizeOptions& options, const SizeCall& call);

}  // namespace panpipe::cli
