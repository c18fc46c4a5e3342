// The parts of a prediction that were compared with measured runs, and those that were not: `panpipe support`.
#pragma once

#include <string>
#include <vector>

#include "costmodel/prediction/prediction.hpp"

namespace panpipe {

// One property of a prediction, and the compared runs that share it, whatever their other properties.
struct SupportedPart {
  std::string what, value;  // "device", "A100-SXM"
  int runs = 0, sources = 0;
  double mean_error = 0,
         worst_error = 0;  // predicted / measured - 1: mean of the absolute values, and the largest one with its sign
};

// The origin of a number in a device's calibration.
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
  std::vector<SupportedPart> parts;
  std::vector<SupportedDevice> devices;
  std::vector<std::string> never_compared;  // "device H20"
};

Support support_of(const Scenario& scenario, const StepTraits& traits, const EvidenceTable& table);

// Classifies a source by its text: fitted if it mentions least squares over runs, inferred if taken from another device or
// assumed, else measured (or published).
NumberOrigin origin_of_number(const std::string& source);

}  // namespace panpipe
