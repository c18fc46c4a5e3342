#include "costmodel/estimate/estimate.hpp"

#include <algorithm>

#include "costmodel/estimate/compile.hpp"
#include "costmodel/estimate/replay.hpp"
#include "costmodel/estimate/unit_replay.hpp"

namespace panpipe {

TaskTimes estimate_times(const TaskGraph& graph) {
  if (graph.by_units) return replay_by_units(graph);
  const CompiledGraph compiled = compile(graph);
  std::vector<double> ends(static_cast<std::size_t>(compiled.structure.tasks) + 1);
  replay(compiled.structure, compiled.costs.data(), compiled.delays.data(), ends.data());
  TaskTimes times;
  times.task_start.reserve(graph.tasks.size());
  times.task_end.reserve(graph.tasks.size());
  for (const std::uint32_t node : compiled.task_node) {
    times.task_end.emplace_back(ends[node]);
    times.task_start.emplace_back(ends[node] - compiled.costs[compiled.structure.cost[node]]);
  }
  times.transfer_start.reserve(graph.transfers.size());
  times.transfer_end.reserve(graph.transfers.size());
  for (std::size_t i = 0; i < graph.transfers.size(); ++i) {
    const Transfer& transfer = graph.transfers[i];
    Ticks start(ends[compiled.ready_node[static_cast<std::size_t>(transfer.producer)]]);
    if (!compiled.receiver_node.empty()) start = std::max(start, Ticks(ends[compiled.receiver_node[i]]));
    const TransferLink& link = graph.links[static_cast<std::size_t>(transfer.link)];
    times.transfer_start.push_back(start);
    times.transfer_end.push_back(start + link.latency + link.transfer);
  }
  return times;
}

Timeline estimate(const TaskGraph& graph) { return make_timeline(graph, estimate_times(graph), TimelineKind::Estimated); }

}  // namespace panpipe
