// The cluster of a measured run, from the columns gpu, gpus, gpus_per_node and fabric, as the `cluster:` of a scenario.
#pragma once

#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe::validation {

struct RunCluster {
  std::string yaml;  // flow map
  std::vector<std::string> assumed;
  std::string problem;  // not empty: no such device is shipped
  std::string device;   // name of the device's file
};

// `calibration`: a file or name for the devices; empty = their own.
RunCluster cluster_of(const RunRow& row, const std::string& calibration);

// The `gpu` value for a driver's card name ("NVIDIA A100-SXM4-80GB" -> "A100-80G-SXM"); for unknown cards the driver's name
// without the maker's.
std::string gpu_of_driver_name(const std::string& name);

// The shipped device for a row's gpu ("A100-80G-SXM" -> "a100-80g-sxm"), and its type; empty, nullptr: there is none.
std::string device_file_of(const std::string& gpu);
const DeviceType* device_of(const std::string& gpu);

}  // namespace panpipe::validation
