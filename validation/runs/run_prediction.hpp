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
  bool fits = true;       // what is predicted not to fit but ran contradicts the prediction
  double parameters = 0;  // of the model
  StepTerms terms;
  StepTraits traits;
  double by_model_s = 0;  // what is predicted without given rows
  bool given = false;     // evidence for the other rows of its source: neither judged nor counted
  // Of the interval that should hold 80 % of steps; 0: not stated. Set by set_intervals().
  double predicted_p10_s = 0, predicted_p90_s = 0;

  // True if the measured step lies in the interval; nullopt without a measured step or an interval.
  std::optional<bool> inside() const;
  bool predicted() const { return skipped.empty(); }
  // predicted / measured - 1; nullopt if either is absent, or the row is given.
  std::optional<double> error() const;
  std::optional<double> peak_error() const;
  // As evidence; needs a prediction and a measured step.
  ComparedStep compared() const;
};

struct PredictionOptions {
  std::vector<std::string> calibrations;   // files, each for the devices it names
  std::map<std::string, double> left_out;  // id -> seconds: predictions to use instead, from fits without the row's source
  int threads = 0;                         // 0: all of the machine
};

// Reads tables `id,left_out_s` as written by panpipe fit --left-out. Throws InputError.
std::map<std::string, double> read_left_out(const std::vector<std::string>& files);

// The predicted peak that a trainer prints, of StepFigures or Metrics. `kind`, as in the column peak_kind: allocated by tensors
// (torch.cuda.max_memory_allocated); reserved, with what the allocator loses; device or "", with the context.
template <class Figures>
double peak_of_kind(const Figures& figures, std::string_view kind) {
  return kind == "allocated"  ? figures.allocated_memory_bytes
         : kind == "reserved" ? figures.reserved_memory_bytes
                              : figures.peak_memory_bytes;
}

// In the order of the rows. If a row cannot be expressed or has no legal plan, `skipped` gives the reason. Throws InputError for
// an unreadable calibration.
std::vector<RunPrediction> predict(const std::vector<RunRow>& rows, const PredictionOptions& options);

// Sets the intervals by the prior. Rows with these ids are evidence for the others of their source, whose predictions they move.
// Throws InputError for an id that no predicted and measured row has.
void set_intervals(std::vector<RunPrediction>& runs, const UncertaintyPrior& prior, const std::vector<std::string>& given = {});

}  // namespace panpipe::validation
