// What a rank computes on: this CPU, or a GPU through LibTorch's device-neutral interface. Nothing here needs CUDA to compile or
// to link: its libraries are loaded when a GPU is asked for.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

namespace panpipe::exec {

// GPUs that can be used now; 0 where there are none. Loads LibTorch's CUDA libraries the first time; never throws. `why` gets
// the reason for 0 in words: no CUDA libraries in this LibTorch, no driver, one too old, no device.
int gpu_count(std::string* why = nullptr) noexcept;

// The device of a rank; lives as long as the rank computes. On a GPU the calling thread gets a stream of its own, so that ranks
// that share a device overlap.
class RankDevice {
 public:
  // "cpu", or "cuda" with the GPU that is the rank's by its number on this host (gpu_of_rank). MachineError in words where there
  // is none.
  RankDevice(const std::string& kind, int local_rank);
  ~RankDevice();
  RankDevice(const RankDevice&) = delete;

  c10::Device device() const { return device_; }
  bool is_gpu() const { return device_.type() != c10::DeviceType::CPU; }
  // Waits until everything this rank's stream was given is done; nothing to do on a CPU.
  void synchronize() const;

 private:
  c10::Device device_{c10::DeviceType::CPU};
  c10::Stream before_{c10::Stream::DEFAULT, c10::Device(c10::DeviceType::CPU)};  // of the thread
};

}  // namespace panpipe::exec
