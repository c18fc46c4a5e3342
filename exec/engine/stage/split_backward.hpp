// The backward of a stage in two halves: I computes the gradients of its inputs, W those of its parameters, with no matrix
// product done twice. Gradients are bit-equal to the fused backward's.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "exec/engine/stage/autograd_node.hpp"

namespace panpipe::exec {

// What W needs after I: the meeting nodes (from which both inputs and parameters are reached) with the gradients that arrived
// at them. Holds the part of the autograd graph that the weight gradients need.
struct WeightWork {
  std::vector<torch::autograd::Edge> roots;
  std::vector<at::Tensor> gradients;
};

struct InputGradients {
  std::vector<at::Tensor> gradients;  // one per input, undefined where none flows
  WeightWork rest;
};

// Where the backward of each output starts; invalid for one that no gradient leads to. Holding these and not the outputs lets
// an output's memory go when no operator saved it.
std::vector<torch::autograd::Edge> backward_roots(const std::vector<at::Tensor>& outputs);

// `roots` of the outputs with the gradients that arrived for them (undefined = none); `inputs` are the leaves that I answers for.
InputGradients input_gradients(const std::vector<torch::autograd::Edge>& roots, const std::vector<at::Tensor>& output_gradients,
                               const std::vector<at::Tensor>& inputs);

// Accumulates into the parameters' grad().
void weight_gradients(WeightWork work);

// Both at once: accumulates into parameters, returns the gradients of `inputs`.
std::vector<at::Tensor> full_backward(const std::vector<torch::autograd::Edge>& roots,
                                      const std::vector<at::Tensor>& output_gradients, const std::vector<at::Tensor>& inputs);

}  // namespace panpipe::exec
