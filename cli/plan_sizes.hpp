// panpipe plan over sizes of a cluster: the best plan on each, and how many GPUs a deadline, a budget or an objective asks for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/requests/plan_request.hpp"

namespace CLI {
class App;
}

namespace panpipe::cli {

void add_size_options(CLI::App& sub, SizeOptions& options);

struct SizeCall {
  std::string scenario;
  std::vector<std::string> overrides;
  bool json = false;
  std::function<planner::Answer(const Experiment&)> search;
  // Is handed the best size's plan, where there is one, and what is to be said of its size.
  std::function<void(const Experiment&, const planner::Answer&, const std::string& size)> keep;
};

int run_sizes(const PlanRequest& plan, const SizeOptions& options, const SizeCall& call);

}  // namespace panpipe::cli
