// The published orders V-Min and V-Half, as starts: where the search is to be no worse than they are, it begins with them.
#pragma once

#include "schedule/search/building_block.hpp"

namespace panpipe::search {

// A block repeated once per microbatch on a grid of unit passes, then squeezed: before the first rank's first last gradient and
// after its last forward, passes move to the earliest free slot that their inputs and the block's own memory allow (Qi et al.
// 2024). Rows of all ranks; `problem` gives the sizes only.
Rows squeezed_building_block(const OrderProblem& problem, Pattern pattern);

}  // namespace panpipe::search
