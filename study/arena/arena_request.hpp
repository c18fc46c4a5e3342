// What a call of the arena leaves open.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/arena/arena.hpp"

namespace panpipe::arena {

struct ArenaAsked {
  std::vector<Entrant> entrants;
  std::optional<int> ranks, microbatches;     // those of the first order that is given, or 4 and 8
  std::vector<std::string> ratios, clusters;  // the first of cost_ratios(); three clusters, {"none"}: none
  bool alone = false;                         // without the families that are not named
};

// Without engine and threads. InputError: nobody takes part, a ratio that does not exist.
ArenaRequest request_of(ArenaAsked asked);

}  // namespace panpipe::arena
