// Where a predicted step goes, as terms that add up to it.
#pragma once

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Where the predicted step goes on the device that computes longest. Seconds; they add up to the step.
struct StepTerms {
  double products = 0;  // matrix products and attention
  double traffic = 0;   // element-wise operators, normalizations, loss
  double tensor = 0;    // tensor-parallel collectives
  double host = 0;      // launches that the device does not hide, kernel gaps
  double optimizer = 0;
  double communication = 0;  // exposed: stage hand-overs, data-parallel collectives
  double idle = 0;           // bubble, nothing of this device in flight
};

// The rank of the graph whose passes take longest: of whose device the terms are.
int busiest_rank(const TaskGraph& graph);

// `step`: seconds that the terms shall add up to; what is left of it is idle. `exposed_communication`: seconds of the device of
// the busiest rank (DeviceMetrics).
StepTerms terms_of(const TaskGraph& graph, double exposed_communication, double step);
StepTerms terms_of(const TaskGraph& graph, const Metrics& figures, double step);

}  // namespace panpipe
