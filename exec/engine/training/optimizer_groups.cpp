#include "exec/engine/training/optimizer_groups.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/workload/hidden_matrices.hpp"
#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/training/learning_rate.hpp"

namespace panpipe::exec {
namespace {

using Roots = std::set<int>;

// The trained parameters of a kind.
Roots roots_of_kind(const OperatorGraph& graph, const Roots& trained, std::string_view kind) {
  Roots found;
  const auto add = [&](int tensor) {
    if (tensor < 0 || graph.tensors[tensor].role != TensorRole::Parameter) return;
    if (const int root = root_of(graph, tensor); trained.count(root) > 0) found.insert(root);
  };
  if (kind == "norms" || kind == "embeddings") {
    for (const Operator& op : graph.operators) {
      const OperatorRole role = row_of(op).role;
      if (kind == "norms" && role == OperatorRole::Norm) for_each_operand(op, add);
      if (kind == "embeddings" && role == OperatorRole::Embedding) add(tensor_argument(op, "weight"));
    }
    return found;
  }
  for (const int root : trained) {
    const Tensor& parameter = graph.tensors[root];
    if (kind == "vectors" ? parameter.shape.size() <= 1 : parameter.name.ends_with("bias")) found.insert(root);
  }
  return found;
}

// The trained parameters with a name, their own or one of those tied to them, that the pattern matches.
Roots roots_named(const OperatorGraph& graph, const Roots& trained, const std::string& pattern) {
  Roots found;
  for (std::size_t tensor = 0; tensor < graph.tensors.size(); ++tensor) {
    if (graph.tensors[tensor].role != TensorRole::Parameter) continue;
    const int root = root_of(graph, static_cast<int>(tensor));
    if (trained.count(root) > 0 && ::fnmatch(pattern.c_str(), graph.tensors[tensor].name.c_str(), 0) == 0) found.insert(root);
  }
  return found;
}

// InputError unless the pattern names something; `instead`: what else the key takes.
Roots roots_that_match(const OperatorGraph& graph, const Roots& trained, const Scenario& scenario, const std::string& key,
                       const std::string& pattern, const std::string& instead) {
  Roots found = roots_named(graph, trained, pattern);
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const int root : trained) names.push_back(graph.tensors[root].name);
  const auto nearest = nearest_name(pattern, names);
  const std::string likely = nearest ? *nearest : names.empty() ? "" : names.front();
  throw fault_at(
      scenario, key, fmt::format("no parameter of the model matches '{}'", pattern),
      fmt::format("{}a pattern is a whole name in which * stands for any text and ? for one letter; one of the names is '{}'",
                  instead, likely));
}

OptimizerRequest request_for(OptimizerRequest request, const ParameterNumbers& numbers) {
  request.weight_decay = numbers.weight_decay;
  if (steps_matrices(request.name) && !numbers.matrix) request.name = "adamw";  // what is no matrix
  return request;
}

}  // namespace

std::vector<std::string> state_names(OptimizerRequest request, const ParameterNumbers& numbers) {
  return Optimizer::state_names(request_for(std::move(request), numbers));
}

std::map<int, ParameterNumbers> parameter_numbers(const OperatorGraph& graph, const Scenario& scenario) {
  const OptimizerRequest& optimizer = scenario.optimizer;
  Roots trained;
  for (std::size_t tensor = 0; tensor < graph.tensors.size(); ++tensor)
    if (graph.tensors[tensor].role == TensorRole::Parameter && graph.tensors[tensor].requires_gradient)
      trained.insert(root_of(graph, static_cast<int>(tensor)));
  std::map<int, ParameterNumbers> numbers;
  const bool matrices = steps_matrices(optimizer.name);
  const std::vector<MatrixStack> stacks = matrices ? hidden_matrices(graph) : std::vector<MatrixStack>{};
  for (const int root : trained)
    numbers[root] = {optimizer.learning_rate, optimizer.weight_decay, matrices && stacks[root].count > 0};
  const std::vector<std::string> kinds(std::begin(kDecayKinds), std::end(kDecayKinds));
  for (std::size_t i = 0; i < optimizer.no_decay.size(); ++i) {
    const std::string& word = optimizer.no_decay[i];
    const bool kind = std::find(kinds.begin(), kinds.end(), word) != kinds.end();
    const Roots found = kind ? roots_of_kind(graph, trained, word)
                             : roots_that_match(graph, trained, scenario, fmt::format("optimizer.no_decay[{}]", i), word,
                                                fmt::format("kinds are {}; ", list_of(kinds)));
    for (const int root : found) numbers[root].weight_decay = 0;
  }
  Roots grouped;
  for (std::size_t i = 0; i < optimizer.groups.size(); ++i) {
    const OptimizerRequest::Group& group = optimizer.groups[i];
    for (const int root :
         roots_that_match(graph, trained, scenario, fmt::format("optimizer.groups[{}].match", i), group.match, "")) {
      if (!grouped.insert(root).second) continue;
      if (group.learning_rate) numbers[root].learning_rate = *group.learning_rate;
      if (group.weight_decay) numbers[root].weight_decay = *group.weight_decay;
    }
  }
  return numbers;
}

GroupedOptimizer::GroupedOptimizer(const OptimizerRequest& request, const TrainingRequest& training,
                                   const std::vector<at::Tensor>& parameters, const std::vector<ParameterNumbers>& numbers,
                                   const std::vector<MatrixParts>& parts)
    : request_(request), training_(training) {
  PANPIPE_CHECK(parameters.size() == numbers.size(), "numbers of every parameter");
  std::map<ParameterNumbers, std::size_t> group_of;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto [group, made] = group_of.try_emplace(numbers[i], groups_.size());
    if (made) groups_.push_back({numbers[i], {}, nullptr});
    places_.emplace_back(group->second, groups_[group->second].parameters.size());
    groups_[group->second].parameters.push_back(i);
  }
  for (Group& group : groups_) {
    std::vector<at::Tensor> own;
    std::vector<MatrixParts> own_parts;
    for (const std::size_t i : group.parameters) {
      own.push_back(parameters[i]);
      if (!parts.empty()) own_parts.push_back(parts[i]);
    }
    group.optimizer = std::make_unique<Optimizer>(request_for(request, group.numbers), std::move(own), std::move(own_parts));
  }
}

void GroupedOptimizer::step(const std::vector<at::Tensor>& gradients, std::int64_t update) {
  PANPIPE_CHECK(gradients.size() == places_.size(), "one gradient per parameter");
  for (Group& group : groups_) {
    std::vector<at::Tensor> own;
    for (const std::size_t i : group.parameters) own.push_back(gradients[i]);
    group.optimizer->step(own, learning_rate(request_, training_, update, group.numbers.learning_rate));
  }
}

at::Tensor GroupedOptimizer::state(std::size_t name, std::size_t parameter) const {
  const auto& [group, place] = places_[parameter];
  return groups_[group].optimizer->state(name, place);
}

void GroupedOptimizer::set_updates(std::int64_t updates) {
  for (Group& group : groups_) group.optimizer->set_updates(updates);
}

}  // namespace panpipe::exec
