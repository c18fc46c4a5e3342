#include "exec/engine/stage.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "costmodel/base/error.hpp"

namespace panpipe::exec {

Stage::Stage(const OperatorGraph& graph, int first, int end, const std::vector<int>& outputs, const ParameterStore& parameters,
             bool recompute)
    : program_(graph, first, end, outputs), parameters_(&parameters), recompute_(recompute) {
  for (const int tensor : program_.inputs()) {
    const TensorRole role = graph.tensors[static_cast<std::size_t>(tensor)].role;
    if (role == TensorRole::Parameter || role == TensorRole::Buffer)
      kept_.push_back(parameters_->tensor(tensor));
    else
      inputs_.push_back(tensor);
  }
}

std::vector<at::Tensor> Stage::run(Live& live) {
  std::vector<at::Tensor> values = live.inputs;
  values.insert(values.end(), kept_.begin(), kept_.end());
  return program_.run(std::move(values), live.context);
}

Stage::Live& Stage::live(int microbatch) {
  const auto found = live_.find(microbatch);
  PANPIPE_CHECK(found != live_.end(), fmt::format("microbatch {} is not alive", microbatch));
  return found->second;
}

std::vector<at::Tensor> Stage::forward(int microbatch, std::vector<at::Tensor> values, const CallContext& context) {
  PANPIPE_CHECK(values.size() == inputs_.size(), "one value per input");
  Live& state = live_[microbatch];
  state.context = context;
  for (at::Tensor& value : values) {
    // What arrives is a leaf here; its gradient is what goes back. A stage never writes into what another one still holds.
    at::Tensor leaf = value.detach();
    if (leaf.is_floating_point()) leaf.requires_grad_(true);
    state.inputs.push_back(std::move(leaf));
  }
  std::vector<at::Tensor> results;
  if (recompute_) {
    const at::NoGradGuard no_graph;
    results = run(state);
  } else {
    state.outputs = run(state);
    results = state.outputs;
  }
  for (at::Tensor& result : results) result = result.detach();
  return results;
}

void Stage::recompute(int microbatch) {
  Live& state = live(microbatch);
  if (state.outputs.empty()) state.outputs = run(state);
}

std::vector<at::Tensor> Stage::backward(int microbatch, const std::vector<at::Tensor>& output_gradients) {
  recompute(microbatch);
  Live& state = live(microbatch);
  std::vector<at::Tensor> gradients = full_backward(state.outputs, output_gradients, state.inputs);
  live_.erase(microbatch);
  return gradients;
}

std::vector<at::Tensor> Stage::input_gradient(int microbatch, const std::vector<at::Tensor>& output_gradients) {
  recompute(microbatch);
  Live& state = live(microbatch);
  InputGradients result = input_gradients(state.outputs, output_gradients, state.inputs);
  state.rest = std::move(result.rest);
  state.outputs.clear();
  state.inputs.clear();
  return std::move(result.gradients);
}

void Stage::weight_gradient(int microbatch) {
  Live& state = live(microbatch);
  PANPIPE_CHECK(state.rest.has_value(), fmt::format("W of microbatch {} before its I", microbatch));
  WeightWork work = std::move(*state.rest);
  live_.erase(microbatch);
  weight_gradients(std::move(work));
}

}  // namespace panpipe::exec
