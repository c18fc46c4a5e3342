// Copies of fp32 weights in autocast's product type. Autocast makes a copy at every use and autograd keeps it until the backward,
// so each microbatch in flight would hold the stage's weights again. Here a weight is cast once per step, and every use reads the
// same memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>

namespace panpipe::exec {

// Values that are read in place of a weight, in the same memory; their gradient flows to the weight, in its type.
at::Tensor in_place_of(const at::Tensor& weight, const at::Tensor& values);

class WeightCopies {
 public:
  explicit WeightCopies(at::ScalarType dtype) : dtype_(dtype) {}

  // Adds a copy of an fp32 leaf unless it exists; does nothing for other tensors. Keeps the weight alive.
  void add(const at::Tensor& weight);
  // Writes the weights' current values to the copies.
  void refresh();
  // The tensor that a product reads instead of the weight; its gradient flows to the weight, in fp32. Returns the weight itself
  // if it was not added.
  at::Tensor stand_in(const at::Tensor& weight) const;

 private:
  struct Pair {
    at::Tensor weight, copy;
  };
  at::ScalarType dtype_;
  std::unordered_map<const c10::TensorImpl*, Pair> pairs_;
};

}  // namespace panpipe::exec
