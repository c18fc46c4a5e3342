// A measured step beside its prediction, group of kernels by group: where the difference lies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/prediction/prediction.hpp"
#include "jobs/kineto_trace.hpp"

namespace panpipe::jobs {

struct TraceRow {
  std::string group;        // "products"
  double measured_us = 0;   // of a step
  double predicted_us = 0;  // 0 without a prediction
  bool communication = false;
  bool total = false;  // "step", and what it is made of: compute, exposed communication, idle
};

// What a step of one device is predicted to take.
struct PredictedGroups {
  double group_us[kKernelGroups] = {};  // normalizations stand with the element-wise operators, as the cost model prices them
  double exposed_us = 0, idle_us = 0, step_us = 0;
  int device = 0;
};

// The cost model's terms for every unit of the device's stages, and the timeline's collectives. Times of compute are those of an
// idle device: gaps between kernels and the wait for other ranks stand in `idle`. InputError where there is no such device.
PredictedGroups predicted_groups(const Experiment& experiment, const Plan& plan, const Prediction& prediction, int device);

// The rows of a table, groups that neither side has left out. `predicted` may be null.
std::vector<TraceRow> rows_of(const TraceSummary& measured, const PredictedGroups* predicted);

// For people, and as a document (docs/file-formats.md, panpipe-kernels/1).
std::string trace_table(const KinetoTrace& trace, const TraceSummary& measured, const PredictedGroups* predicted);
std::string trace_json(const KinetoTrace& trace, const TraceSummary& measured, const PredictedGroups* predicted);

}  // namespace panpipe::jobs
