// The numbers of a calibration that `panpipe measure-device` measures: what it writes, and what evidence of a device can hold.
#pragma once

#include <string_view>

namespace panpipe {

struct MeasuredKey {
  std::string_view key;
  bool of_gpus = true, of_cpus = true;
};

inline constexpr MeasuredKey kMeasuredKeys[] = {
    {"gemm_efficiency"},
    {"fp8_gemm_efficiency", true, false},
    {"attention_efficiency"},
    {"attention_ramp"},
    {"memory_efficiency"},
    // Launches of trainers in Python take longer than those of the executor, and on GPUs the number is theirs.
    {"launch", false, true},
    {"kernel_gap", true, false},
};

constexpr bool device_measures(std::string_view key, bool gpu) {
  for (const MeasuredKey& measured : kMeasuredKeys)
    if (measured.key == key) return gpu ? measured.of_gpus : measured.of_cpus;
  return false;
}

}  // namespace panpipe
