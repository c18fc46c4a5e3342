#include "costmodel/prediction/step_terms.hpp"

#include <algorithm>

namespace panpipe {
namespace {

// The pipeline rank whose passes take longest.
int busiest_rank(const TaskGraph& graph) {
  int busiest = 0;
  double most = -1;
  for (int rank = 0; rank < graph.ranks; ++rank) {
    double busy = 0;
    for (auto t = graph.rank_begin[static_cast<std::size_t>(rank)]; t < graph.rank_begin[static_cast<std::size_t>(rank) + 1];
         ++t) {
      const Task& task = graph.tasks[static_cast<std::size_t>(t)];
      if (task.program >= 0 && task.lane == Lane::Compute && task.group_size > 0)  // a group has one program
        busy += graph.programs[static_cast<std::size_t>(task.program)].duration.base();
    }
    if (busy > most) {
      most = busy;
      busiest = rank;
    }
  }
  return busiest;
}

}  // namespace

StepTerms terms_of(const TaskGraph& graph, const Metrics& figures, double step) {
  StepTerms terms;
  const auto rank = static_cast<std::size_t>(busiest_rank(graph));
  for (auto t = graph.rank_begin[rank]; t < graph.rank_begin[rank + 1]; ++t) {
    const Task& task = graph.tasks[static_cast<std::size_t>(t)];
    if (task.program < 0 || task.lane != Lane::Compute || task.group_size == 0) continue;
    const Program& program = graph.programs[static_cast<std::size_t>(task.program)];
    const double total = to_duration(program.duration).base();
    if (task.kind == TaskKind::Optimizer) {
      terms.optimizer += total;
      continue;
    }
    const Breakdown& parts = program.breakdown;
    const double tensor = to_duration(program.exposed_communication).base();
    const double known = parts.compute.base() + parts.memory.base();
    terms.products += parts.compute.base();
    terms.traffic += parts.memory.base();
    terms.tensor += tensor;
    terms.host += total - known - tensor;
  }
  const double busy = terms.products + terms.traffic + terms.tensor + terms.host + terms.optimizer;
  for (const DeviceMetrics& device : figures.per_device)
    if (device.rank == static_cast<std::int32_t>(rank)) {
      terms.communication = std::max(0.0, device.exposed_communication_s - terms.tensor);
      break;
    }
  terms.communication = std::min(terms.communication, std::max(0.0, step - busy));
  terms.idle = step - busy - terms.communication;
  return terms;
}

}  // namespace panpipe
