// NVIDIA GPUs of this host, seen without LibTorch: how many there are, whether they do for the ranks, and why they may not work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/launch/world.hpp"

namespace panpipe::exec {

// GPUs that this process may use: device nodes that CUDA_VISIBLE_DEVICES does not hide. Under WSL2 there are no nodes of single
// GPUs: there the driver's library counts. `root`: stands before /dev and /usr, for tests.
int visible_gpus();
int visible_gpus(const Environment& environment, const std::string& root = "");

// Whether each of the host's ranks has a GPU of its own, as far as can be told before the ranks meet. A launcher that gives each
// task one GPU (srun --gpus-per-task 1, a wrapper script under mpirun) shows one to each rank. `world`: none where panpipe run
// starts the ranks.
bool gpu_for_each_rank(int visible, int ranks_here, const std::optional<World>& world, const Environment& environment);
bool gpu_for_each_rank(int ranks_here, const std::optional<World>& world);

// Of the GPUs that a rank sees, which it takes.
inline int gpu_of_rank(int local_rank, int visible) { return local_rank % visible; }

// A driver and the CUDA release that a torch package is built with. Both empty where they fit, or where one is not known.
struct DriverFit {
  std::string problem;  // "the driver 535.129.03 supports CUDA up to 12.2, and this torch package is built with CUDA 13.0"
  std::string remedy;
};
// `driver`: "535.129.03", or empty; `driver_cuda`: "12.2", the newest release that it supports; `torch_cuda`: "13.0".
DriverFit driver_fit(const std::string& driver, const std::string& driver_cuda, const std::string& torch_cuda);
// "2.11.0+cu130" -> "13.0"; empty where the version does not say.
std::string cuda_of_torch(const std::string& torch_version);
// 12020, as CUDA's functions write versions -> "12.2"; empty for 0.
std::string cuda_release(int number);
// Of the loaded kernel module: "535.129.03"; empty where there is none.
std::string driver_version(const std::string& root = "");

// What to say before ranks of this host talk over NCCL: /dev/shm of `bytes` is too small for the memory that they share. Empty
// where it is large enough, or of unknown size (0).
std::string small_shared_memory(std::int64_t bytes);
std::string small_shared_memory();

}  // namespace panpipe::exec
