// Calls when autograd has added a microbatch's gradient to a parameter's.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace panpipe::exec {

class GradientHooks {
 public:
  GradientHooks() = default;
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;
  ~GradientHooks() {
    for (const at::Tensor& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }

  // As long as this object lives; a parameter has one.
  void add(const at::Tensor& parameter, std::function<void()> call) {
    auto hook = std::make_unique<Hook>();
    hook->call = std::move(call);
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::move(hook));
    parameters_.push_back(parameter);
  }

 private:
  struct Hook : torch::autograd::PostAccumulateGradHook {
    void operator()(const at::Tensor&) override { call(); }
    std::function<void()> call;
  };
  std::vector<at::Tensor> parameters_;
};

}  // namespace panpipe::exec
