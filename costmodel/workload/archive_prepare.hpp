// Prepares a translated program for cutting: aliases, gradients, dead operators, movable units. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Per tensor: the tensor that owns its memory, itself if it does.
std::vector<int> memory_owners(const OperatorGraph& graph);

// Operators first to last, between which memory is written. No cut lies between them, so no stage writes into a tensor that
// another stage sent it. `tensor` owns the memory.
struct WrittenSpan {
  int tensor = -1, first = -1, last = -1;
};
std::vector<WrittenSpan> written_spans(const OperatorGraph& graph);

// Marks buffers that operators write into, and activations through which a gradient flows. Throws InputError for a program that
// cannot be trained (an operator that writes into a parameter).
void mark_written_and_gradients(OperatorGraph& graph);

// Removes operators that neither the loss nor a written buffer needs.
void drop_dead_operators(OperatorGraph& graph);

// Groups operators by their module. No unit ends between the creation of a tensor and the last operator that writes into it, so
// no stage writes into a tensor that another stage sent it.
void make_units(OperatorGraph& graph);

}  // namespace panpipe
