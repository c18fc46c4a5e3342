// Trains an exported model for one step over threads and holds losses, gradients and buffers against PyTorch's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// The results of a step. Gradients by parameter, summed over the ranks that hold it.
struct StepOutcome {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients, buffers;
};

// The reference that tests/exec/export_small_models.py and tools/coverage.py write next to an archive.
struct Reference {
  int micro = 0, microbatches = 0;
  std::vector<std::map<std::string, at::Tensor>> batches;  // per microbatch, by input name
  StepOutcome expected;
};
Reference read_reference(const std::string& safetensors_file);

struct Cut {
  std::string schedule = "gpipe";
  int ranks = 1;
  int stages_per_rank = 1;
  Recompute recompute = Recompute::None;
  std::vector<int> starts = {};  // first unit of each stage after the first; empty: as many units in each
  std::string text() const;
};
Plan plan_of(const OperatorGraph& graph, const Cut& cut, int microbatches);
StepOutcome train(const OperatorGraph& graph, const Plan& plan, const Reference& reference);

// Largest difference relative to the largest gradient of its parameter, and where.
struct Difference {
  double loss = 0, gradient = 0, buffer = 0;
  std::string worst_gradient, worst_buffer, missing;  // `missing`: a gradient that only one of the two has
};
// `floor`: a parameter whose gradients all lie below this share of the largest of all is held against that share: with a
// tolerance of 1e-5 that is the resolution of fp32 (a bias in front of a normalization has a gradient of rounding errors only).
Difference compare(const OperatorGraph& graph, const StepOutcome& expected, const StepOutcome& found, double floor = 1e-2);

}  // namespace panpipe::exec
