#include "exec/engine/profile/device_memory_size.hpp"

#include <dlfcn.h>

#include "exec/engine/measure/device_memory.hpp"
#include "exec/launch/host.hpp"

namespace panpipe::exec {
namespace {

// Values of cudaDeviceAttr (driver_types.h).
constexpr int kMultiprocessors = 16, kL2Cache = 38, kMajor = 75, kMinor = 76;

// The runtime is loaded together with LibTorch's CUDA library.
int attribute(int which, int card) {
  const auto ask = reinterpret_cast<int (*)(int*, int, int)>(dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute"));
  int value = 0;
  return ask != nullptr && ask(&value, which, card) == 0 ? value : 0;
}

}  // namespace

std::int64_t device_memory_size(c10::Device device) { return device.is_cpu() ? host_memory() : device_bytes(device).all; }

nlohmann::ordered_json device_facts(c10::Device device) {
  nlohmann::ordered_json facts;
  if (const std::int64_t memory = device_memory_size(device); memory > 0) facts["memory"] = memory;
  if (device.is_cpu()) return facts;
  if (const DeviceBytes bytes = device_bytes(device); bytes.all > 0) facts["free"] = bytes.free;
  const int card = device.index();
  if (const int number = attribute(kMultiprocessors, card); number > 0) facts["multiprocessors"] = number;
  if (const int major = attribute(kMajor, card); major > 0) facts["compute_capability"] = major + attribute(kMinor, card) * 0.1;
  if (const int bytes = attribute(kL2Cache, card); bytes > 0) facts["l2_cache"] = bytes;
  return facts;
}

}  // namespace panpipe::exec
