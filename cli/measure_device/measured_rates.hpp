// Rates from the lines that panpipe-exec device prints.
#pragma once

#include <map>
#include <string>

#include "cli/measure_device/device_file.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe::cli {

// Products that take less, in seconds, are timed with what starts a kernel.
inline constexpr double kLeastProduct = 100e-6;

// The shipped device with this driver's name and its file's name; nullptr and empty if there is none.
const DeviceType* shipped_device(const MeasuredDevice& device);
std::string shipped_device_file(const MeasuredDevice& device);

struct RateOfSize {
  double median = 0, uncertainty = 0;  // bytes per second
};

// The best rate of products by form, in FLOP/s; without those that were not measured.
std::map<std::string, double> best_products(const MeasuredDevice& device);
// Of copies inside the device that no cache holds: the median of the largest three sizes.
RateOfSize memory_rate(const MeasuredDevice& device);
// The same of sums of two tensors.
RateOfSize elementwise_rate(const MeasuredDevice& device);
// What stands for the data sheet's memory bandwidth of a card without one: that of copies, else of sums. Throws MachineError if
// neither was measured, for a step's time is not known without it.
double own_bandwidth(const MeasuredDevice& device);
// The least size from which on copies reach nine tenths of memory_rate().
double saturates_at(const MeasuredDevice& device);
// Pinned, one way, the slower of the two; 0: not measured.
double copy_rate(const MeasuredDevice& device);

}  // namespace panpipe::cli
