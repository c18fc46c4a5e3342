// The graph of one slice, for a model whose sequences are cut into slices that run one after the other (Seq1F1B). A slice reads
// its part of the inputs and of position-dependent tensors. Its attention also reads the keys and values of earlier slices, which
// attended_sequence.hpp keeps.
#pragma once

#include <string_view>
#include <vector>

#include "costmodel/workload/workload.hpp"
#include "schedule/schedule.hpp"

namespace panpipe::exec {

// Context-parallel ranks use it, too.
struct SliceGraph {
  // Operators, tensors and units match those of whole sequences, with activations of one slice. Inputs are a slice's; parameters
  // and buffers are whole.
  OperatorGraph graph;
  std::vector<int> cut;  // per tensor: the dimension along which a slice takes its part of an input or a buffer; -1 = none
};

// Throws InputError if a slice cannot be computed from itself and earlier slices: attention that looks ahead, an exported model
// (a program for whole sequences), a sequence that does not divide.
SliceGraph slice_graph(const WorkloadRequest& request, const WorkloadShape& shape, const OperatorGraph& whole, int splits);

// Throws InputError if an operator has no rule for parts of a sequence; `how`: "cut into slices of the sequence".
void check_parts_of_sequence(const OperatorGraph& graph, std::string_view how);

// -1 if the shapes are equal; the dimension in which `part` is `parts` times shorter; -2 otherwise.
int cut_dimension(const Shape& whole, const Shape& part, int parts);

// Throws InputError for an order whose W passes do not follow the backward: slices from the last to the first.
void check_slice_order(const Schedule& schedule);

// The graph input with the labels of the loss; -1 if there is none.
int labels_of(const OperatorGraph& graph);

}  // namespace panpipe::exec
