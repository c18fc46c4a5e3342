// The request of `panpipe arena` and panpipe.arena(): schedules compared at one size.
#pragma once

#include <string>

#include "study/arena/arena_request.hpp"

namespace panpipe::app {

struct ArenaRequest : study::ArenaAsked {
  std::string backend = "flow";  // "flow" or "simgrid"
  int threads = 0;               // 0: all of the machine
};

// Throws InputError as study::request_of and study::judge do, and for an unknown backend.
study::Arena judge(ArenaRequest request);

}  // namespace panpipe::app
