// The host's time per launch (docs/models/compute.md#the-hosts-time-per-launch).
#pragma once

#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"

namespace panpipe {

// The launches of presets that state none, on the host for which the others state theirs: fitted to published runs on A100.
constexpr Duration kUnstatedLaunch = micros(32.9);

// What software that a preset gives this time takes on the device's host: presets are relative to each other, devices measured.
// What a scenario states itself has no source, and holds as it is.
inline Duration launch_of(Duration stated, const char* key, const Framework& framework, const Calibration& calibration) {
  if (stated <= Duration(0)) return calibration.launch;
  return framework.sources.contains(key) ? calibration.launch * (stated / kUnstatedLaunch) : stated;
}

// The launch time of a process that drives one rank.
inline Duration launch_alone(const Framework& framework, const Calibration& calibration) {
  return launch_of(framework.launch, "launch", framework, calibration);
}

// The same of parameters that are gathered: hooks add to it, with adapters those of more modules. Bounds of a step are taken
// without them.
inline Duration sharded_launch(const Framework& framework, const Calibration& calibration, double hooked_modules) {
  const Duration alone = launch_alone(framework, calibration);
  const Duration hooks = launch_of(framework.sharded_launch, "sharded_launch", framework, calibration) - alone;
  return framework.sharded_launch > Duration(0) && hooks > Duration(0) ? alone + hooks * hooked_modules : alone;
}

}  // namespace panpipe
