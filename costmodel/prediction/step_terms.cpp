#include "costmodel/prediction/step_terms.hpp"

#include <algorithm>

namespace panpipe {

int busiest_rank(const TaskGraph& graph) {
  int busiest = 0;
  double most = -1;
  for (int rank = 0; rank < graph.ranks; ++rank) {
    double busy = 0;
    each_cell(graph, rank, [&](const Task&, const Program& program) { busy += program.duration.base(); });
    if (busy > most) {
      most = busy;
      busiest = rank;
    }
  }
  return busiest;
}

StepTerms terms_of(const TaskGraph& graph, double exposed_communication, double step) {
  StepTerms terms;
  double of_optimizer = 0;  // exchanges that are part of its step
  int steps = 0;
  each_cell(graph, busiest_rank(graph), [&](const Task& task, const Program& program) {
    const double total = to_duration(program.duration).base(), tensor = to_duration(program.exposed_communication).base();
    if (task.kind == TaskKind::Optimizer) {
      ++steps;
      terms.optimizer += total;
      of_optimizer += tensor;
      return;
    }
    const Breakdown& parts = program.breakdown;
    terms.products += parts.compute.base();
    terms.traffic += parts.memory.base();
    terms.tensor += tensor;
    terms.host += total - (parts.compute.base() + parts.memory.base()) - tensor;
  });
  if (steps > 1)  // in a row
    for (double* term : {&terms.products, &terms.traffic, &terms.tensor, &terms.host, &terms.optimizer, &of_optimizer})
      *term /= steps;
  const double busy = terms.products + terms.traffic + terms.tensor + terms.host + terms.optimizer;
  terms.communication = std::min(std::max(0.0, exposed_communication - terms.tensor - of_optimizer), std::max(0.0, step - busy));
  terms.idle = step - busy - terms.communication;
  return terms;
}

StepTerms terms_of(const TaskGraph& graph, const Metrics& figures, double step) {
  const std::int32_t device = graph.device(busiest_rank(graph), 0, 0);
  const auto of_busiest = std::find_if(figures.per_device.begin(), figures.per_device.end(),
                                       [&](const DeviceMetrics& row) { return row.device == device; });
  return terms_of(graph, of_busiest == figures.per_device.end() ? 0 : of_busiest->exposed_communication_s, step);
}

}  // namespace panpipe
