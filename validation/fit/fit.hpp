// Fits a device calibration to measured runs: robust least squares on the estimate. docs/models/calibration.md has the equations.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "validation/error_sizes.hpp"
#include "validation/fit/fit_parameter.hpp"
#include "validation/fit/fit_rows.hpp"

namespace panpipe::validation {

struct FitProgress {
  std::string doing;      // "fit", "fold 2 of 5", "without zb"
  double mean_error = 0;  // of the best so far
};

struct FitOptions {
  std::vector<std::string> only;         // keys to fit; empty: all
  std::map<std::string, double> spread;  // key -> plausible ratio to its start; default: the parameter's own
  int folds = 5;
  int iterations = 30;  // at most
  // Moves all times of the start by one factor before the numbers are fitted: where the start is of another cluster.
  bool cluster_factor = false;
  double robust_scale = 0.05;  // of ln(predicted / measured): larger errors count by their size, not their square
  double balance = 0.5;        // a row weighs (rows of its source)^-balance: 0 = all rows equal, 1 = all sources equal
  std::function<void(const FitProgress&)> progress;
  std::function<bool()> stopped;  // polled from several threads; if true, the best so far is returned
};

struct FittedParameter {
  const FitParameter* parameter = nullptr;
  double start = 0, spread = 0, value = 0;
  double uncertainty = 0;  // one standard deviation
  bool at_bound = false;
  bool determined = true;  // false: the rows do not determine it, so it stays near its start
};

struct Fit {
  std::vector<FittedParameter> parameters;
  Calibration calibration;  // values as written to the file, to four digits
  FitOptions options;
  double cluster_factor = 1;  // on the start's times; 1 also where none was sought
  std::vector<std::string> row_ids, row_sources, row_frameworks;
  std::vector<double> predicted_s, measured_s;
  std::vector<double> left_out_s;                 // each row predicted by a fit without its source; empty or NaN: not computed
  ErrorSizes before, after;                       // on the fitted rows: with the start values, and with the fitted ones
  ErrorSizes folds;                               // each row predicted by a fit without its fold; no rows: not computed
  std::map<std::string, ErrorSizes> by_source;    // in sample
  std::map<std::string, ErrorSizes> without_own;  // each source predicted by a fit without it
  int iterations = 0;
  bool converged = false, interrupted = false;
  // Warnings from the left-out errors: "zb: 4.4 % when left out, 2.0 % in the fit".
  std::vector<std::string> overfits;
};

// False in a build without Ceres; fit() then throws MachineError.
bool fit_available();

// Starts from `start`. Throws InputError for an unknown key, no rows, or fewer rows than parameters; NoAnswer if stopped before
// anything was predicted.
Fit fit(const std::vector<FitRow>& rows, const Calibration& start, const FitOptions& options);

// Whether a calibration file was fitted to runs, which are of some cluster; others have a data sheet's values.
bool was_fitted(const std::string& calibration_file);

// The stated uncertainties of a calibration file: key -> uncertainty / value, for keys that state one. Throws InputError.
std::map<std::string, double> stated_spreads(const std::string& calibration_file);

// The record in a fit's file, in addition to its numbers.
struct FitRecord {
  std::string name, command;
  std::vector<std::string> devices;
  struct File {
    std::string name, sha256;
  };
  std::vector<File> files;
  std::vector<std::string> left_out;  // "id: reason"
};

// The text of calibration.yaml, with start, range and uncertainty of every fitted number, and the data of the fit.
std::string to_yaml(const Fit& fit, const FitRecord& record);
std::string to_table(const Fit& fit);
// The table `id,source,left_out_s` of the rows that were left out together with their source.
std::string left_out_csv(const Fit& fit);

ErrorSizes errors_of(const std::vector<double>& predicted, const std::vector<double>& measured);

}  // namespace panpipe::validation
