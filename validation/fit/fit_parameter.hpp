// The numbers of a device calibration that a fit may change: their keys, bounds and starts.
#pragma once

#include <string>
#include <vector>

#include "costmodel/profile/calibration.hpp"

namespace panpipe::validation {

struct FitParameter {
  const char* key;   // of the calibration file
  const char* unit;  // "us", "ms"; empty for shares and counts
  double low, high;  // plausible, in the unit
  double spread;     // ratio to the start that a single measured run may plausibly cause: the width of the weak prior
  double time;  // power with which times follow the number: -1 for rates, 1 for times, 0 where a slower cluster need not differ
  double (*get)(const Calibration& calibration);
  void (*set)(Calibration& calibration, double value);
  const char* bounds_source;  // source of these bounds
  bool if_named = false;      // fitted only where it is asked for by name
};

// All parameters, at most a dozen.
const std::vector<FitParameter>& fit_parameters();

// "0.794", "32.9 us": as written in a calibration file.
std::string value_text(const FitParameter& parameter, double value);

}  // namespace panpipe::validation
