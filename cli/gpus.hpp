// NVIDIA GPUs of this machine, asked of the driver. Nothing is linked with CUDA: the driver's library is loaded where it lies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace panpipe::cli {

struct Gpu {
  std::string name;         // "NVIDIA H100 80GB HBM3"; empty = not known
  std::int64_t memory = 0;  // bytes; 0 = not known
  std::int64_t free = 0;
};

struct Gpus {
  std::vector<Gpu> devices;  // all of the machine
  int visible = 0;           // to programs that this one starts: CUDA_VISIBLE_DEVICES may hide some
  std::string driver;        // "550.54.15"; empty = no driver here
  std::string cuda;          // the newest CUDA that the driver supports: "12.4"
  std::string problem;       // why there are none, or why little is known of them
};

Gpus find_gpus();

}  // namespace panpipe::cli
