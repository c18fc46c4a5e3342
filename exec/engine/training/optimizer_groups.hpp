// Parameters with numbers of their own: no weight decay, another learning rate.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/graph.hpp"
#include "exec/engine/training/optimizer.hpp"

namespace panpipe::exec {

struct ParameterNumbers {
  double learning_rate = 0;  // after warm-up, before decay
  double weight_decay = 0;
  auto operator<=>(const ParameterNumbers&) const = default;
};

// Of every trained parameter, by root: what the scenario's optimizer says for it. The same for every cut of the model. InputError
// at a pattern that no parameter's name matches.
std::map<int, ParameterNumbers> parameter_numbers(const OperatorGraph& graph, const Scenario& scenario);

// An optimizer for each set of numbers, behind the interface of one.
class GroupedOptimizer {
 public:
  // `parameters` as Optimizer takes them, with the numbers of each.
  GroupedOptimizer(const OptimizerRequest& request, const TrainingRequest& training, const std::vector<at::Tensor>& parameters,
                   const std::vector<ParameterNumbers>& numbers);

  // One gradient per parameter; `update`: number of the update, for the course of the learning rates.
  void step(const std::vector<at::Tensor>& gradients, std::int64_t update);

  at::Tensor state(std::size_t name, std::size_t parameter) const;
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates);
  std::int64_t state_bytes() const;

 private:
  struct Group {
    ParameterNumbers numbers;
    std::vector<std::size_t> parameters;  // in the order given
    std::unique_ptr<Optimizer> optimizer;
  };
  OptimizerRequest request_;
  TrainingRequest training_;
  std::vector<Group> groups_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // by parameter: its group, and where it stands there
  std::int64_t updates_ = 0;
};

}  // namespace panpipe::exec
