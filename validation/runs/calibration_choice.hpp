// Calibration files that replace the devices' own.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "costmodel/profile/calibration.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::validation {

// The calibration file for a device: the one that names it, else one that names no device.
class CalibrationChoice {
 public:
  explicit CalibrationChoice(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      const std::string path = std::filesystem::exists(file) ? std::filesystem::absolute(file).string() : file;
      const Calibration calibration = load_calibration(path, "");
      if (calibration.devices.empty()) general_ = path;
      for (const std::string& gpu : calibration.devices) by_device_[device_file_of(gpu)] = path;
    }
  }
  std::string of(const std::string& gpu) const {
    const auto found = by_device_.find(device_file_of(gpu));
    return found != by_device_.end() ? found->second : general_;
  }

 private:
  std::map<std::string, std::string> by_device_;
  std::string general_;
};

}  // namespace panpipe::validation
