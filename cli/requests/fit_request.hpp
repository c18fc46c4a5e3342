// What `panpipe fit` and panpipe.fit() are asked: measured runs, or profiles of operators, to a device calibration.
#pragma once

#include <string>
#include <vector>

#include "base/precision.hpp"
#include "validation/fit/fit.hpp"
#include "validation/fit/profile_fit.hpp"

namespace panpipe::cli {

struct FitRequest {
  std::vector<std::string> files, devices;
  std::vector<std::string> without;       // ids or sources whose rows are left out, "NAME" or "NAME=WHY"
  std::string start;                      // a calibration's file, or the name of a shipped one; empty: a-priori values
  Precision precision = Precision::Fp32;  // of a profile's operators
  FitOptions fit;
};

// Whether the files are profiles, not runs. InputError: some are.
bool asks_for_profiles(const FitRequest& request);

struct FittedProfile {
  ProfileFit fit;
  std::string device;  // its name
};
FittedProfile fit_profiles(const FitRequest& request);

// Rows made ready: fit(rows, start, options) is next.
struct PreparedFit {
  Calibration start;
  FitOptions options;
  std::vector<FitRow> rows;
  std::vector<std::string> asked_out, not_predicted;  // "id: reason"
};
// InputError: a device without data sheet, a name that no row has, no row that can be predicted. MachineError: no Ceres here.
PreparedFit prepare_fit(const FitRequest& request);

// What the calibration's file says of where it comes from.
FitRecord record_of(const FitRequest& request, const PreparedFit& prepared, const std::string& name, const std::string& command);

}  // namespace panpipe::cli
