#include "cli/driver_gpus.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "exec/launch/visible_gpus.hpp"

namespace panpipe::cli {
namespace {

namespace fs = std::filesystem;

// The part of NVML's interface that is used here (NVIDIA, NVML API reference): functions return 0 when they succeed.
constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr const char* kWslLibrary = "/usr/lib/wsl/lib/libnvidia-ml.so.1";
constexpr unsigned kTextLength = 96;  // NVML's longest buffer (NVML_DEVICE_NAME_V2_BUFFER_SIZE)
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct NvmlUtilization {
  unsigned gpu = 0, memory = 0;  // percent
};
using NvmlDevice = void*;
// Values of NVML's enumerations (nvml.h).
constexpr int kClockOfMultiprocessors = 1, kTemperatureOfGpu = 0, kPeersRead = 0, kPeersFine = 0, kPeersNotKnown = 6;
constexpr int kComputeModeDefault = 0;

// Values of nvmlGpuP2PStatus_t.
std::string why_apart(int status) {
  switch (status) {
    case 1:
      return "the chipset does not support it";
    case 2:
      return "the cards do not support it";
    case 3:
      return "they hang behind different bridges of the host";
    case 4:
      return "the driver's settings forbid it";
    default:
      return "it is not supported";
  }
}

}  // namespace

class Nvml {
 public:
  Nvml() : library_(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) library_ = dlopen(kWslLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      problem_ = fmt::format("the driver's library {} cannot be loaded", kLibrary);
      return;
    }
    int (*start)() = nullptr;
    if (!find("nvmlInit_v2", start) || start() != 0)
      problem_ = fmt::format("the driver does not answer ({} cannot be initialised)", kLibrary);
    else
      started_ = true;
  }
  ~Nvml() {
    int (*stop)() = nullptr;
    if (started_ && find("nvmlShutdown", stop)) stop();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool started() const { return started_; }
  const std::string& problem() const { return problem_; }

  std::string driver() const {
    int (*version)(char*, unsigned) = nullptr;
    std::array<char, kTextLength> text{};
    return find("nvmlSystemGetDriverVersion", version) && version(text.data(), kTextLength) == 0 ? text.data() : "";
  }

  // 12040 is 12.4.
  std::string cuda() const {
    int (*version)(int*) = nullptr;
    int number = 0;
    if (!find("nvmlSystemGetCudaDriverVersion_v2", version) || version(&number) != 0) return "";
    return exec::cuda_release(number);
  }

  std::vector<Gpu> devices() const {
    int (*name)(NvmlDevice, char*, unsigned) = nullptr;
    int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
    std::vector<Gpu> found;
    for (const NvmlDevice device : handles()) {
      Gpu gpu;
      std::array<char, kTextLength> text{};
      if (find("nvmlDeviceGetName", name) && name(device, text.data(), kTextLength) == 0) gpu.name = text.data();
      NvmlMemory bytes;
      if (find("nvmlDeviceGetMemoryInfo", memory) && memory(device, &bytes) == 0) {
        gpu.memory = static_cast<std::int64_t>(bytes.total);
        gpu.free = static_cast<std::int64_t>(bytes.free);
      }
      found.push_back(std::move(gpu));
    }
    return found;
  }

  std::vector<GpuState> states() const {
    std::vector<GpuState> found;
    for (const NvmlDevice device : handles()) {
      GpuState state;
      state.clock = number("nvmlDeviceGetClockInfo", device, kClockOfMultiprocessors);
      state.top_clock = number("nvmlDeviceGetMaxClockInfo", device, kClockOfMultiprocessors);
      state.temperature = number("nvmlDeviceGetTemperature", device, kTemperatureOfGpu);
      state.power_limit = number("nvmlDeviceGetEnforcedPowerLimit", device) * 1e-3;  // milliwatts
      state.usual_power_limit = number("nvmlDeviceGetPowerManagementDefaultLimit", device) * 1e-3;
      state.pcie_generation = number("nvmlDeviceGetCurrPcieLinkGeneration", device);
      state.most_pcie_generation = number("nvmlDeviceGetMaxPcieLinkGeneration", device);
      state.pcie_lanes = number("nvmlDeviceGetCurrPcieLinkWidth", device);
      state.most_pcie_lanes = number("nvmlDeviceGetMaxPcieLinkWidth", device);
      state.exclusive = number("nvmlDeviceGetComputeMode", device) != kComputeModeDefault;
      int (*busy)(NvmlDevice, NvmlUtilization*) = nullptr;
      NvmlUtilization used;
      if (find("nvmlDeviceGetUtilizationRates", busy) && busy(device, &used) == 0) state.busy = used.gpu * 1e-2;
      int (*reasons)(NvmlDevice, unsigned long long*) = nullptr;
      unsigned long long bits = 0;
      if (find("nvmlDeviceGetCurrentClocksThrottleReasons", reasons) && reasons(device, &bits) == 0) state.slowed = bits;
      found.push_back(state);
    }
    return found;
  }

  std::vector<PeersApart> peers_apart() const {
    std::vector<PeersApart> found;
    int (*status_of)(NvmlDevice, NvmlDevice, int, int*) = nullptr;
    if (!find("nvmlDeviceGetP2PStatus", status_of)) return found;
    const std::vector<NvmlDevice> all = handles();
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        int status = kPeersFine;
        if (status_of(all[a], all[b], kPeersRead, &status) == 0 && status != kPeersFine && status != kPeersNotKnown)
          found.push_back({static_cast<int>(a), static_cast<int>(b), why_apart(status)});
      }
    }
    return found;
  }

 private:
  std::vector<NvmlDevice> handles() const {
    int (*count)(unsigned*) = nullptr;
    int (*handle)(unsigned, NvmlDevice*) = nullptr;
    std::vector<NvmlDevice> all;
    unsigned number_of = 0;
    if (!find("nvmlDeviceGetCount_v2", count) || !find("nvmlDeviceGetHandleByIndex_v2", handle) || count(&number_of) != 0)
      return all;
    for (unsigned i = 0; i < number_of; ++i) {
      NvmlDevice device = nullptr;
      if (handle(i, &device) == 0) all.push_back(device);
    }
    return all;
  }
  // The result of a function of the form (device, choice..., unsigned*); 0 if it fails.
  template <class... Choice>
  int number(const char* function, NvmlDevice device, Choice... choice) const {
    int (*ask)(NvmlDevice, Choice..., unsigned*) = nullptr;
    unsigned value = 0;
    return find(function, ask) && ask(device, choice..., &value) == 0 ? static_cast<int>(value) : 0;
  }
  template <class Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }

  void* library_;
  bool started_ = false;
  std::string problem_;
};

namespace {

// "Model:   NVIDIA GeForce RTX 3090" in /proc/driver/nvidia/gpus/*/information.
std::vector<Gpu> gpus_of_proc() {
  std::vector<Gpu> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    std::ifstream file(entry.path() / "information");
    Gpu gpu;
    for (std::string line; std::getline(file, line);)
      if (line.rfind("Model:", 0) == 0)
        gpu.name = line.substr(std::min(line.size(), line.find_first_not_of(" \t", sizeof("Model:") - 1)));
    found.push_back(std::move(gpu));
  }
  return found;
}

}  // namespace

GpuMonitor::GpuMonitor() : nvml_(std::make_unique<Nvml>()) {}
GpuMonitor::~GpuMonitor() = default;
std::vector<GpuState> GpuMonitor::now() const { return nvml_->started() ? nvml_->states() : std::vector<GpuState>{}; }
std::vector<PeersApart> GpuMonitor::peers_apart() const {
  return nvml_->started() ? nvml_->peers_apart() : std::vector<PeersApart>{};
}

Gpus find_gpus() {
  Gpus gpus;
  gpus.visible = exec::visible_gpus();
  const Nvml nvml;
  if (nvml.started()) {
    gpus.driver = nvml.driver();
    gpus.cuda = nvml.cuda();
    gpus.devices = nvml.devices();
  } else {
    gpus.devices = gpus_of_proc();
    std::error_code ignored;
    if (gpus.devices.empty() && gpus.visible == 0 && !fs::exists("/proc/driver/nvidia/version", ignored))
      gpus.problem = "there is no NVIDIA driver";
    else
      gpus.problem = nvml.problem();
  }
  if (gpus.devices.size() < static_cast<std::size_t>(gpus.visible)) gpus.devices.resize(gpus.visible);
  if (gpus.problem.empty() && gpus.devices.empty()) gpus.problem = "the driver knows no GPU";
  return gpus;
}

}  // namespace panpipe::cli
