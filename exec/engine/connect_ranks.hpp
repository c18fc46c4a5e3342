// Connections between the GPUs of a run, made before its first step and its clock.
#pragma once

#include <utility>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// (from, to) of all messages that `rank` sends or takes in a step: activations, and the gradients that flow back; keys and
// values among context-parallel ranks.
std::vector<std::pair<int, int>> ways_of(const Plan& plan, const StageLayout& layout, int rank);

// All ranks together, once the groups of the run are made. Over NCCL rank 0 tells on standard error what the connections take of
// a GPU's memory, the most of any rank.
void connect_ranks(const Plan& plan, const StageLayout& layout, Transport& transport, at::Device device,
                   Clock::duration deadline);

}  // namespace panpipe::exec
