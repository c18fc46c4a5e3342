#include "exec/engine/stage/stage.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "exec/engine/slices/attended_sequence.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/recomputation.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/stage/weight_copies.hpp"
#include "exec/engine/stage/weight_versions.hpp"

namespace panpipe::exec {

Stage::Stage(const OperatorGraph& graph, int first, int end, const std::vector<int>& outputs, const ParameterStore& parameters,
             const std::vector<bool>& needs_gradient, at::Device device, WeightCopies* copies)
    : program_(graph, first, end, outputs, device), copies_(copies), graph_(&graph) {
  for (const int tensor : program_.outputs()) output_types_.push_back(scalar_type(graph.tensors[tensor].dtype));
  for (const int tensor : program_.inputs()) {
    const TensorRole role = graph.tensors[tensor].role;
    if (role == TensorRole::Parameter || role == TensorRole::Buffer) {
      if (graph.tensors[tensor].written) written_.push_back(kept_.size());
      kept_.push_back(parameters.tensor(tensor));
    } else {
      inputs_.push_back(tensor);
      gradient_inputs_.push_back(needs_gradient[tensor]);
    }
  }
  if (copies)
    for (const int tensor : program_.lowered_weights()) copies->add(parameters.tensor(tensor));
}

std::vector<at::Tensor> Stage::run(const std::vector<at::Tensor>& inputs, CallContext context,
                                   const std::vector<at::Tensor>& written) {
  context.copies = copies_;
  std::vector<at::Tensor> values = inputs;
  for (const at::Tensor& kept : kept_)
    values.push_back(context.versions ? context.versions->stand_in(kept, context.version) : kept);
  if (context.slice)
    for (std::size_t i = inputs.size(); i < values.size(); ++i) values[i] = context.slice->part(program_.inputs()[i], values[i]);
  for (std::size_t i = 0; i < written.size(); ++i) values[inputs.size() + written_[i]] = written[i];
  std::optional<Recomputation> recomputation;  // keeps no results of operators that the backward makes again
  if (!recomputed_.empty() && !context.again && at::GradMode::is_enabled())
    context.recomputation = &recomputation.emplace(
        *graph_, recomputed_,
        [this, again = context](int op, torch::jit::Stack& stack) { program_.call_again(op, again, stack); });
  std::vector<at::Tensor> results;
  {
    const AutocastRegion region(context.autocast, values.empty() ? at::kCPU : values.front().device().type());
    results = program_.run(std::move(values), context);
  }
  // Values that leave the stage have the graph's type, which the receiver expects.
  for (std::size_t i = 0; context.autocast && i < results.size(); ++i)
    if (results[i].is_floating_point()) results[i] = results[i].to(output_types_[i]);
  return results;
}

Stage::Live& Stage::live(int microbatch) {
  const auto found = live_.find(microbatch);
  PANPIPE_CHECK(found != live_.end(), fmt::format("microbatch {} is not alive", microbatch));
  return found->second;
}

std::vector<at::Tensor> Stage::written_buffers() const {
  const at::NoGradGuard no_graph;
  std::vector<at::Tensor> copies;
  for (const std::size_t buffer : written_) copies.push_back(kept_[buffer].clone());
  return copies;
}

std::vector<at::Tensor> Stage::forward(int microbatch, const std::vector<at::Tensor>& values, const CallContext& context,
                                       const std::vector<at::Tensor>& written) {
  PANPIPE_CHECK(values.size() == inputs_.size(), "one value per input");
  if (context.evaluates) {
    const at::NoGradGuard no_graph;
    return run(values, context, written_buffers());
  }
  Live state{.slice = context.slice};
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Arriving values are leaves here, and their gradients are sent back. Data need none: a first layer's would be computed in
    // vain.
    state.inputs.push_back(values[i].detach());
    if (gradient_inputs_[i]) state.inputs.back().requires_grad_(true);
  }
  std::vector<at::Tensor> results = run(state.inputs, context, written);
  state.roots = backward_roots(results);
  for (at::Tensor& result : results) result = result.detach();
  if (at::GradMode::is_enabled()) live_[microbatch] = std::move(state);
  return results;
}

std::vector<at::Tensor> Stage::backward(int microbatch, const std::vector<at::Tensor>& output_gradients) {
  const Live& state = live(microbatch);
  std::vector<at::Tensor> gradients = full_backward(state.roots, output_gradients, state.inputs);
  live_.erase(microbatch);
  return gradients;
}

std::vector<at::Tensor> Stage::input_gradient(int microbatch, const std::vector<at::Tensor>& output_gradients) {
  Live& state = live(microbatch);
  InputGradients result = input_gradients(state.roots, output_gradients, state.inputs);
  state.rest = std::move(result.rest);
  state.roots.clear();
  state.inputs.clear();
  state.slice.reset();
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
