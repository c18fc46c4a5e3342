// The numbers of a device calibration that a fit may change: where they stand, what they may be, what they start from.
#pragma once

#include <string>
#include <vector>

#include "costmodel/profile/calibration.hpp"

namespace panpipe {

struct FitParameter {
  const char* key;   // of the calibration file
  const char* unit;  // "us", "ms"; empty for shares and counts
  double low, high;  // plausible, in the unit
  double spread;     // how far from the start, as a ratio, a single measured run should pull it: the weak prior's width
  double (*get)(const Calibration& calibration);
  void (*set)(Calibration& calibration, double value);
  const char* bounds_source;  // why these bounds
};

// All of them, at most a dozen.
const std::vector<FitParameter>& fit_parameters();

// "0.794", "32.9 us": as a calibration file has it.
std::string value_text(const FitParameter& parameter, double value);

}  // namespace panpipe
