// Plans whose weights lie in the host's memory and come for the turns of their stages (costmodel/plan/streamed_weights.hpp).
#pragma once

#include "planner/planner.hpp"

namespace panpipe::planner {

// `roundpipe` over the devices of one node with one to four slots for each, or with up to 32 on one device: all are estimated and
// the best are simulated. Nothing is proved.
Answer search_streamed(const Experiment& experiment, const SearchOptions& options);

}  // namespace panpipe::planner
