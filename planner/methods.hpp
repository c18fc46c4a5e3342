// The search methods, one folder each. All return the same kind of answer; search() selects the requested one.
#pragma once

#include "planner/planner.hpp"

namespace panpipe::planner {

Answer search_auto(const Experiment& experiment, const SearchOptions& options);
// search_auto without and with offload, where the scenario leaves that open.
Answer search_offload(const Experiment& experiment, const SearchOptions& options);
Answer search_pfeife(const Experiment& experiment, const SearchOptions& options);
Answer search_piper(const Experiment& experiment, const SearchOptions& options);

}  // namespace panpipe::planner
