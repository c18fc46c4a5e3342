// Stands for the driver's library of device information, libnvidia-ml.so.1 (NVIDIA, NVML API reference): STAND_IN_GPUS devices
// with STAND_IN_MEMORY_MIB each and a driver STAND_IN_DRIVER. Clocks and power are those of an RTX 3090 at rest. It is built and
// tested on machines without CUDA's headers too (`panpipe doctor`), so the types are written out.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/stand_in_gpu/settings.hpp"

namespace {

using namespace panpipe::stand_in;

enum Result { kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6 };
enum Clock { kGraphics = 0, kSm = 1, kMemory = 2, kVideo = 3 };

constexpr unsigned kPowerLimit = 350000, kLeastPowerLimit = 100000, kPower = 30000;  // mW

struct Device {
  unsigned index;
};
using Handle = Device*;

unsigned devices() { return static_cast<unsigned>(number_setting("STAND_IN_GPUS", 8)); }
unsigned long long memory() { return static_cast<unsigned long long>(number_setting("STAND_IN_MEMORY_MIB", 4096)) << 20; }

int give(char* text, unsigned length, const std::string& value) {
  if (length <= value.size()) return kInvalidArgument;
  std::memcpy(text, value.c_str(), value.size() + 1);
  return kSuccess;
}

int give(unsigned* number, unsigned value) {
  *number = value;
  return kSuccess;
}

struct MemoryInfo {
  unsigned long long total, free, used;
};
struct PciInfo {
  char short_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlInitWithFlags(unsigned) { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) { return give(text, length, driver()); }
int nvmlSystemGetNVMLVersion(char* text, unsigned length) { return give(text, length, "13." + driver()); }
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = cuda_of_driver();
  return kSuccess;
}
int nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

int nvmlDeviceGetCount_v2(unsigned* count) { return give(count, devices()); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle* handle) {
  static std::array<Device, 1024> all{};
  if (index >= devices() || index >= all.size()) return kInvalidArgument;
  all[index].index = index;
  *handle = &all[index];
  return kSuccess;
}
// "0000:03:00.0" is the third, as the runtime reports them (cuda/devices.cpp); NVML's own ids have eight digits in front.
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, Handle* handle) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(id, "%x:%x", &domain, &bus) != 2 || bus == 0) return kNotFound;
  return nvmlDeviceGetHandleByIndex_v2(bus - 1, handle) == kSuccess ? kSuccess : kNotFound;
}

int nvmlDeviceGetIndex(Handle device, unsigned* index) { return give(index, device->index); }
int nvmlDeviceGetMinorNumber(Handle device, unsigned* number) { return give(number, device->index); }
int nvmlDeviceGetName(Handle, char* text, unsigned length) {
  return give(text, length, text_setting("STAND_IN_NAME", "Stand-in GPU"));
}
int nvmlDeviceGetUUID(Handle device, char* text, unsigned length) {
  std::array<char, 64> id{};
  std::snprintf(id.data(), id.size(), "GPU-00000000-0000-0000-0000-%012x", device->index);
  return give(text, length, id.data());
}
int nvmlDeviceGetSerial(Handle device, char* text, unsigned length) {
  return give(text, length, "132092104600" + std::to_string(device->index));
}
// STAND_IN_APART=1: as GeForce cards report (nvml.h, NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED).
int nvmlDeviceGetP2PStatus(Handle, Handle, int, int* status) {
  *status = static_cast<int>(number_setting("STAND_IN_APART", 0));
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v3(Handle device, PciInfo* info) {
  *info = {};
  info->bus = device->index + 1;
  std::snprintf(info->short_id, sizeof(info->short_id), "0000:%02x:00.0", info->bus);
  std::snprintf(info->id, sizeof(info->id), "00000000:%02x:00.0", info->bus);
  return kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(Handle, int* major, int* minor) {
  *major = 8;
  *minor = 6;
  return kSuccess;
}
// A quarter of it is in use, as by a desktop or another program.
int nvmlDeviceGetMemoryInfo(Handle, MemoryInfo* info) {
  *info = {memory(), memory() - memory() / 4, memory() / 4};
  return kSuccess;
}

// MHz: at rest, and the highest.
int nvmlDeviceGetClockInfo(Handle, int clock, unsigned* mhz) { return give(mhz, clock == kMemory ? 405 : 210); }
int nvmlDeviceGetClock(Handle device, int clock, int, unsigned* mhz) { return nvmlDeviceGetClockInfo(device, clock, mhz); }
int nvmlDeviceGetMaxClockInfo(Handle, int clock, unsigned* mhz) { return give(mhz, clock == kMemory ? 9751 : 2100); }
int nvmlDeviceGetApplicationsClock(Handle, int, unsigned*) { return kNotSupported; }  // as on consumer cards

int nvmlDeviceGetPowerUsage(Handle, unsigned* milliwatts) { return give(milliwatts, kPower); }
int nvmlDeviceGetPowerManagementLimit(Handle, unsigned* milliwatts) {
  return give(milliwatts, static_cast<unsigned>(number_setting("STAND_IN_POWER_LIMIT_W", kPowerLimit / 1000)) * 1000);
}
int nvmlDeviceGetEnforcedPowerLimit(Handle device, unsigned* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}
int nvmlDeviceGetPowerManagementDefaultLimit(Handle, unsigned* milliwatts) { return give(milliwatts, kPowerLimit); }
int nvmlDeviceGetPowerManagementLimitConstraints(Handle, unsigned* least, unsigned* most) {
  *least = kLeastPowerLimit;
  *most = kPowerLimit;
  return kSuccess;
}

int nvmlDeviceGetTemperature(Handle, int, unsigned* celsius) { return give(celsius, 40); }
int nvmlDeviceGetPerformanceState(Handle, int* state) {
  *state = 8;
  return kSuccess;
}
int nvmlDeviceGetPersistenceMode(Handle, unsigned* mode) { return give(mode, 1); }
int nvmlDeviceGetComputeMode(Handle, unsigned* mode) { return give(mode, 0); }  // shared
// Reasons for a lower clock, a bit each: 1 is that the device is idle.
int nvmlDeviceGetCurrentClocksThrottleReasons(Handle, unsigned long long* reasons) {
  *reasons = static_cast<unsigned long long>(number_setting("STAND_IN_SLOWED", 1));
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksEventReasons(Handle device, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}
// LibTorch looks for these to report which processes use a device's memory, and how devices are linked.
int nvmlDeviceGetComputeRunningProcesses(Handle, unsigned* count, void*) { return give(count, 0); }
int nvmlDeviceGetNvLinkRemoteDeviceType(Handle, unsigned, int*) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle, unsigned, PciInfo*) { return kNotSupported; }
int nvmlDeviceGetGpuFabricInfoV(Handle, void*) { return kNotSupported; }
int nvmlDeviceGetNvLinkState(Handle, unsigned, unsigned*) { return kNotSupported; }
}
