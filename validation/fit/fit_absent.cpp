// Replaces the fit in a build without Ceres.
#include "base/error.hpp"
#include "validation/fit/fit.hpp"

namespace panpipe::validation {

bool fit_available() { return false; }

Fit fit(const std::vector<FitRow>&, const Calibration&, const FitOptions&) {
  throw MachineError("this build has no Ceres, which fits calibrations; install libceres-dev (tools/setup does) and build again");
}

}  // namespace panpipe::validation
