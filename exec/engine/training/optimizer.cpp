#include "exec/engine/training/optimizer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace panpipe::exec {

Optimizer::Optimizer(const OptimizerRequest& request, std::vector<at::Tensor> parameters, std::vector<MatrixParts> parts)
    : request_(request), parameters_(std::move(parameters)), parts_(std::move(parts)) {
  PANPIPE_CHECK(parts_.empty() || parts_.size() == parameters_.size(), "parts of every parameter");
  parts_.resize(parameters_.size());
  state_.resize(state_names(request).size());
  for (auto& values : state_)
    for (const at::Tensor& parameter : parameters_) values.push_back(at::zeros_like(parameter));
}

std::vector<std::string> Optimizer::state_names(const OptimizerRequest& request) {
  if (request.name == "adam" || request.name == "adamw") return {"exp_avg", "exp_avg_sq"};
  if (request.momentum > 0 || request.name == "muon") return {"momentum_buffer"};
  return {};
}

void Optimizer::step(const std::vector<at::Tensor>& gradients, double learning_rate) {
  PANPIPE_CHECK(gradients.size() == parameters_.size(), "one gradient per parameter");
  ++updates_;
  if (parameters_.empty() || request_.name == "none") return;
  const at::NoGradGuard no_graph;
  if (request_.name == "muon") {
    for (std::size_t i = 0; i < parameters_.size(); ++i) step_matrix(i, gradients[i], learning_rate);
    return;
  }
  if (request_.name == "adam" || request_.name == "adamw") {
    // The operator reads one count per parameter; ours are all the same.
    const at::Tensor count = at::full({}, static_cast<double>(updates_), parameters_[0].options().dtype(at::kFloat));
    const std::vector<at::Tensor> counts(parameters_.size(), count);
    const auto update = [&](auto fused) {
      fused(parameters_, gradients, state_[0], state_[1], std::vector<at::Tensor>{}, counts, learning_rate, request_.beta1,
            request_.beta2, request_.weight_decay, request_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
    };
    if (request_.name == "adamw")
      update([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    else
      update([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    return;
  }
  const auto update = [&](at::TensorList parameters, at::TensorList by, at::TensorList momenta) {
    // A momentum buffer of zeros becomes the first gradient, as PyTorch's first step makes it.
    at::_fused_sgd_(parameters, by, momenta, request_.weight_decay, request_.momentum, learning_rate, /*dampening=*/0,
                    /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
  };
  const std::vector<at::Tensor> momenta = state_.empty() ? std::vector<at::Tensor>{} : state_[0];
  if (!parameters_[0].is_cpu()) return update(parameters_, gradients, momenta);
  // LibTorch 2.11 on a CPU: of 16 or more elements of two bytes the operator updates none, and writes what memory happened to
  // hold to the momentum. They are updated in fp32 and rounded once, as the operator does on GPUs.
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::ScalarType type = parameters_[i].element_size() == 2 ? at::kFloat : parameters_[i].scalar_type();
    const at::Tensor wide = parameters_[i].to(type);
    std::vector<at::Tensor> momentum;
    if (!momenta.empty()) momentum.push_back(momenta[i].to(type));
    update(wide, gradients[i].to(type), momentum);
    if (wide.is_same(parameters_[i])) continue;
    parameters_[i].copy_(wide);
    if (!momenta.empty()) momenta[i].copy_(momentum[0]);
  }
}

// As torch/optim/_muon.py, _single_tensor_muon. The momentum is element by element, so that each part has its own.
void Optimizer::step_matrix(std::size_t i, const at::Tensor& gradient, double learning_rate) const {
  const at::Tensor &parameter = parameters_[i], &momentum = state_[0][i];
  momentum.lerp_(gradient, 1 - request_.momentum);
  at::Tensor update = request_.nesterov ? at::lerp(gradient, momentum, request_.momentum) : momentum;
  if (parts_[i].whole) update = parts_[i].whole(update);
  const auto rows = static_cast<double>(update.size(-2)), columns = static_cast<double>(update.size(-1));
  if (update.dim() == 2) {
    update = newton_schulz(update, request_.newton_schulz_steps);
  } else {
    std::vector<at::Tensor> experts;
    for (const at::Tensor& expert : update.unbind(0)) experts.push_back(newton_schulz(expert, request_.newton_schulz_steps));
    update = at::stack(experts);
  }
  if (parts_[i].part) update = parts_[i].part(update);
  parameter.mul_(1 - learning_rate * request_.weight_decay);
  parameter.add_(update, -learning_rate * update_scale(request_.update_scale, rows, columns));
}

at::Tensor newton_schulz(const at::Tensor& matrix, int steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kEpsilon = 1e-7;
  const bool high = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/true);
  if (high) x = x.t();
  x.div_(x.norm().clamp(kEpsilon));
  for (int i = 0; i < steps; ++i) {
    const at::Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA, 1);
  }
  return high ? x.t() : x;
}

double update_scale(UpdateScale scale, double rows, double columns) {
  switch (scale) {
    case UpdateScale::Original:
      return std::sqrt(std::max(1.0, rows / columns));
    case UpdateScale::MatchRms:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case UpdateScale::Spectral:
      break;
  }
  return std::sqrt(std::max(rows, columns));
}

}  // namespace panpipe::exec
