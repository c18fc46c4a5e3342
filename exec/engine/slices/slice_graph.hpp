// A model whose sequences are cut into slices that run one after the other (Seq1F1B): the graph of one slice. A slice reads its
// part of the inputs and of what depends on positions; its attention reads the keys and values of the slices before it too,
// which attended_sequence.hpp keeps.
#pragma once

#include <vector>

#include "costmodel/workload/workload.hpp"
#include "schedule/schedule.hpp"

namespace panpipe::exec {

// Also what a context-parallel rank computes.
struct SliceGraph {
  // Operators, tensors and units as those of whole sequences, activations of one slice. Inputs are a slice's; parameters and
  // buffers are whole.
  OperatorGraph graph;
  std::vector<int> cut;  // per tensor: the dimension in which a slice takes its part of an input or a buffer; -1 = none
};

// InputError in words where a slice could not be computed from itself and the slices before it: attention that looks ahead, an
// exported model (a program for whole sequences), a sequence that does not divide.
SliceGraph slice_graph(const WorkloadRequest& request, const WorkloadShape& shape, const OperatorGraph& whole, int splits);

// -1 where the shapes agree; the one dimension in which `part` is `parts` times shorter; -2 for everything else.
int cut_dimension(const Shape& whole, const Shape& part, int parts);

// InputError for an order whose W passes are not in the backward's order: slices from the last to the first.
void check_slice_order(const Schedule& schedule);

// The input whose labels the loss compares with, -1 where none is found.
int labels_of(const OperatorGraph& graph);

}  // namespace panpipe::exec
