#include "exec/engine/training/optimizer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include "base/error.hpp"

namespace panpipe::exec {

Optimizer::Optimizer(const OptimizerRequest& request, std::vector<at::Tensor> parameters)
    : request_(request), parameters_(std::move(parameters)) {
  state_.resize(state_names(request).size());
  for (auto& values : state_)
    for (const at::Tensor& parameter : parameters_) values.push_back(at::zeros_like(parameter));
}

std::vector<std::string> Optimizer::state_names(const OptimizerRequest& request) {
  if (request.name == "adam" || request.name == "adamw") return {"exp_avg", "exp_avg_sq"};
  if (request.momentum > 0) return {"momentum_buffer"};
  return {};
}

void Optimizer::step(const std::vector<at::Tensor>& gradients, double learning_rate) {
  PANPIPE_CHECK(gradients.size() == parameters_.size(), "one gradient per parameter");
  ++updates_;
  if (parameters_.empty() || request_.name == "none") return;
  const at::NoGradGuard no_graph;
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

std::int64_t Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& values : state_)
    for (const at::Tensor& value : values) bytes += static_cast<std::int64_t>(value.nbytes());
  return bytes;
}

}  // namespace panpipe::exec
