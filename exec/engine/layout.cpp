#include "exec/engine/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "costmodel/base/error.hpp"
#include "costmodel/workload/operands.hpp"

namespace panpipe::exec {
namespace {

// Only what the graph says, and only real numbers: an index has no gradient.
std::vector<bool> find_gradients(const OperatorGraph& graph) {
  std::vector<bool> needs;
  for (const Tensor& tensor : graph.tensors) {
    const bool is_float = tensor.dtype == DType::Float32 || tensor.dtype == DType::Float16 || tensor.dtype == DType::BFloat16 ||
                          tensor.dtype == DType::Float64 || tensor.dtype == DType::Complex64;
    needs.push_back(is_float && tensor.requires_gradient &&
                    (tensor.role == TensorRole::Parameter || tensor.role == TensorRole::Activation));
  }
  return needs;
}

}  // namespace

std::uint32_t Layout::tag(int message, int tensor, int microbatch, bool backward) const {
  return static_cast<std::uint32_t>(((message * most_tensors + tensor) * microbatches + microbatch) * 2 + (backward ? 1 : 0));
}

Layout make_layout(const OperatorGraph& graph, const Plan& plan) {
  Layout layout;
  layout.microbatches = plan.schedule.microbatches;
  layout.needs_gradient = find_gradients(graph);
  layout.stages.resize(plan.stages.size());
  std::vector<int> stage_of(graph.operators.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    StageRange& stage = layout.stages[s];
    const auto begins = [&](int unit) {
      return static_cast<int>(std::lower_bound(graph.operators.begin(), graph.operators.end(), unit,
                                               [](const Operator& op, int wanted) { return op.unit < wanted; }) -
                              graph.operators.begin());
    };
    stage.first_operator = begins(plan.stages[s].first_unit);
    stage.end_operator = begins(plan.stages[s].end_unit);
    if (stage.first_operator == stage.end_operator) throw InputError(fmt::format("stage {} holds no operator; move its cut", s));
    for (int op = stage.first_operator; op < stage.end_operator; ++op)
      stage_of[static_cast<std::size_t>(op)] = static_cast<int>(s);
  }
  if (graph.loss < 0) throw InputError("the graph has no loss: training needs a scalar output");

  std::map<std::pair<int, int>, std::set<int>> crossing;
  std::vector<std::set<int>> data(layout.stages.size()), kept(layout.stages.size()), outputs(layout.stages.size());
  for (std::size_t index = 0; index < graph.operators.size(); ++index) {
    const int here = stage_of[index];
    for_each_operand(graph.operators[index], [&](int tensor) {
      const Tensor& value = graph.tensors[static_cast<std::size_t>(tensor)];
      if (value.role == TensorRole::Input) {
        data[static_cast<std::size_t>(here)].insert(tensor);
      } else if (value.role != TensorRole::Activation) {
        kept[static_cast<std::size_t>(here)].insert(tensor);
      } else if (const int there = stage_of[static_cast<std::size_t>(value.producer)]; there != here) {
        crossing[{there, here}].insert(tensor);
        outputs[static_cast<std::size_t>(there)].insert(tensor);
      }
    });
  }
  for (const auto& [ends, tensors] : crossing) {
    Message message{ends.first, ends.second, {tensors.begin(), tensors.end()}, {}};
    for (const int tensor : message.tensors) message.gradient.push_back(layout.needs_gradient[static_cast<std::size_t>(tensor)]);
    layout.most_tensors = std::max(layout.most_tensors, static_cast<int>(message.tensors.size()));
    layout.stages[static_cast<std::size_t>(ends.first)].outgoing.push_back(static_cast<int>(layout.messages.size()));
    layout.stages[static_cast<std::size_t>(ends.second)].incoming.push_back(static_cast<int>(layout.messages.size()));
    layout.messages.push_back(std::move(message));
  }
  layout.loss_stage = stage_of[static_cast<std::size_t>(graph.tensors[static_cast<std::size_t>(graph.loss)].producer)];
  for (std::size_t s = 0; s < layout.stages.size(); ++s) {
    StageRange& stage = layout.stages[s];
    stage.data.assign(data[s].begin(), data[s].end());
    stage.parameters.assign(kept[s].begin(), kept[s].end());
    stage.outputs.assign(outputs[s].begin(), outputs[s].end());
    if (static_cast<int>(s) == layout.loss_stage && !outputs[s].count(graph.loss)) stage.outputs.push_back(graph.loss);
  }
  return layout;
}

}  // namespace panpipe::exec
