// The request of `panpipe fit` and panpipe.fit(): a device calibration from measured runs, or from profiles of operators.
#pragma once

#include <string>
#include <vector>

#include "validation/fit/fit.hpp"
#include "validation/fit/profile_fit.hpp"

namespace panpipe::app {

struct FitRequest {
  std::vector<std::string> files, devices;
  std::vector<std::string> without;  // rows to leave out, by id or source: "NAME" or "NAME=WHY"
  std::string start;                 // file of a calibration, or name of a shipped one; empty: a-priori values
  std::string precision = "fp32";    // of the operators in a profile: fp32, tf32, bf16 or fp16
  validation::FitOptions fit;
};

// True if the files are profiles, false if they are runs. Throws InputError for a mixture, and for options out of range.
bool asks_for_profiles(const FitRequest& request);

struct FittedProfile {
  validation::ProfileFit fit;
  std::string device;  // name
};
FittedProfile fit_profiles(const FitRequest& request);

// The arguments of fit(rows, start, options), and the rows that it does not get.
struct PreparedFit {
  Calibration start;
  validation::FitOptions options;
  std::vector<validation::FitRow> rows;
  std::vector<std::string> asked_out, not_predicted;  // "id: reason"
};
// Throws InputError for a device without data sheet, for a name that no row has, and if no row can be predicted. Throws
// MachineError if this build has no Ceres.
PreparedFit prepare_fit(const FitRequest& request);

// The record of its origin that the calibration's file holds.
validation::FitRecord record_of(const FitRequest& request, const PreparedFit& prepared, const std::string& name,
                                const std::string& command);

}  // namespace panpipe::app
