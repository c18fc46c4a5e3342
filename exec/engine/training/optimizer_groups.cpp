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

}  // namespace

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

}  // namespace panpipe::exec
