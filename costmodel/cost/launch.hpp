// The host's time per launch. Internal to this folder.
#pragma once

#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"

namespace panpipe {

// The launch time of a process that drives one rank: the framework's own, else the calibration's.
inline Duration launch_alone(const Framework& framework, const Calibration& calibration) {
  return framework.launch > Duration(0) ? framework.launch : calibration.launch;
}

}  // namespace panpipe
