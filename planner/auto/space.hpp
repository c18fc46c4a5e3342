// What `--method auto` may choose of a scenario: the values of every degree, and why others are left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/prediction/experiment.hpp"
#include "planner/auto/configuration.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

struct Space {
  std::int64_t global_batch = 1;  // samples a step
  int devices = 1;
  int node_size = 1;
  std::vector<int> tensor, pipeline, data, micro, chunks, zero;  // ascending; `pipeline` up to the units of the workload
  std::vector<int> context, expert;                              // ascending
  std::vector<int> expert_tensor;                                // 1, or 0 = as tensor
  std::vector<int> one_zero;                                     // the stage that stands for all where there is one replica
  std::vector<bool> sequence_parallel;
  bool sequence_with_tensor = false;  // tensor parallelism has it
  std::vector<Recompute> recompute;
  std::vector<int> families;  // into forms()
  std::vector<AxisOrder> orders;
  bool pipeline_open = true, data_open = true;  // else exactly what is stated
  int stages = 0;                               // of a stated partition; 0 = open
  std::vector<std::string> notes;               // what was fixed, and what was left out of the space
};

// Throws InputError where what is stated leaves nothing.
Space space_of(const Experiment& experiment, const SearchLimits& limits = {});

// Number of configurations of one (tensor, micro, pipeline, data); 0 where the batch cannot be cut so.
std::int64_t microbatches_of(const Space& space, int micro, int data);  // 0 = not whole
// The shapes of a device's graph for one microbatch, in rounds whose plans exclude what follows: groups of experts that fill a
// node come first. Where neither context nor experts are searched there is one round.
std::vector<std::vector<GraphShape>> rounds_of(const Space& space, int micro);
// Whether a pipeline rank's devices make whole groups of experts.
bool holds_experts(const Degrees& degrees);
const std::vector<int>& zeros_of(const Space& space, Degrees degrees);  // ZeRO stages that make a difference

}  // namespace panpipe::planner
