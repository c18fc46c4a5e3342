// The published orders V-Min and V-Half. The search starts from them where its result must not be worse.
#pragma once

#include "schedule/search/building_block.hpp"

namespace panpipe::search {

// Repeats a block once per microbatch on a grid of unit passes, then squeezes it: before the first rank's first last gradient and
// after its last forward, passes move to the earliest free slot that their inputs and the block's own memory allow (Qi et al.
// 2024). Returns the rows of all ranks; only the sizes of `problem` are used.
Rows squeezed_building_block(const OrderProblem& problem, Pattern pattern);

}  // namespace panpipe::search
