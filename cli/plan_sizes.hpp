// panpipe plan over sizes of a cluster: the best plan on each, and how many GPUs a deadline, a budget or an objective asks for.
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

// Whether the call asks for more than a plan on the scenario's own cluster.
bool asks_for_sizes(const SizeOptions& options, const std::string& objective);

// The scenario's overrides with what the options say of its run.
std::vector<std::string> with_run(const SizeOptions& options, std::vector<std::string> overrides);

struct SizeCall {
  std::string scenario;
  std::vector<std::string> overrides;
  std::string objective;  // "step", "cost", "energy"; empty: the fewest GPUs, or where nothing limits them the fastest
  bool json = false;
  std::function<planner::Answer(const Experiment&)> search;
  // Is handed the best size's plan, where there is one, and what is to be said of its size.
  std::function<void(const Experiment&, const planner::Answer&, const std::string& size)> keep;
};

int run_sizes(const SizeOptions& options, const SizeCall& call);

}  // namespace panpipe::cli
