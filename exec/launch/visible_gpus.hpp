// NVIDIA GPUs of this host, detected without LibTorch: their number, whether they suffice for the ranks, and possible problems.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/launch/world.hpp"

namespace panpipe::exec {

// Number of GPUs usable by this process: device nodes not hidden by CUDA_VISIBLE_DEVICES. WSL2 has no nodes for single GPUs, so
// the driver's library counts there. `root` precedes /dev and /usr, for tests.
int visible_gpus();
int visible_gpus(const Environment& environment, const std::string& root = "");

// True if each of the host's ranks has its own GPU, as far as is known before the ranks meet. A launcher that gives each task one
// GPU (srun --gpus-per-task 1, a wrapper script under mpirun) shows one to each rank. `world`: nullopt if panpipe run starts the
// ranks.
bool gpu_for_each_rank(int visible, int ranks_here, const std::optional<World>& world, const Environment& environment);
bool gpu_for_each_rank(int ranks_here, const std::optional<World>& world);

// The GPU of a rank among those that it sees.
inline int gpu_of_rank(int local_rank, int visible) { return local_rank % visible; }

// Compatibility of a driver with the CUDA release of a torch package. Both texts are empty if they fit, or if one is unknown.
struct DriverFit {
  std::string problem;  // "the driver 535.129.03 supports CUDA up to 12.2, and this torch package is built with CUDA 13.0"
  std::string remedy;
};
// `driver`: "535.129.03", or empty; `driver_cuda`: "12.2", the newest supported release; `torch_cuda`: "13.0".
DriverFit driver_fit(const std::string& driver, const std::string& driver_cuda, const std::string& torch_cuda);
// "2.11.0+cu130" -> "13.0"; empty if the version does not contain it.
std::string cuda_of_torch(const std::string& torch_version);
// 12020, a version number of CUDA's functions -> "12.2"; empty for 0.
std::string cuda_release(int number);
// The version of the loaded kernel module: "535.129.03"; empty if there is none.
std::string driver_version(const std::string& root = "");

// A warning before ranks of this host use NCCL: /dev/shm of `bytes` is too small for their shared memory. Empty if it is large
// enough, or of unknown size (0).
std::string small_shared_memory(std::int64_t bytes);
std::string small_shared_memory();

}  // namespace panpipe::exec
