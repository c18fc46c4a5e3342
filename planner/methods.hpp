// The search methods, one folder each. All return the same kind of answer; search() selects the requested one.
#pragma once

#include <limits>

#include "planner/planner.hpp"

namespace panpipe::planner {

// `enough`: the estimated step, in seconds, of a plan that is known; only faster ones are of use.
Answer search_auto(const Experiment& experiment, const SearchOptions& options,
                   double enough = std::numeric_limits<double>::infinity());
// search_auto without and with offload, where the scenario leaves that open.
Answer search_offload(const Experiment& experiment, const SearchOptions& options);
Answer search_pfeife(const Experiment& experiment, const SearchOptions& options);
Answer search_piper(const Experiment& experiment, const SearchOptions& options);

}  // namespace panpipe::planner
