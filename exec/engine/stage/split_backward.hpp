// Splits the backward of a stage: I computes the gradients of its inputs, W those of its parameters, and no matrix product is
// computed twice. Gradients are bit-equal to the fused backward's.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "exec/engine/stage/autograd_node.hpp"

namespace panpipe::exec {

// The data for W after I: the nodes from which both inputs and parameters are reached, with the gradients that arrived at them.
// Holds the part of the autograd graph that the weight gradients need.
struct WeightWork {
  std::vector<torch::autograd::Edge> roots;
  std::vector<at::Tensor> gradients;

  void add(const torch::autograd::Edge& root, const at::Tensor& gradient) {
    roots.push_back(root);
    gradients.push_back(gradient);
  }
};

struct InputGradients {
  std::vector<at::Tensor> gradients;  // one per input, undefined where none flows
  WeightWork rest;
};

// The start of each output's backward; invalid if no gradient leads to it. Holding these instead of the outputs frees an output's
// memory if no operator saved it.
std::vector<torch::autograd::Edge> backward_roots(const std::vector<at::Tensor>& outputs);

// `roots` of the outputs with their gradients (undefined = none); `inputs` are the leaves whose gradients I computes.
InputGradients input_gradients(const std::vector<torch::autograd::Edge>& roots, const std::vector<at::Tensor>& output_gradients,
                               const std::vector<at::Tensor>& inputs);

// Accumulates into the parameters' grad().
void weight_gradients(WeightWork work);

// Both at once: accumulates into parameters, and returns the gradients of `inputs`.
std::vector<at::Tensor> full_backward(const std::vector<torch::autograd::Edge>& roots,
                                      const std::vector<at::Tensor>& output_gradients, const std::vector<at::Tensor>& inputs);

}  // namespace panpipe::exec
