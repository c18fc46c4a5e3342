// The fused updates against LibTorch's own optimizer classes, step by step.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "exec/engine/training/optimizer.hpp"

namespace panpipe::exec {
namespace {

std::vector<at::Tensor> start() {
  return {torch::arange(35, torch::kFloat).reshape({5, 7}) * 0.1 - 1.5, torch::linspace(-1, 1, 19), torch::full({1}, 0.5)};
}

// Gradients that differ by step and element, of both signs and several magnitudes.
at::Tensor gradient(const at::Tensor& of, int step) {
  const at::Tensor at = torch::arange(of.numel(), torch::kFloat).reshape(of.sizes());
  return torch::sin(at * 1.7 + step) * torch::pow(10.0, torch::remainder(at, 4.0) - 2);
}

void expect_same(const OptimizerRequest& request, torch::optim::Optimizer& reference, const std::vector<at::Tensor>& expected) {
  const std::vector<at::Tensor> parameters = start();
  Optimizer optimizer(request, {}, parameters);
  for (int step = 0; step < 5; ++step) {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters) gradients.push_back(gradient(parameter, step));
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i].mutable_grad() = gradients[i].clone();
    optimizer.step(gradients, step);
    reference.step();
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(torch::allclose(parameters[i], expected[i], 1e-6, 1e-7)) << "step " << step << ", tensor " << i;
  }
  EXPECT_FALSE(torch::allclose(parameters[0], start()[0], 1e-3, 1e-3)) << "five steps move the parameters";
}

std::vector<at::Tensor> leaves() {
  std::vector<at::Tensor> values = start();
  for (at::Tensor& value : values) value.requires_grad_(true);
  return values;
}

TEST(Optimizer, AdamIsLibTorchs) {
  OptimizerRequest request;
  request.learning_rate = 0.05, request.beta1 = 0.8, request.beta2 = 0.95, request.epsilon = 1e-6, request.weight_decay = 0.1;
  const std::vector<at::Tensor> expected = leaves();
  torch::optim::Adam reference(expected, torch::optim::AdamOptions(0.05).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1));
  expect_same(request, reference, expected);
}

TEST(Optimizer, AdamWIsLibTorchs) {
  OptimizerRequest request;
  request.name = "adamw", request.learning_rate = 0.05, request.weight_decay = 0.1;
  const std::vector<at::Tensor> expected = leaves();
  torch::optim::AdamW reference(expected, torch::optim::AdamWOptions(0.05).weight_decay(0.1));
  expect_same(request, reference, expected);
}

TEST(Optimizer, SgdIsLibTorchs) {
  for (const double momentum : {0.0, 0.9}) {
    OptimizerRequest request;
    request.name = "sgd", request.learning_rate = 0.05, request.momentum = momentum, request.weight_decay = 0.1;
    const std::vector<at::Tensor> expected = leaves();
    torch::optim::SGD reference(expected, torch::optim::SGDOptions(0.05).momentum(momentum).weight_decay(0.1));
    expect_same(request, reference, expected);
  }
}

// Parameters of two bytes, long enough for vector instructions: a step is that of fp32 on the same values, rounded. Adam's
// operator rounds between its sums, to one bit more at most.
TEST(Optimizer, TwoByteParametersTakeTheStepsOfSinglePrecision) {
  for (const std::string name : {"sgd", "momentum", "adam", "adamw"})
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(name + " of " + c10::toString(type));
      OptimizerRequest request;
      request.name = name == "momentum" ? "sgd" : name;
      request.momentum = name == "momentum" ? 0.9 : 0;
      request.learning_rate = 0.05, request.weight_decay = 0.1;
      const double bit = type == at::kHalf ? 0x1p-10 : 0x1p-7;
      const std::vector<at::Tensor> parameters = {torch::linspace(-1, 1, 48).to(type), torch::full({3}, 0.5).to(type)};
      Optimizer optimizer(request, {}, parameters);
      for (int step = 0; step < 4; ++step) {
        std::vector<at::Tensor> wide, wide_gradients, gradients;
        for (const at::Tensor& parameter : parameters) {
          gradients.push_back(gradient(parameter, step).to(type));
          wide.push_back(parameter.to(at::kFloat, false, true));
          wide_gradients.push_back(gradients.back().to(at::kFloat));
        }
        Optimizer reference(request, {}, wide);
        reference.set_updates(step);
        const std::size_t kinds = state_names(request, {}).size();
        for (std::size_t kind = 0; kind < kinds; ++kind)
          for (std::size_t i = 0; i < wide.size(); ++i) reference.state(kind, i).copy_(optimizer.state(kind, i));
        reference.step(wide_gradients, step);
        optimizer.step(gradients, step);
        for (std::size_t i = 0; i < wide.size(); ++i) {
          EXPECT_TRUE(torch::allclose(parameters[i].to(at::kFloat), wide[i], bit, bit / 16)) << "step " << step;
          for (std::size_t kind = 0; kind < kinds; ++kind)
            EXPECT_TRUE(torch::allclose(optimizer.state(kind, i).to(at::kFloat), reference.state(kind, i), bit, bit / 16));
        }
      }
      EXPECT_FALSE(torch::allclose(parameters[0].to(at::kFloat), torch::linspace(-1, 1, 48), 0.05, 0.05));
    }
}

TEST(Optimizer, NoneMovesNothing) {
  OptimizerRequest request;
  request.name = "none";
  const std::vector<at::Tensor> parameters = start();
  Optimizer optimizer(request, {}, parameters);
  optimizer.step(start(), 1);
  for (std::size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(torch::equal(parameters[i], start()[i]));
  EXPECT_TRUE(state_names(request, {}).empty());
}

}  // namespace
}  // namespace panpipe::exec
