// A run from a rank's point of view: what every rank prepares alike, and a rank's life from the first barrier to the result.
#pragma once

#include <memory>
#include <optional>

#include "costmodel/prediction/experiment.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/slices/slice_graph.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/transport/transport.hpp"
#include "exec/launch/run_request.hpp"

namespace panpipe::exec {

class PublishedWeights;

// The same on every rank, and immutable: threads of one process share it.
struct PreparedRun {
  // Reads the scenario, makes the plan. InputError: what cannot be run (measured layers, tensor parallelism ...), with the key.
  explicit PreparedRun(RunRequest asked);

  RunRequest request;
  Experiment experiment;
  Plan plan;
  std::optional<Workload> whole;     // where context-parallel ranks share sequences: the model of whole ones
  std::optional<SliceGraph> slices;  // where the schedule cuts sequences, or ranks share them
  StageLayout layout;
  std::shared_ptr<const PublishedWeights> weights;  // null: the model begins with drawn values

  // What a pass computes; and what data are for: they differ where sequences are cut.
  const OperatorGraph& graph() const { return slices ? slices->graph : whole_graph(); }
  const OperatorGraph& whole_graph() const { return whole ? *whole->graph : *experiment.workload.graph; }
  int world_size() const { return exec::world_size(plan); }
};

// Trains and measures; called once per rank (process or thread). Rank r is where mesh.hpp says.
// Rank 0 gets the timeline of the step with the median time, the others an empty one. Throws PeerLost and what training throws.
Timeline run_rank(const PreparedRun& run, Transport& transport);

}  // namespace panpipe::exec
