// Connects the GPUs of a run before its first step and its time limit.
#pragma once

#include <utility>
#include <vector>

#include "exec/engine/rank_site.hpp"

namespace panpipe::exec {

// (from, to) of all messages that `rank` sends or receives in a step: activations, gradients, and keys and values among
// context-parallel ranks.
std::vector<std::pair<int, int>> ways_of(const Plan& plan, const StageLayout& layout, int rank);

// All ranks call this together once the groups of the run exist. Over NCCL, rank 0 reports on standard error the GPU memory that
// the connections take, the maximum over ranks.
void connect_ranks(RankSite& site);

}  // namespace panpipe::exec
