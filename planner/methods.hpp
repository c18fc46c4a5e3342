// The methods of search, one folder each. All answer the same question; search() picks the one that was asked for.
#pragma once

#include "planner/planner.hpp"

namespace panpipe::planner {

Answer search_auto(const Experiment& experiment, const SearchOptions& options);
Answer search_pfeife(const Experiment& experiment, const SearchOptions& options);
Answer search_piper(const Experiment& experiment, const SearchOptions& options);

}  // namespace panpipe::planner
