// Searches building blocks: published ones, plain ones, and random changes of the best so far.
#pragma once

#include <vector>

#include "schedule/search/building_block.hpp"

namespace panpipe::search {

struct TriedBlock {
  Knobs knobs;
  Score score;
  Rows rows;
};

// Returns the few best orders with different scores, the best first. The budget is about `passes` passes in total; each tried
// block costs the passes of one order, and a few blocks are always tried. Stops when `bound` is reached.
std::vector<TriedBlock> search_building_blocks(const OrderProblem& problem, const Score& bound, double passes);

// The order of one block. Its rows are empty if the policy gets stuck.
TriedBlock try_building_block(const OrderProblem& problem, const Knobs& knobs);

}  // namespace panpipe::search
