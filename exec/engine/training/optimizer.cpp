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
#include <map>

#include "base/error.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "exec/engine/training/learning_rate.hpp"

namespace panpipe::exec {

namespace {

OptimizerRequest request_for(OptimizerRequest request, const ParameterNumbers& numbers) {
  request.learning_rate = numbers.learning_rate;
  request.weight_decay = numbers.weight_decay;
  if (steps_matrices(request.name) && !numbers.matrix) request.name = "adamw";  // what is no matrix
  return request;
}

// As torch/optim/_muon.py, _single_tensor_muon. The momentum is element by element, so that each part has its own.
void step_matrix(const OptimizerRequest& request, const at::Tensor& parameter, const at::Tensor& gradient,
                 const at::Tensor& momentum, const MatrixParts& parts, double learning_rate) {
  momentum.lerp_(gradient, 1 - request.momentum);
  at::Tensor update = request.nesterov ? at::lerp(gradient, momentum, request.momentum) : momentum;
  if (parts.whole) update = parts.whole(update);
  const auto rows = static_cast<double>(update.size(-2)), columns = static_cast<double>(update.size(-1));
  if (update.dim() == 2) {
    update = newton_schulz(update, request.newton_schulz_steps);
  } else {
    std::vector<at::Tensor> experts;
    for (const at::Tensor& expert : update.unbind(0)) experts.push_back(newton_schulz(expert, request.newton_schulz_steps));
    update = at::stack(experts);
  }
  if (parts.part) update = parts.part(update);
  parameter.mul_(1 - learning_rate * request.weight_decay);
  parameter.add_(update, -learning_rate * update_scale(request.update_scale, rows, columns));
}

}  // namespace

std::vector<std::string> state_names(const OptimizerRequest& request, const ParameterNumbers& numbers) {
  const std::string name = request_for(request, numbers).name;
  if (name == "adam" || name == "adamw") return {"exp_avg", "exp_avg_sq"};
  if (request.momentum > 0 || name == "muon") return {"momentum_buffer"};
  return {};
}

Optimizer::Optimizer(const OptimizerRequest& request, const TrainingRequest& training, const std::vector<at::Tensor>& parameters,
                     const std::vector<ParameterNumbers>& numbers, const std::vector<MatrixParts>& parts)
    : request_(request), training_(training) {
  PANPIPE_CHECK(numbers.empty() || parameters.size() == numbers.size(), "numbers of every parameter");
  PANPIPE_CHECK(parts.empty() || parameters.size() == parts.size(), "parts of every parameter");
  std::map<ParameterNumbers, std::size_t> group_of;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterNumbers own = numbers.empty()
                                     ? ParameterNumbers{request.learning_rate, request.weight_decay, steps_matrices(request.name)}
                                     : numbers[i];
    const auto [known, made] = group_of.try_emplace(own, groups_.size());
    if (made) groups_.push_back({request_for(request, own)});
    Group& group = groups_[known->second];
    group.state.resize(state_names(request, own).size());
    for (auto& values : group.state) values.push_back(at::zeros_like(parameters[i]));
    places_.emplace_back(known->second, group.parameters.size());
    group.parameters.push_back(parameters[i]);
    group.parts.push_back(parts.empty() ? MatrixParts{} : parts[i]);
  }
}

at::Tensor Optimizer::state(std::size_t name, std::size_t parameter) const {
  const auto& [group, place] = places_[parameter];
  return groups_[group].state[name][place];
}

void Optimizer::step(const std::vector<at::Tensor>& gradients, std::int64_t update) {
  PANPIPE_CHECK(gradients.size() == places_.size(), "one gradient per parameter");
  const at::NoGradGuard no_graph;
  std::vector<std::vector<at::Tensor>> of_group(groups_.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) of_group[places_[i].first].push_back(gradients[i]);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    step(groups_[g], of_group[g], learning_rate(request_, training_, update, groups_[g].request.learning_rate), updates_ + 1);
  ++updates_;
}

void Optimizer::step(const Group& group, const std::vector<at::Tensor>& gradients, double learning_rate, std::int64_t update) {
  const OptimizerRequest& request = group.request;
  const std::vector<at::Tensor>& parameters = group.parameters;
  if (request.name == "none") return;
  if (request.name == "muon") {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      step_matrix(request, parameters[i], gradients[i], group.state[0][i], group.parts[i], learning_rate);
    return;
  }
  if (request.name == "adam" || request.name == "adamw") {
    // The operator reads one count per parameter; ours are all the same.
    const at::Tensor count = at::full({}, static_cast<double>(update), parameters[0].options().dtype(at::kFloat));
    const std::vector<at::Tensor> counts(parameters.size(), count);
    const auto call = [&](auto fused) {
      fused(parameters, gradients, group.state[0], group.state[1], std::vector<at::Tensor>{}, counts, learning_rate,
            request.beta1, request.beta2, request.weight_decay, request.epsilon, /*amsgrad=*/false, /*maximize=*/false);
    };
    if (request.name == "adamw")
      call([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    else
      call([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    return;
  }
  const auto call = [&](at::TensorList of, at::TensorList by, at::TensorList momenta) {
    // A momentum buffer of zeros becomes the first gradient, as PyTorch's first step makes it.
    at::_fused_sgd_(of, by, momenta, request.weight_decay, request.momentum, learning_rate, /*dampening=*/0, /*nesterov=*/false,
                    /*maximize=*/false, /*is_first_step=*/false);
  };
  const std::vector<at::Tensor> momenta = group.state.empty() ? std::vector<at::Tensor>{} : group.state[0];
  if (!parameters[0].is_cpu()) return call(parameters, gradients, momenta);
  // LibTorch 2.11 on a CPU: of 16 or more elements of two bytes the operator updates none, and writes what memory happened to
  // hold to the momentum. They are updated in fp32 and rounded once, as the operator does on GPUs.
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::ScalarType type = parameters[i].element_size() == 2 ? at::kFloat : parameters[i].scalar_type();
    const at::Tensor wide = parameters[i].to(type);
    std::vector<at::Tensor> momentum;
    if (!momenta.empty()) momentum.push_back(momenta[i].to(type));
    call(wide, gradients[i].to(type), momentum);
    if (wide.is_same(parameters[i])) continue;
    parameters[i].copy_(wide);
    if (!momenta.empty()) momenta[i].copy_(momentum[0]);
  }
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
