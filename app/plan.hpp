// The request of `panpipe plan` and panpipe.plan(): the best plan on a cluster, or on several sizes of it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/planner.hpp"
#include "study/sizes/sizes.hpp"

namespace panpipe::app {

struct SearchRequest {
  std::string method = "auto";
  std::string objective;  // empty: the step; for the method piper the time per sample
  std::string trainer;    // replaces the scenario's; empty: as the scenario states
  int threads = 0;        // 0: all of the machine
  std::size_t candidates = 5;
  bool open = false;  // also searches what the scenario's file states of a plan
};

// Throws InputError for an unknown method, objective or trainer, and for a combination that does not exist.
void check_search_request(const SearchRequest& request);

// All options but `stop` and `progress`, which the caller sets.
planner::SearchOptions search_options_of(const SearchRequest& request);

struct SizeOptions {
  std::vector<int> gpus, nodes;
  std::string tokens, deadline, budget;
};

// True if the call requests more than a plan on the scenario's own cluster.
bool asks_for_sizes(const SizeOptions& options, const std::string& objective);

class PlanQuestion;
// A search of the question's with these options; the caller watches and stops it.
using Search = std::function<planner::Answer(const Experiment&, const SearchRequest&)>;

struct SizesAnswer {
  study::SizeKey key;
  study::SizeRequest request;
  std::vector<study::TriedSize> tried;
  int best = -1;  // of `tried`
  // The sizes that were searched, by the value of the key.
  std::map<int, std::pair<std::unique_ptr<Experiment>, planner::Answer>> found;
};

// The sizes that are asked for, by the value of the key. Throws InputError if GPUs and nodes are given, and for GPUs that do not
// fill nodes.
std::vector<int> sizes_of(const SizeOptions& options, const study::SizeKey& key);

// Adds what is assumed of the model to the notes.
void add_assumptions(planner::Answer& answer, const Experiment& searched);

// The best plan that the engines can run, as plan.yaml, and its number among the candidates; nullopt if they can run none.
struct PlanFile {
  std::string yaml;
  std::size_t candidate = 0;
};
std::optional<PlanFile> plan_file_of(const planner::Answer& answer, const Experiment& experiment);

// For example "cluster.nodes=4".
std::string size_setting(const study::SizeKey& key, int nodes);

// The objective is "step", "cost" or "energy"; empty: the fewest GPUs, or the fastest if nothing limits them. `trying` is called
// with each size before its search, and with 0 at the end; it may be empty. Throws InputError for a scenario that does not state
// the amount of training, for the method piper, and for limits that cannot be read.
SizesAnswer answer_sizes(const PlanQuestion& question, const Search& search, const std::function<void(int gpus)>& trying);

}  // namespace panpipe::app
