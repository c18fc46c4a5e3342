// Connects the GPUs of a run before its first step and its time limit.
#pragma once

#include "exec/engine/rank_site.hpp"

namespace panpipe::exec {

// All ranks call this together once the groups of the run exist. Over NCCL, rank 0 reports on standard error the GPU memory that
// the connections take, the maximum over ranks.
void connect_ranks(RankSite& site);

}  // namespace panpipe::exec
