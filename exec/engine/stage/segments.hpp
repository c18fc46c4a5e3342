// A stage, cut where its ranks communicate: tensor-parallel, context-parallel or expert-parallel ones. Between two communicating
// operators lies a segment, which one rank computes alone; what flows past a communicating operator (the residual) crosses from
// segment to segment like what flows through it. Where none communicate a stage is one segment. Blocks that are made again are
// segments of their own: each keeps its inputs, and in a block that communicates also what its ranks have summed or exchanged.
#pragma once

#include <vector>

#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// A segment, or a communicating operator.
struct StagePart {
  int first_operator = 0, end_operator = 0;
  bool communicates = false;  // then it is the one operator `first_operator`
  // Inside a block whose work is divided over the ranks (between Megatron's f and g): each computes something else.
  bool divided = false;
  bool again = false;      // its backward makes it again
  std::vector<int> reads;  // graph tensors from outside, ascending; no parameters or buffers
  std::vector<int> makes;  // of what it makes, what later parts or other stages read
  std::vector<int> dead;   // of what earlier parts and the stage's inputs gave, what no later part reads
};

// In the order of execution.
std::vector<StagePart> cut_at_collectives(const OperatorGraph& graph, const StageRange& range);

}  // namespace panpipe::exec
