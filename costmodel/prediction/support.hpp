// What of a prediction was ever compared with measured runs, and what was not: behind `panpipe support`.
#pragma once

#include <string>
#include <vector>

#include "costmodel/prediction/prediction.hpp"

namespace panpipe {

// One thing that a prediction is about, and the compared runs that have it too, whatever else they are.
struct SupportedPart {
  std::string what, value;  // "device", "A100-SXM"
  int runs = 0, sources = 0;
  double mean_error = 0, worst_error = 0;  // predicted / measured - 1: mean of the sizes, and the largest with its sign
};

// Where a number of a device's calibration comes from.
enum class NumberOrigin { Fitted, Measured, Inferred };
const char* name_of(NumberOrigin origin);  // "fitted", "measured", "inferred"

struct SupportedNumber {
  std::string key, value, source;
  NumberOrigin origin{};
};

struct SupportedDevice {
  std::string device, calibration;
  std::vector<SupportedNumber> numbers;
};

struct Support {
  StepInterval interval;
  std::vector<SupportedPart> parts;
  std::vector<SupportedDevice> devices;
  std::vector<std::string> never_compared;  // "device H20", "schedule zb-v"
};

Support support_of(const Scenario& scenario, const Likeness& kind, const EvidenceTable& table);

// By what the source says of itself: least squares over runs; taken from another device or assumed; else published or measured.
NumberOrigin origin_of_number(const std::string& source);

}  // namespace panpipe
