// Copies of fp32 weights in the type that autocast computes products in. Autocast makes one at every use and autograd keeps it
// until the backward, so that each microbatch in flight would hold the stage's weights once more. Here a weight is cast once per
// step, and every use reads the same memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>

namespace panpipe::exec {

class WeightCopies {
 public:
  explicit WeightCopies(at::ScalarType dtype) : dtype_(dtype) {}

  // Copies it, unless it has been added before. For fp32 leaves; does nothing for others. Keeps the weight alive.
  void add(const at::Tensor& weight);
  // Writes the weights' present values into the copies.
  void refresh();
  // What a product reads in the weight's place; its gradient flows to the weight, in fp32. The weight itself if it was not added.
  at::Tensor stand_in(const at::Tensor& weight) const;

 private:
  struct Pair {
    at::Tensor weight, copy;
  };
  at::ScalarType dtype_;
  std::unordered_map<const c10::TensorImpl*, Pair> pairs_;
};

}  // namespace panpipe::exec
