#include "exec/engine/profile/device_memory_size.hpp"

#include <dlfcn.h>

#include "exec/launch/host.hpp"

namespace panpipe::exec {
namespace {

// Values of cudaDeviceAttr (driver_types.h).
constexpr int kMultiprocessors = 16, kL2Cache = 38, kMajor = 75, kMinor = 76;

struct CardMemory {
  std::size_t free = 0, all = 0;
};

// Of the current device. The runtime is loaded together with LibTorch's CUDA library.
CardMemory card_memory() {
  CardMemory memory;
  const auto ask = reinterpret_cast<int (*)(std::size_t*, std::size_t*)>(dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
  if (ask == nullptr || ask(&memory.free, &memory.all) != 0) return {};
  return memory;
}

int attribute(int which, int card) {
  const auto ask = reinterpret_cast<int (*)(int*, int, int)>(dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute"));
  int value = 0;
  return ask != nullptr && ask(&value, which, card) == 0 ? value : 0;
}

}  // namespace

std::int64_t device_memory_size(c10::Device device) {
  return device.is_cpu() ? host_memory() : static_cast<std::int64_t>(card_memory().all);
}

nlohmann::ordered_json device_facts(c10::Device device) {
  nlohmann::ordered_json facts;
  if (const std::int64_t memory = device_memory_size(device); memory > 0) facts["memory"] = memory;
  if (device.is_cpu()) return facts;
  if (const CardMemory memory = card_memory(); memory.all > 0) facts["free"] = memory.free;
  const int card = device.index();
  if (const int number = attribute(kMultiprocessors, card); number > 0) facts["multiprocessors"] = number;
  if (const int major = attribute(kMajor, card); major > 0) facts["compute_capability"] = major + attribute(kMinor, card) * 0.1;
  if (const int bytes = attribute(kL2Cache, card); bytes > 0) facts["l2_cache"] = bytes;
  return facts;
}

}  // namespace panpipe::exec
