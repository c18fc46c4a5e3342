// The space of `--method auto` for a scenario: the values of every degree, and the reasons for leaving others out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/prediction/experiment.hpp"
#include "planner/auto/configuration.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

struct Space {
  std::int64_t global_batch = 1;  // samples per step
  int devices = 1;
  int node_size = 1;
  std::vector<int> tensor, pipeline, data, micro, chunks, zero;  // ascending; `pipeline` up to the units of the workload
  std::vector<int> context, expert;                              // ascending
  std::vector<int> expert_tensor;                                // 1, or 0 = as tensor
  std::vector<int> zero_with_pipeline;
  std::vector<int> one_zero;  // the only ZeRO stage tried with one replica, where all are equal; none: one replica cannot be
  std::vector<bool> sequence_parallel;
  bool sequence_with_tensor = false;  // sequence parallelism is always on with tensor parallelism
  bool shards_where_divided = false;  // several data ranks where there are a pipeline or tensor ranks
  std::vector<Recompute> recompute;
  std::vector<int> families;  // into forms()
  std::vector<AxisOrder> orders;
  bool pipeline_open = true, data_open = true;  // false: exactly as stated
  int stages = 0;                               // of a stated partition; 0 = open
  std::vector<std::string> notes;               // fixed values, and values left out of the space
};

// Throws InputError if the stated values leave no configuration.
Space space_of(const Experiment& experiment);

// Number of microbatches for these degrees; 0 if the batch cannot be divided so.
std::int64_t microbatches_of(const Space& space, int micro, int data);
constexpr std::size_t kShapesOfRound = 16;
// The shapes of a device's graph for one microbatch, in rounds. Plans of earlier rounds exclude later ones, so groups of experts
// that fill a node come first. If neither context nor experts are searched there is one round.
std::vector<std::vector<Degrees>> rounds_of(const Space& space, int micro);
const std::vector<int>& zeros_of(const Space& space, const Degrees& degrees);  // ZeRO stages with different results

}  // namespace panpipe::planner
