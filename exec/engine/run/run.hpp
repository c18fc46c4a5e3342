// A run as one rank sees it: identical preparation on every rank, and the rank's work from the first barrier to the result.
#pragma once

#include <memory>
#include <optional>

#include "costmodel/prediction/experiment.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/shard_layout.hpp"
#include "exec/engine/slices/slice_graph.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/transport/transport.hpp"
#include "exec/launch/run_request.hpp"

namespace panpipe::exec {

class PublishedWeights;

// Identical on every rank and immutable, so that threads of one process share it.
struct PreparedRun {
  // Reads the scenario and makes the plan. Throws InputError with the key for unsupported settings (measured layers, tensor
  // parallelism ...).
  explicit PreparedRun(RunRequest asked);

  RunRequest request;
  Experiment experiment;
  Plan plan;
  std::optional<Workload> whole;     // if context-parallel ranks share sequences: the model for whole sequences
  std::optional<SliceGraph> slices;  // if the schedule cuts sequences, or ranks share them
  StageLayout layout;
  std::optional<ShardLayout> shards;                // under ZeRO 2 and 3
  std::shared_ptr<const PublishedWeights> weights;  // null: initial values are drawn

  // graph() is the graph of a pass, whole_graph() that of the data. They differ if sequences are cut.
  const OperatorGraph& graph() const { return slices ? slices->graph : whole_graph(); }
  const OperatorGraph& whole_graph() const { return whole ? *whole->graph : *experiment.workload.graph; }
  int world_size() const { return plan.device_count(); }
  std::int64_t samples_of_step() const {
    return std::int64_t{experiment.scenario.degrees.micro} * layout.microbatches * plan.data;
  }
};

// Trains and measures. Call it once per rank (process or thread), with ranks numbered as in mesh.hpp. Rank 0 gets the timeline of
// the step with the median time, the others an empty one. Throws PeerLost and the exceptions of training.
Timeline run_rank(const PreparedRun& run, Transport& transport);

}  // namespace panpipe::exec
