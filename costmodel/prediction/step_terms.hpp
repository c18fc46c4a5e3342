// Divides a predicted step into terms.
#pragma once

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Time per cause on the device that computes longest. Seconds; the terms add up to the step.
struct StepTerms {
  double products = 0;  // matrix products and attention
  double traffic = 0;   // element-wise operators, normalizations, loss
  double tensor = 0;    // tensor-parallel collectives
  double host = 0;      // launches that the device does not hide, and kernel gaps
  double optimizer = 0;
  double communication = 0;  // exposed: stage hand-overs, data-parallel collectives
  double idle = 0;           // bubble: nothing of this device in flight
};

// Calls visit(task, program) for each pass, group and optimizer step of a rank.
template <class Visit>
void each_cell(const TaskGraph& graph, int rank, Visit visit) {
  for (auto t = graph.rank_begin[static_cast<std::size_t>(rank)]; t < graph.rank_begin[static_cast<std::size_t>(rank) + 1]; ++t) {
    const Task& task = graph.tasks[static_cast<std::size_t>(t)];
    if (task.program >= 0 && task.lane == Lane::Compute && task.group_size > 0)  // a group has one program
      visit(task, graph.programs[static_cast<std::size_t>(task.program)]);
  }
}

// What the terms are called: in documents, and for people.
struct StepTerm {
  const char *key, *words;
  double StepTerms::*of;
};
constexpr StepTerm kStepTerms[] = {{"products_s", "products", &StepTerms::products},
                                   {"traffic_s", "element-wise, normalization, loss", &StepTerms::traffic},
                                   {"tensor_s", "tensor-parallel collectives", &StepTerms::tensor},
                                   {"host_s", "launches", &StepTerms::host},
                                   {"optimizer_s", "optimizer", &StepTerms::optimizer},
                                   {"communication_s", "exposed communication", &StepTerms::communication},
                                   {"idle_s", "bubble", &StepTerms::idle}};

// The rank whose passes take longest. The terms are for its device.
int busiest_rank(const TaskGraph& graph);

// `step`: seconds to which the terms add up; the remainder is idle. `exposed_communication`: seconds of the busiest rank's device
// (DeviceMetrics).
StepTerms terms_of(const TaskGraph& graph, double exposed_communication, double step);
StepTerms terms_of(const TaskGraph& graph, const Metrics& figures, double step);

}  // namespace panpipe
