// What a translated program needs before it can be cut: aliases, gradients, dead operators, movable units. Internal to this
// folder.
#pragma once

#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Per tensor: the tensor whose memory it looks at, itself when it owns it.
std::vector<int> memory_owners(const OperatorGraph& graph);

// Operators first to last between which memory is written: no cut stands between two of them, so that no stage writes into what
// another one sent it. `tensor` owns the memory.
struct WrittenSpan {
  int tensor = -1, first = -1, last = -1;
};
std::vector<WrittenSpan> written_spans(const OperatorGraph& graph);

// Marks buffers that operators write into, and which activations a gradient flows through. Throws InputError for what cannot be
// trained (an operator that writes into a parameter).
void mark_written_and_gradients(OperatorGraph& graph);

// Drops operators that neither the loss nor a written buffer needs.
void drop_dead_operators(OperatorGraph& graph);

// Groups operators by the module they stand in. No unit ends between the making of a tensor and the last operator that writes
// into it, so that no stage writes into what another one sent it.
void make_units(OperatorGraph& graph);

}  // namespace panpipe
