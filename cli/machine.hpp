// The parts of this machine and this build that verbs need. Only looked up, never started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/driver_gpus.hpp"

namespace panpipe::cli {

struct Machine {
  // Shipped data: models' clusters, devices, frameworks, calibrations.
  std::string data_folder, data_why;  // the folder, and the reason for choosing it: "PANPIPE_DATA"
  bool data_found = false;
  // The simulation's module.
  std::string simgrid_version;  // version it was built with; empty = built without
  std::string simgrid_problem;  // reason why it cannot be loaded; empty = it loads
  bool ceres = false;           // can fit measured runs
  // The executor and its libraries.
  std::string executor;        // panpipe-exec; empty = missing
  bool executor_nccl = false;  // its NCCL module exists
  std::string libtorch;        // folder; empty = none suitable
  std::string libtorch_version, libtorch_why;
  std::string libtorch_wanted;               // version the executor was built with
  std::vector<std::string> libtorch_looked;  // folders searched without success, and why
  bool libtorch_cuda = false;                // it has CUDA kernels
  Gpus gpus;
  std::string nccl, nccl_version;  // the library; empty = not found
  // The host.
  int cores = 1, cores_of_machine = 1;  // usable by this process; in total
  double load = 0;                      // processes that ran or waited for a core, on average over the last minute
  std::int64_t memory = 0, memory_of_machine = 0, memory_available = 0;
  std::int64_t shared_memory = 0, shared_memory_free = 0;  // /dev/shm; 0 = none
  std::string ports_problem;                               // reason why no port of 127.0.0.1 can be opened
};

Machine look_at_machine();

}  // namespace panpipe::cli
