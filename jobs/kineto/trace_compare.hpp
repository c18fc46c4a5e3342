// Compares a measured step with its prediction by group of kernels, to locate the difference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/prediction/prediction.hpp"
#include "jobs/kineto/kineto_trace.hpp"

namespace panpipe::jobs {

struct TraceRow {
  std::string group;        // "products"
  double measured_us = 0;   // per step
  double predicted_us = 0;  // 0 without a prediction
  bool communication = false;
  bool total = false;  // "step" and its components: compute, exposed communication, idle
};

// The predicted times of a step on one device. Microseconds.
struct PredictedGroups {
  double group_us[kKernelGroups] = {};  // normalizations are included in the element-wise operators, as in the cost model
  double exposed_us = 0, idle_us = 0, step_us = 0;
  int device = 0;
};

// The cost model's terms for every unit of the device's stages, and the timeline's collectives. Compute times assume an idle
// device; gaps between kernels and the wait for other ranks are in `idle`. Throws InputError if the device does not exist.
PredictedGroups predicted_groups(const Experiment& experiment, const Plan& plan, const Prediction& prediction, int device);

// The rows of a table, without groups absent on both sides. `predicted` may be null.
std::vector<TraceRow> rows_of(const TraceSummary& measured, const PredictedGroups* predicted);

// For people, and as a document (docs/file-formats.md, panpipe-kernels/1).
std::string trace_table(const KinetoTrace& trace, const TraceSummary& measured, const PredictedGroups* predicted);
std::string trace_json(const KinetoTrace& trace, const TraceSummary& measured, const PredictedGroups* predicted);

}  // namespace panpipe::jobs
