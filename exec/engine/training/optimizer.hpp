// LibTorch's optimizers over a list of tensors, updated by one fused operator; Muon matrix by matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/scenario/training.hpp"
#include "exec/engine/training/whole_matrices.hpp"

namespace panpipe::exec {

class Optimizer {
 public:
  // `parameters` are updated in place; they share memory with the model's parameters, or are its fp32 masters. Muon's are
  // matrices, or [experts, rows, columns], or what `parts` makes such of; `parts` is empty, or has an entry for each parameter.
  Optimizer(const OptimizerRequest& request, std::vector<at::Tensor> parameters, std::vector<MatrixParts> parts = {});

  // One gradient per parameter, of its shape and element type.
  void step(const std::vector<at::Tensor>& gradients, double learning_rate);

  // Names of the state to store in checkpoints: "exp_avg", "exp_avg_sq" (adam, adamw), "momentum_buffer" (momentum, muon).
  static std::vector<std::string> state_names(const OptimizerRequest& request);
  at::Tensor state(std::size_t name, std::size_t parameter) const { return state_[name][parameter]; }
  // Number of updates made; Adam's bias correction depends on it.
  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  void step_matrix(std::size_t parameter, const at::Tensor& gradient, double learning_rate) const;

  OptimizerRequest request_;
  std::vector<at::Tensor> parameters_;
  std::vector<MatrixParts> parts_;              // per parameter
  std::vector<std::vector<at::Tensor>> state_;  // by name, then parameter
  std::int64_t updates_ = 0;
};

// The orthogonal factor of a matrix in bf16, by quintic Newton-Schulz steps: torch.optim.Muon's
// (torch/optim/_muon.py, _zeropower_via_newtonschulz), with its coefficients.
at::Tensor newton_schulz(const at::Tensor& matrix, int steps);
// By what the orthogonal update of a matrix is multiplied.
double update_scale(UpdateScale scale, double rows, double columns);

}  // namespace panpipe::exec
