// What `panpipe estimate --largest` and `panpipe plan --largest` answer: the largest microbatch, or the longest sequence, with
// which the scenario's plan, or the best plan of each value, fits.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "app/plan.hpp"
#include "planner/planner.hpp"
#include "study/largest/largest.hpp"

namespace panpipe::app {

struct LargestRequest {
  std::string of;                    // "micro" or "sequence"
  std::vector<std::string> devices;  // device types in place of the cluster's, by name or file; empty: the scenario's own
};

struct LargestSource {
  std::string name;                                                    // of the scenario, in messages
  std::function<Scenario(const std::vector<std::string>& more)> load;  // `more`: overrides in addition to its own
  std::string plan_file;                                               // whose plan stays; empty: none
  // The best plan of an experiment; empty: the scenario's own plan is asked for.
  std::function<planner::Answer(const Experiment&)> search;
};

// The best plan of each value: one plan each, and no simulation, because the boundary lies where estimates fit. Searches end when
// `stop` is set. The question must outlive it.
LargestSource largest_plans(const PlanQuestion& question, const std::atomic<bool>& stop);

// With the scenario's own plan a value's step is that of `estimate --set batch.micro=N`, with the microbatches of a step as
// stated; of a search the samples of a step stay where the scenario states them. `trying` is called before each step is looked
// at, and with 0 at the end; it may be empty. Throws InputError for measured costs, for models without tokens, and where a
// device's memory is not known; NoAnswer if a search was stopped.
study::LargestAnswer answer_largest(const LargestRequest& request, const LargestSource& source,
                                    const std::function<void(int value)>& trying);

}  // namespace panpipe::app
