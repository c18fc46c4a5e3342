// What the cost model says of measured runs: each row through the same path as `panpipe estimate`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/step_terms.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe {

struct RunPrediction {
  RunRow row;
  std::vector<std::string> assumed;
  std::string skipped;   // not empty: nothing was predicted
  std::string scenario;  // the text that was predicted
  double predicted_s = 0;
  double predicted_peak_gib = 0;
  double parameters = 0;  // of the model
  StepTerms terms;
  Likeness kind;
  StepInterval interval;   // from runs of other sources; once judged
  StepInterval elsewhere;  // from those of them on other devices

  double predicted_p10_s() const { return interval.low * predicted_s; }
  double predicted_p90_s() const { return interval.high * predicted_s; }
  // Whether the measured step lies in it; absent when there is no measured step or nothing was compared.
  std::optional<bool> inside() const;
  std::optional<bool> inside_elsewhere() const;  // whether it lies in the one from other devices
  bool predicted() const { return skipped.empty(); }
  // predicted / measured - 1; absent when either is.
  std::optional<double> error() const;
  std::optional<double> peak_error() const;
};

struct PredictionOptions {
  std::vector<std::string> calibrations;   // files; each for the devices it names
  std::map<std::string, double> left_out;  // id -> seconds: predictions that stand in for ours, of fits without the row's source
  int threads = 0;                         // 0: as many as the machine has
};

// Tables `id,left_out_s` as panpipe fit --left-out writes them. Throws InputError.
std::map<std::string, double> read_left_out(const std::vector<std::string>& files);

// In the order of the rows. A row that cannot be expressed or has no legal plan says why in `skipped`. Throws InputError for a
// calibration that cannot be read.
std::vector<RunPrediction> predict(const std::vector<RunRow>& rows, const PredictionOptions& options);

// Gives each run that was predicted the intervals that the table has for it, without the runs of its own source.
void judge(std::vector<RunPrediction>& runs, const EvidenceTable& table);

}  // namespace panpipe
