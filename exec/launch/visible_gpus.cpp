#include "exec/launch/visible_gpus.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;

const char* of_this_process(const char* name) { return std::getenv(name); }

// Entries of CUDA_VISIBLE_DEVICES; nothing where it is not set. CUDA stops at the first one that is none: "-1" hides all.
std::optional<int> named_devices(const Environment& environment) {
  const char* text = environment("CUDA_VISIBLE_DEVICES");
  if (!text) return std::nullopt;
  const std::string list = text;
  if (list.empty() || list[0] == '-') return 0;
  return 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
}

int device_nodes(const std::string& root) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root + "/dev", error)) {
    const std::string name = entry.path().filename();
    if (name.rfind("nvidia", 0) == 0 && name.size() > 6 && name.find_first_not_of("0123456789", 6) == std::string::npos) ++count;
  }
  return count;
}

// WSL2 has one node for all GPUs, and its driver's library in a place of its own (NVIDIA, CUDA on WSL user guide). The library
// heeds CUDA_VISIBLE_DEVICES itself.
int wsl_gpus(const std::string& root) {
  const std::string library = root + "/usr/lib/wsl/lib/libcuda.so.1";
  std::error_code error;
  if (!fs::exists(root + "/dev/dxg", error) || !fs::exists(library, error)) return 0;
  void* driver = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!driver) return 0;
  const auto start = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int gpus = 0;
  return start && count && start(0) == 0 && count(&gpus) == 0 ? gpus : 0;
}

// "12.2" -> 12; 0 where there is no number.
int major_of(const std::string& release) {
  int number = 0;
  std::from_chars(release.data(), release.data() + release.size(), number);
  return number;
}

// The oldest driver that runs programs of a major release of CUDA (NVIDIA, CUDA Toolkit release notes, "Minor version
// compatibility").
const std::map<int, int> kOldestDriver = {{11, 450}, {12, 525}, {13, 580}};

// The size that NVIDIA recommends for containers (NCCL, "Troubleshooting", "Shared memory": --shm-size=1g); Docker gives 64 MiB.
constexpr std::int64_t kSharedMemory = std::int64_t{1} << 30;

}  // namespace

int visible_gpus(const Environment& environment, const std::string& root) {
  const int nodes = device_nodes(root);
  if (nodes == 0) return wsl_gpus(root);
  return std::min(nodes, named_devices(environment).value_or(nodes));
}

int visible_gpus() { return visible_gpus(of_this_process); }

bool gpu_for_each_rank(int visible, int ranks_here, const std::optional<World>& world, const Environment& environment) {
  if (visible >= ranks_here) return true;
  // torchrun's processes share one environment, and with it the GPU that it names.
  const bool own = world && world->launcher != "torchrun" && world->launcher != "panpipe run";
  return own && visible == 1 && named_devices(environment) == 1;
}

bool gpu_for_each_rank(int ranks_here, const std::optional<World>& world) {
  return gpu_for_each_rank(visible_gpus(), ranks_here, world, of_this_process);
}

DriverFit driver_fit(const std::string& driver, const std::string& driver_cuda, const std::string& torch_cuda) {
  const int has = major_of(driver_cuda), needs = major_of(torch_cuda);
  if (has == 0 || needs == 0 || has >= needs) return {};
  const auto oldest = kOldestDriver.find(needs);
  return {fmt::format("the NVIDIA driver{} supports CUDA up to {}, and this torch package is built with CUDA {}",
                      driver.empty() ? "" : " " + driver, driver_cuda, torch_cuda),
          fmt::format(
              "install a driver{}, or a torch package that is built with CUDA {}: PANPIPE_TORCH_INDEX=URL tools/setup with "
              "an index of such packages, then make build (docs/installing.md)",
              oldest == kOldestDriver.end() ? fmt::format(" for CUDA {}", needs) : fmt::format(" of at least {}", oldest->second),
              has)};
}

std::string cuda_of_torch(const std::string& torch_version) {
  const std::size_t found = torch_version.find("+cu");
  if (found == std::string::npos) return "";
  const std::string digits =
      torch_version.substr(found + 3, torch_version.find_first_not_of("0123456789", found + 3) - found - 3);
  return digits.size() < 2 ? "" : digits.substr(0, digits.size() - 1) + "." + digits.back();
}

std::string cuda_release(int number) { return number <= 0 ? "" : fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 ...": the first word that is a version.
std::string driver_version(const std::string& root) {
  std::ifstream file(root + "/proc/driver/nvidia/version");
  for (std::string word; file >> word && word != "GCC";)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return "";
}

std::string small_shared_memory(std::int64_t bytes) {
  if (bytes <= 0 || bytes >= kSharedMemory) return "";
  return fmt::format(
      "/dev/shm holds {} MiB: ranks of one host may need up to 1 GiB there, because NCCL goes through it where GPUs have no "
      "direct "
      "connection. Start the container with --shm-size=1g",
      bytes >> 20);
}

std::string small_shared_memory() {
  struct statvfs stat {};
  return statvfs("/dev/shm", &stat) == 0 ? small_shared_memory(static_cast<std::int64_t>(stat.f_blocks * stat.f_frsize)) : "";
}

}  // namespace panpipe::exec
