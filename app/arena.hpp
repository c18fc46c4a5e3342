// The request of `panpipe arena` and panpipe.arena(): schedules compared at one size.
#pragma once

#include <string>

#include "study/arena/arena_request.hpp"

namespace panpipe::app {

struct ArenaRequest : arena::ArenaAsked {
  std::string backend = "flow";  // "flow" or "simgrid"
  int threads = 0;               // 0: all of the machine
};

// Throws InputError as arena::request_of and arena::judge do, and for an unknown backend.
arena::Arena judge(ArenaRequest request);

}  // namespace panpipe::app
