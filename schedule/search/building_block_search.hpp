// The search over building blocks: published ones, plain ones, and random changes of the best so far.
#pragma once

#include <vector>

#include "schedule/search/building_block.hpp"

namespace panpipe::search {

struct TriedBlock {
  Knobs knobs;
  Score score;
  Rows rows;
};

// The best few orders of different scores, the best first. Tries about `passes` passes in all, each block one order of the
// problem, but a few blocks at least; stops when `bound` is reached.
std::vector<TriedBlock> search_building_blocks(const OrderProblem& problem, const Score& bound, double passes);

// The order of one block; its rows are empty when its policy gets stuck.
TriedBlock try_building_block(const OrderProblem& problem, const Knobs& knobs);

}  // namespace panpipe::search
