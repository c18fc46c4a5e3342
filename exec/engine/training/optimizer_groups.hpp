// Parameters with their own settings: no weight decay, another learning rate.
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
  bool matrix = false;  // stepped as one (Muon)
  auto operator<=>(const ParameterNumbers&) const = default;
};

// The scenario's optimizer settings for every trained parameter, by root. They do not depend on how the model is cut. Throws
// InputError at a pattern that matches no parameter's name.
std::map<int, ParameterNumbers> parameter_numbers(const OperatorGraph& graph, const Scenario& scenario);

// Optimizer::state_names of a parameter with these numbers.
std::vector<std::string> state_names(OptimizerRequest request, const ParameterNumbers& numbers);

// One optimizer per set of numbers, with the interface of a single one.
class GroupedOptimizer {
 public:
  // `parameters` and `parts` as for Optimizer, with the numbers of each.
  GroupedOptimizer(const OptimizerRequest& request, const TrainingRequest& training, const std::vector<at::Tensor>& parameters,
                   const std::vector<ParameterNumbers>& numbers, const std::vector<MatrixParts>& parts = {});

  // One gradient per parameter; `update`: number of the update, for the learning-rate curve.
  void step(const std::vector<at::Tensor>& gradients, std::int64_t update);

  at::Tensor state(std::size_t name, std::size_t parameter) const;
  void set_updates(std::int64_t updates);

 private:
  struct Group {
    ParameterNumbers numbers;
    std::vector<std::size_t> parameters;  // in the given order
    std::unique_ptr<Optimizer> optimizer;
  };
  OptimizerRequest request_;
  TrainingRequest training_;
  std::vector<Group> groups_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // per parameter: its group, and its index in it
};

}  // namespace panpipe::exec
