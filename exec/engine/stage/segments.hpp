// Cuts a stage where its ranks communicate: tensor-parallel, context-parallel or expert-parallel ones. A segment lies between two
// communicating operators and is computed by one rank alone. Tensors that bypass a communicating operator (the residual) cross
// from segment to segment like the others. Without communication a stage is one segment. Recomputed blocks are separate segments:
// each keeps its inputs, and the results of its communication.
#pragma once

#include <vector>

#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// A segment, or a communicating operator.
struct StagePart {
  int first_operator = 0, end_operator = 0;
  bool communicates = false;  // then it is the one operator `first_operator`
  // Inside a block whose work is divided over the ranks (between Megatron's f and g), so each rank computes something different.
  bool divided = false;
  bool again = false;      // its backward recomputes it
  int group = -1;          // the group of its parameters (GatheredRange); -1: always available
  std::vector<int> reads;  // graph tensors from outside, ascending, without parameters and buffers
  std::vector<int> makes;  // results that later parts or other stages read
  std::vector<int> dead;   // tensors from earlier parts and the stage's inputs that no later part reads
};

// In order of execution.
std::vector<StagePart> cut_at_collectives(const OperatorGraph& graph, const StageRange& range);

}  // namespace panpipe::exec
