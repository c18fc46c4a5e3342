// LibTorch's optimizers over a list of tensors, updated by one fused operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/scenario/training.hpp"

namespace panpipe::exec {

class Optimizer {
 public:
  // `parameters` are updated in place; they share memory with the model's parameters, or are its fp32 masters.
  Optimizer(const OptimizerRequest& request, std::vector<at::Tensor> parameters);

  // One gradient per parameter, of its shape and element type.
  void step(const std::vector<at::Tensor>& gradients, double learning_rate);

  // Names of the state to store in checkpoints: "exp_avg", "exp_avg_sq" (adam, adamw), "momentum_buffer" (momentum).
  static std::vector<std::string> state_names(const OptimizerRequest& request);
  at::Tensor state(std::size_t name, std::size_t parameter) const { return state_[name][parameter]; }
  // Number of updates made; Adam's bias correction depends on it.
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }
  std::int64_t state_bytes() const;

 private:
  OptimizerRequest request_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::vector<at::Tensor>> state_;  // by name, then parameter
  std::int64_t updates_ = 0;
};

}  // namespace panpipe::exec
