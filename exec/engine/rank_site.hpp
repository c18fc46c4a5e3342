// What the parts of a rank share in a run.
#pragma once

#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/workload/graph.hpp"
#include "exec/engine/measure/span_log.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// It outlives them, and what it refers to outlives it.
struct RankSite {
  const OperatorGraph& graph;
  const Plan& plan;
  const StageLayout& layout;
  Transport& transport;
  at::Device device = at::kCPU;
  Clock::duration deadline = std::chrono::seconds(10);  // longest wait for a peer
  MeshPlace place = place_of(plan, transport.rank());
  SpanLog spans = SpanLog(device);            // of the step under way
  Action action{};                            // the pass that runs, with the number of its microbatch in its own step
  std::vector<SpanLog::Interval> waits = {};  // of its step that runs: in which its work stands still
};

}  // namespace panpipe::exec
