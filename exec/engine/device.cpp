#include "exec/engine/device.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "base/error.hpp"
#include "exec/launch/host.hpp"
#include "exec/launch/visible_gpus.hpp"

namespace panpipe::exec {
namespace {

constexpr auto kCuda = c10::DeviceType::CUDA;

// Kernels and the device interface register themselves when the library is loaded. Global: kernels compiled at run time and
// NCCL look its symbols up.
std::string load_cuda() {
  static const std::string failure = [] {
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) return std::string();
    const char* reason = dlerror();
    return fmt::format("LibTorch's CUDA library does not load ({})", reason ? reason : "unknown reason");
  }();
  return failure;
}

// A message about a driver that LibTorch cannot use: LibTorch prints a warning of its own, and counts no GPU.
std::string driver_problem() {
  int supported = 0, needed = 0;
  // Under WSL2 the library lies in a place of its own, which the loader need not know.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) driver = dlopen("/usr/lib/wsl/lib/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return "there is no NVIDIA driver (libcuda.so.1 cannot be loaded)";
  const auto version_of = [](void* library, const char* function, int& version) {
    const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(library, function));
    if (!ask || ask(&version) != 0) version = 0;
  };
  version_of(driver, "cuDriverGetVersion", supported);
  version_of(RTLD_DEFAULT, "cudaRuntimeGetVersion", needed);
  const DriverFit fit = driver_fit(driver_version(), cuda_release(supported), cuda_release(needed));
  return fit.problem.empty() ? "" : fit.problem + ": " + fit.remedy;
}

std::string no_gpu_visible() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible ? fmt::format("the NVIDIA driver shows none to this process (CUDA_VISIBLE_DEVICES={})", visible)
                 : "the NVIDIA driver shows none to this process";
}

}  // namespace

int gpu_count(std::string* why) noexcept {
  static std::once_flag once;
  static int count = 0;
  static std::string reason;
  std::call_once(once, [] {
    try {
      reason = load_cuda();
      if (reason.empty()) reason = driver_problem();
      if (reason.empty() && c10::impl::hasDeviceGuardImpl(kCuda)) count = c10::impl::getDeviceGuardImpl(kCuda)->deviceCount();
      if (reason.empty() && count == 0) reason = no_gpu_visible();
    } catch (const std::exception& error) {
      reason = error.what();
    }
  });
  if (why) *why = reason;
  return count;
}

int require_gpus(const std::string& option) {
  std::string why;
  const int count = gpu_count(&why);
  if (count == 0) throw MachineError(fmt::format("{}: {}", option, why));
  return count;
}

int threads_of_rank(int asked, int ranks_here) { return asked > 0 ? asked : std::max(1, host_cores() / std::max(1, ranks_here)); }

// LibTorch stores it partly per process; reading it first makes the thread's own copy.
void set_threads(int threads) {
  at::get_num_threads();
  at::set_num_threads(threads);
}

at::Tensor on_host(const at::Tensor& value) { return value.detach().to(at::kCPU).contiguous(); }

RankDevice::RankDevice(const std::string& kind, int local_rank) {
  if (kind == "cpu" || kind.empty()) return;
  if (kind != "cuda") throw InputError(fmt::format("unknown device '{}'; devices are cpu and cuda", kind));
  std::string why;
  const int count = gpu_count(&why);
  if (count == 0) throw MachineError(fmt::format("this machine has no GPU to run on: {}; run with --device cpu", why));
  device_ = c10::Device(kCuda, static_cast<c10::DeviceIndex>(gpu_of_rank(local_rank, count)));
  const auto* guard = c10::impl::getDeviceGuardImpl(kCuda);
  guard->setDevice(device_);
  before_ = guard->exchangeStream(guard->getStreamFromGlobalPool(device_, /*isHighPriority=*/false));
}

RankDevice::~RankDevice() {
  if (!is_gpu()) return;
  try {
    // A run that fails may leave work that never ends.
    if (std::uncaught_exceptions() == 0) synchronize();
    c10::impl::getDeviceGuardImpl(kCuda)->exchangeStream(before_);
  } catch (...) {  // a device in error: what failed is already on its way to the user
  }
}

void RankDevice::synchronize() const {
  if (!is_gpu()) return;
  const auto* guard = c10::impl::getDeviceGuardImpl(kCuda);
  guard->synchronizeStream(guard->getStream(device_));
}

}  // namespace panpipe::exec
