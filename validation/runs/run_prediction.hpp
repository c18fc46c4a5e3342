// Predicts measured runs: each row takes the same path as `panpipe estimate`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/step_terms.hpp"
#include "costmodel/profile/framework.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe::validation {

struct RunPrediction {
  RunRow row;
  std::vector<std::string> assumed;
  std::string skipped;   // reason; not empty: nothing was predicted
  std::string scenario;  // text of the predicted scenario
  double predicted_s = 0;
  double predicted_peak_gib = 0;
  double parameters = 0;  // of the model
  StepTerms terms;
  Likeness kind;
  StepInterval interval;   // from runs of other sources; set by judge()
  StepInterval elsewhere;  // from such runs on other devices

  double predicted_p10_s() const { return interval.low * predicted_s; }
  double predicted_p90_s() const { return interval.high * predicted_s; }
  // True if the measured step lies in the interval; nullopt without a measured step or without compared runs.
  std::optional<bool> inside() const;
  std::optional<bool> inside_elsewhere() const;  // the same for the interval from other devices
  bool predicted() const { return skipped.empty(); }
  // predicted / measured - 1; nullopt if either is absent.
  std::optional<double> error() const;
  std::optional<double> peak_error() const;
};

struct PredictionOptions {
  std::vector<std::string> calibrations;   // files, each for the devices it names
  std::map<std::string, double> left_out;  // id -> seconds: predictions to use instead, from fits without the row's source
  int threads = 0;                         // 0: all of the machine
};

// Reads tables `id,left_out_s` as written by panpipe fit --left-out. Throws InputError.
std::map<std::string, double> read_left_out(const std::vector<std::string>& files);

// The part of a predicted peak (DeviceMetrics::peak_memory_bytes) that a trainer prints. `kind`, as in the column peak_kind:
// allocated by tensors (torch.cuda.max_memory_allocated); reserved, with what the allocator loses; device or "", with the
// context.
double peak_of_kind(const Framework& framework, double peak_bytes, const std::string& kind);

// In the order of the rows. If a row cannot be expressed or has no legal plan, `skipped` gives the reason. Throws InputError for
// an unreadable calibration.
std::vector<RunPrediction> predict(const std::vector<RunRow>& rows, const PredictionOptions& options);

// Sets the intervals of each predicted run from the table, without the runs of its own source.
void judge(std::vector<RunPrediction>& runs, const EvidenceTable& table);

}  // namespace panpipe::validation
