// LibTorch's optimizers over a list of tensors: one fused operator updates those with the same numbers; Muon goes matrix by
// matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/scenario/training.hpp"
#include "exec/engine/training/whole_matrices.hpp"

namespace panpipe::exec {

struct ParameterNumbers {
  double learning_rate = 0;  // after warm-up, before decay
  double weight_decay = 0;
  bool matrix = false;  // stepped as one (Muon)
  auto operator<=>(const ParameterNumbers&) const = default;
};

// Names of a parameter's state in checkpoints: "exp_avg", "exp_avg_sq" (adam, adamw), "momentum_buffer" (momentum, matrices of
// muon).
std::vector<std::string> state_names(const OptimizerRequest& request, const ParameterNumbers& numbers);

class Optimizer {
 public:
  // `parameters` are updated in place; they share memory with the model's parameters, or are its fp32 masters. Muon's matrices
  // are such, or [experts, rows, columns], or what `parts` makes such of. `numbers` and `parts` are of each parameter, or empty:
  // those of the request, none.
  Optimizer(const OptimizerRequest& request, const TrainingRequest& training, const std::vector<at::Tensor>& parameters,
            const std::vector<ParameterNumbers>& numbers = {}, const std::vector<MatrixParts>& parts = {});

  // One gradient per parameter, of its shape and element type; `update`: number of the update, for the learning-rate curve.
  void step(const std::vector<at::Tensor>& gradients, std::int64_t update);

  at::Tensor state(std::size_t name, std::size_t parameter) const;
  // Number of updates made; Adam's bias correction depends on it.
  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  // Parameters with the same numbers.
  struct Group {
    OptimizerRequest request;  // with their numbers
    std::vector<at::Tensor> parameters{};
    std::vector<MatrixParts> parts{};              // per parameter
    std::vector<std::vector<at::Tensor>> state{};  // by name, then parameter
  };
  // `update`: its number among those made, from 1.
  static void step(const Group& group, const std::vector<at::Tensor>& gradients, double learning_rate, std::int64_t update);

  OptimizerRequest request_;
  TrainingRequest training_;
  std::vector<Group> groups_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // per parameter: its group, and its index in it
  std::int64_t updates_ = 0;
};

// The orthogonal factor of a matrix in bf16, by quintic Newton-Schulz steps: torch.optim.Muon's
// (torch/optim/_muon.py, _zeropower_via_newtonschulz), with its coefficients.
at::Tensor newton_schulz(const at::Tensor& matrix, int steps);
// By what the orthogonal update of a matrix is multiplied.
double update_scale(UpdateScale scale, double rows, double columns);

}  // namespace panpipe::exec
