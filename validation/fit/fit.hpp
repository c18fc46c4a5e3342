// Measured runs -> a device calibration: robust least squares on the estimate. docs/models/calibration.md has the equations.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "validation/fit/fit_parameter.hpp"
#include "validation/fit/fit_rows.hpp"

namespace panpipe {

struct FitProgress {
  std::string doing;      // "fit", "fold 2 of 5", "without zb"
  double mean_error = 0;  // of the best so far
};

struct FitOptions {
  std::vector<std::string> only;  // keys to fit; empty: all
  std::map<std::string, double>
      spread;  // key -> how far from its start, as a ratio, it may plausibly lie; else the parameter's own
  int folds = 5;
  int iterations = 30;         // at most
  double robust_scale = 0.05;  // of ln(predicted / measured): beyond it a row counts by its size, not its square
  double balance = 0.5;        // a row weighs (rows of its source)^-balance: 0 all rows alike, 1 all sources alike
  std::function<void(const FitProgress&)> progress;
  std::function<bool()> stopped;  // asked often, from several threads; then the best so far is the answer
};

struct FittedParameter {
  const FitParameter* parameter = nullptr;
  double start = 0, spread = 0, value = 0;
  double uncertainty = 0;  // one standard deviation
  bool at_bound = false;
  bool determined = true;  // false: the rows say too little, it stays near its start
};

// Errors of predictions over rows, as shares.
struct FitErrors {
  int rows = 0;
  double mean = 0, median = 0, worst = 0, bias = 0;
};

struct Fit {
  std::vector<FittedParameter> parameters;
  Calibration calibration;  // values as the file has them, to four digits
  FitOptions options;
  std::vector<std::string> row_ids, row_sources, row_frameworks;
  std::vector<double> predicted_s, measured_s;
  std::vector<double> left_out_s;                // each row predicted by a fit without its source; empty or NaN: not done
  FitErrors before, after;                       // on the rows fitted: with the start values, with the fitted ones
  FitErrors folds;                               // each row predicted by a fit without its fold; no rows: not done
  std::map<std::string, FitErrors> by_source;    // in sample
  std::map<std::string, FitErrors> without_own;  // each source predicted by a fit without it
  int iterations = 0;
  bool converged = false, interrupted = false;
  // What the left-out errors say against it: "zb: 4.4 % when left out, 2.0 % in the fit".
  std::vector<std::string> overfits;
};

// False in a build without Ceres; fit() then throws MachineError.
bool fit_available();

// Starts from `start`. Throws InputError for an unknown key, no rows, or fewer rows than parameters; NoAnswer when stopped before
// anything was predicted.
Fit fit(const std::vector<FitRow>& rows, const Calibration& start, const FitOptions& options);

// How sure a calibration's file is of its numbers: key -> uncertainty / value, of those that state one. Throws InputError.
std::map<std::string, double> stated_spreads(const std::string& calibration_file);

// What a fit's file says besides its numbers.
struct FitRecord {
  std::string name, command;
  std::vector<std::string> devices;
  struct File {
    std::string name, sha256;
  };
  std::vector<File> files;
  std::vector<std::string> left_out;  // "id: reason"
};

// calibration.yaml, with start, range and uncertainty of every fitted number and what it was fitted on.
std::string to_yaml(const Fit& fit, const FitRecord& record);
std::string to_table(const Fit& fit);
// The table `id,source,left_out_s` of the rows that were left out with their source.
std::string left_out_csv(const Fit& fit);

FitErrors errors_of(const std::vector<double>& predicted, const std::vector<double>& measured);

}  // namespace panpipe
