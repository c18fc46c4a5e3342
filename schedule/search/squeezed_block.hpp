// Orders of a V on a grid of slots, squeezed: 1f1b-v, and the published orders V-Min and V-Half.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/search/building_block.hpp"

namespace panpipe::search {

// Passes of a rank in the order a microbatch goes through them; then the weight gradients of both chunks together.
enum Line { F0, F1, I1, I0, W, kLines };
constexpr std::int8_t kTail = kLines;  // the second slot of a whole backward, which stands on the line of its input gradient

// Slots of one rank: for each line, the slot of each of its passes, ascending.
struct Grid {
  std::vector<int> slots[kLines];
};
using Grids = std::vector<Grid>;

// The line in each slot of a grid, or -1. `whole`: backwards are not split, and take two slots.
std::vector<std::int8_t> laid_out(const Grid& grid, bool whole);

// Moves passes, slot by slot, to the earliest free slot that their inputs and the fullest rank's memory allow: all of them where
// backwards are whole; else those behind the first rank's last forward, and with weight gradients on the grid those before its
// first last gradient.
enum class Backwards : std::uint8_t { Whole, Split, SplitAndPlaced };
void squeeze(Grids& grids, Backwards backwards);

// Repeats a block once per microbatch on a grid of unit passes, then squeezes it (Qi et al. 2024). The search starts from it
// where its result must not be worse. Returns the rows of all ranks; only the sizes of `problem` are used.
Rows squeezed_building_block(const OrderProblem& problem, Pattern pattern);

}  // namespace panpipe::search
