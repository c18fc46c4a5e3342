// A call of the arena, with defaults for everything that it leaves open.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "study/arena/arena.hpp"

namespace panpipe::study {

// Those of these with a device for each rank are judged unless others are named.
inline constexpr std::array<const char*, 3> kDefaultClusters = {"rtx3090x8-nobridge", "dgx-a100-80g", "h100x8"};

struct ArenaAsked {
  std::vector<Entrant> entrants;
  std::optional<int> ranks, microbatches;     // default: those of the first given order, or 4 and 8
  std::vector<std::string> ratios, clusters;  // default: the first of cost_ratios(); kDefaultClusters. {"none"}: no cluster
  bool alone = false;                         // leaves out all families that are not named
};

// All but engine and threads. Throws InputError if no schedule takes part, and for an unknown ratio.
ArenaRequest request_of(ArenaAsked asked);

}  // namespace panpipe::study
