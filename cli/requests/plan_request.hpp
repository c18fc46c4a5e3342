// What `panpipe plan` and panpipe.plan() are asked: the best plan on a cluster, or on several sizes of it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planner/planner.hpp"
#include "study/sizes/sizes.hpp"

namespace panpipe::cli {

struct PlanRequest {
  std::string method = "auto";
  std::string objective;  // empty: the step, and of piper the time per sample
  std::string trainer;    // only what it can run; empty: any
  int threads = 0;        // 0: as many as the machine has
  std::size_t candidates = 5;
};

// InputError: a method, an objective or a trainer that does not exist, or that do not go together.
void check_plan_request(const PlanRequest& request);

// Without `stop` and `progress`, which are the caller's.
planner::SearchOptions search_options_of(const PlanRequest& request);

struct SizeOptions {
  std::vector<int> gpus, nodes;
  std::string tokens, deadline, budget;
};

// Whether the call asks for more than a plan on the scenario's own cluster.
bool asks_for_sizes(const SizeOptions& options, const std::string& objective);

// The scenario's overrides with what the options say of its run.
std::vector<std::string> with_run(const SizeOptions& options, std::vector<std::string> overrides);

struct SizeSource {
  std::string name;                                                    // of the scenario, in messages
  std::function<Scenario(const std::vector<std::string>& more)> load;  // with overrides besides its own
  std::function<planner::Answer(const Experiment&)> search;
};

struct SizesAnswer {
  planner::SizeKey key;
  planner::SizeRequest request;
  std::vector<planner::TriedSize> tried;
  int best = -1;  // of `tried`
  // By the value of the key, of the sizes that were searched.
  std::map<int, std::pair<std::unique_ptr<Experiment>, planner::Answer>> found;
};

// "cluster.nodes=4"
std::string size_setting(const planner::SizeKey& key, int nodes);

// `objective`: "step", "cost", "energy"; empty: the fewest GPUs, or where nothing limits them the fastest. `trying` hears of each
// size before it is searched, and once more with 0 at the end; may be empty. InputError: a scenario that does not say how much is
// trained, the method piper, limits that cannot be read.
SizesAnswer answer_sizes(const PlanRequest& plan, const SizeOptions& options, const SizeSource& source,
                         const std::function<void(int gpus)>& trying);

}  // namespace panpipe::cli
