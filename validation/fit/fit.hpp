// Measured runs -> a device calibration: robust least squares on the estimate. docs/models/calibration.md has the equations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validation/fit/fit_parameter.hpp"
#include "validation/fit/fit_rows.hpp"

namespace panpipe {

struct FitOptions {
  std::vector<std::string> only;  // keys to fit; empty: all that the rows tell something about
  int folds = 5;
  int iterations = 30;  // at most
};

struct FittedParameter {
  const FitParameter* parameter = nullptr;
  double start = 0, value = 0;
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
  Calibration calibration;
  std::vector<std::string> row_ids;
  std::vector<double> predicted_s, measured_s;
  FitErrors before, after;                       // on the rows fitted: with the start values, with the fitted ones
  FitErrors folds;                               // each row predicted by a fit without its fold
  std::map<std::string, FitErrors> by_source;    // in sample
  std::map<std::string, FitErrors> without_own;  // each source predicted by a fit without it
  int iterations = 0;
  std::string termination;
};

// False in a build without Ceres; fit() then throws MachineError.
bool fit_available();

// Starts from `start`. Throws InputError for an unknown key or fewer rows than parameters.
Fit fit(const std::vector<FitRow>& rows, const Calibration& start, const FitOptions& options);

// calibration.yaml, with start, range and uncertainty of every fitted number and what it was fitted on.
std::string to_yaml(const Fit& fit, const std::string& name, const std::vector<std::string>& devices);
std::string to_table(const Fit& fit);

FitErrors errors_of(const std::vector<double>& predicted, const std::vector<double>& measured);

}  // namespace panpipe
