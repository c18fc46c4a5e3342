// A call of the arena, with defaults for everything that it leaves open.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/arena/arena.hpp"

namespace panpipe::arena {

struct ArenaAsked {
  std::vector<Entrant> entrants;
  std::optional<int> ranks, microbatches;     // default: those of the first given order, or 4 and 8
  std::vector<std::string> ratios, clusters;  // default: the first of cost_ratios(); three clusters. {"none"}: no cluster
  bool alone = false;                         // leaves out all families that are not named
};

// All but engine and threads. Throws InputError if no schedule takes part, and for an unknown ratio.
ArenaRequest request_of(ArenaAsked asked);

}  // namespace panpipe::arena
