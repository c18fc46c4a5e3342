// What the cost model says of measured runs: each row through the same path as `panpipe estimate`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validation/runs/run_row.hpp"

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

struct RunPrediction {
  RunRow row;
  std::vector<std::string> assumed;
  std::string skipped;   // not empty: nothing was predicted
  std::string scenario;  // the text that was predicted
  double predicted_s = 0;
  double predicted_peak_gib = 0;
  double parameters = 0;  // of the model
  StepTerms terms;

  bool predicted() const { return skipped.empty(); }
  // predicted / measured - 1; absent when either is.
  std::optional<double> error() const;
  std::optional<double> peak_error() const;
};

struct PredictionOptions {
  std::vector<std::string> calibrations;  // files; each for the devices it names
  int threads = 0;                        // 0: as many as the machine has
};

// In the order of the rows. A row that cannot be expressed or has no legal plan says why in `skipped`. Throws InputError for a
// calibration that cannot be read.
std::vector<RunPrediction> predict(const std::vector<RunRow>& rows, const PredictionOptions& options);

}  // namespace panpipe
