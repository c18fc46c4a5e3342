// NVIDIA GPUs of this machine, asked of the driver. Nothing is linked with CUDA: the driver's library is loaded where it lies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace panpipe::cli {

struct Gpu {
  std::string name;         // "NVIDIA H100 80GB HBM3"; empty = not known
  std::int64_t memory = 0;  // bytes; 0 = not known
  std::int64_t free = 0;
};

struct Gpus {
  std::vector<Gpu> devices;  // all of the machine
  int visible = 0;           // to programs that this one starts: CUDA_VISIBLE_DEVICES may hide some
  std::string driver;        // "550.54.15"; empty = no driver here
  std::string cuda;          // the newest CUDA that the driver supports: "12.4"
  std::string problem;       // why there are none, or why little is known of them
};

Gpus find_gpus();

// What a GPU does at a moment. Numbers are 0 where the driver does not say.
struct GpuState {
  int clock = 0, top_clock = 0;                       // of the multiprocessors, MHz
  double power_limit = 0, usual_power_limit = 0;      // watts: enforced, and as the card is delivered
  int temperature = 0;                                // degrees Celsius
  std::uint64_t slowed = 0;                           // kSlowed... bits: why clocks are lower than asked for
  int pcie_generation = 0, most_pcie_generation = 0;  // an idle card goes down to 1
  int pcie_lanes = 0, most_pcie_lanes = 0;
  bool exclusive = false;  // one process at a time, or none (compute mode)
};
// NVML's nvmlClocksEventReason... values.
inline constexpr std::uint64_t kSlowedByPowerLimit = 0x4, kSlowedByHardware = 0x8, kSlowedByHeat = 0x20 | 0x40,
                               kSlowedByPowerBrake = 0x80;

// Two GPUs that cannot read each other's memory directly.
struct PeersApart {
  int first = 0, second = 0;
  std::string why;
};

class Nvml;

// The driver, asked again and again while something runs. Indices are the driver's, all GPUs of the machine.
class GpuMonitor {
 public:
  GpuMonitor();
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  std::vector<GpuState> now() const;            // empty where the driver does not answer
  std::vector<PeersApart> peers_apart() const;  // of pairs that the driver says something of

 private:
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace panpipe::cli
