// What this machine and this build have that verbs need. Looked at, not tried out: nothing is started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/driver_gpus.hpp"

namespace panpipe::cli {

struct Machine {
  // Shipped data: models' clusters, devices, frameworks, calibrations.
  std::string data_folder, data_why;  // why this folder: "PANPIPE_DATA"
  bool data_found = false;
  // The simulation's module.
  std::string simgrid_version;  // that it was built with; empty = built without
  std::string simgrid_problem;  // why it cannot be loaded; empty = it loads
  bool ceres = false;           // fits measured runs
  // The executor and what it stands on.
  std::string executor;        // panpipe-exec; empty = none here
  bool executor_nccl = false;  // its module for NCCL is here
  std::string libtorch;        // folder; empty = none that fits
  std::string libtorch_version, libtorch_why;
  std::string libtorch_wanted;               // what the executor was built with
  std::vector<std::string> libtorch_looked;  // where none was found, and why
  bool libtorch_cuda = false;                // it has the CUDA kernels
  Gpus gpus;
  std::string nccl, nccl_version;  // the library, empty = none found
  // The host.
  int cores = 1, cores_of_machine = 1;  // that this process may use; in all
  std::int64_t memory = 0, memory_of_machine = 0, memory_available = 0;
  std::int64_t shared_memory = 0, shared_memory_free = 0;  // /dev/shm; 0 = none
  std::string ports_problem;                               // why no port of 127.0.0.1 can be listened on
};

Machine look_at_machine();

}  // namespace panpipe::cli
