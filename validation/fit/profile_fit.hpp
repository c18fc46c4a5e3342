// Fits a device calibration to measured operators and links: the share of the data sheet that a device reaches.
// docs/models/calibration.md.
#pragma once

#include <string>
#include <vector>

#include "base/precision.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "costmodel/profile/profile.hpp"
#include "validation/fit/operator_table.hpp"

namespace panpipe::validation {

struct ReachedNumber {
  std::string key;    // of the calibration file
  double value = 0;   // shares; seconds for `launch` and `transfer_latency`
  double spread = 0;  // of single operators, as a ratio (one standard deviation for a normal distribution)
  int samples = 0;
  bool is_time = false;
  std::string source;
};

// latency + bytes / bandwidth, fitted to a profile's table by relative error.
struct FittedLink {
  std::string transport;
  int from = 0, to = 0;
  double latency_s = 0, bytes_per_s = 0;
  double worst = 0;  // largest error over the table's times, as a fraction
};

struct ProfileFit {
  std::vector<ReachedNumber> numbers;
  std::vector<FittedLink> links;
  double mean_error = 0;  // of the operators' times with these numbers, weighted by time
  int operators = 0;
};

// Throws InputError if the operators contain nothing comparable, or the device has no rate for `precision`.
ProfileFit fit_profile(const std::vector<TimedOperator>& operators, const std::vector<Profile>& profiles,
                       const DeviceType& device, Precision precision);

std::string to_yaml(const ProfileFit& fit, const std::string& name, const std::string& device, const std::string& command);
std::string to_table(const ProfileFit& fit);

}  // namespace panpipe::validation
