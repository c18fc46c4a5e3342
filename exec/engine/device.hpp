// The device of a rank: this CPU, or a GPU through LibTorch's device-neutral interface. Compiling and linking need no CUDA; its
// libraries are loaded when a GPU is requested.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

namespace at {
class Tensor;
}

namespace panpipe::exec {

// Number of usable GPUs; 0 if there are none. Loads LibTorch's CUDA libraries on the first call; never throws. `why` receives the
// reason for 0: no CUDA libraries in this LibTorch, no driver, one too old, no device.
int gpu_count(std::string* why = nullptr) noexcept;

// The same number. Throws MachineError if it is 0; `option` asked for a GPU.
int require_gpus(const std::string& option = "--device cuda");

// Threads that a rank computes with: those asked for (0: not stated), or its share of the host's cores among `ranks_here`.
int threads_of_rank(int asked, int ranks_here);
// Sets the number of this thread.
void set_threads(int threads);

// A contiguous tensor in the host's memory with the same values, without gradient; the same memory where that will do.
at::Tensor on_host(const at::Tensor& value);

// The device of a rank, for as long as it computes. On a GPU the calling thread gets its own stream, so that ranks that share a
// device overlap.
class RankDevice {
 public:
  // `kind` is "cpu", or "cuda" for the GPU with the rank's number on this host (gpu_of_rank). Throws MachineError if there is
  // none.
  RankDevice(const std::string& kind, int local_rank);
  ~RankDevice();
  RankDevice(const RankDevice&) = delete;

  c10::Device device() const { return device_; }
  bool is_gpu() const { return device_.type() != c10::DeviceType::CPU; }
  // Waits for all work on this rank's stream; does nothing on a CPU.
  void synchronize() const;

 private:
  c10::Device device_{c10::DeviceType::CPU};
  c10::Stream before_{c10::Stream::DEFAULT, c10::Device(c10::DeviceType::CPU)};  // of the thread
};

}  // namespace panpipe::exec
