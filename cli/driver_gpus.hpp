// NVIDIA GPUs of this machine, queried from the driver. Nothing links with CUDA: the driver's library is loaded if it exists.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace panpipe::cli {

struct Gpu {
  std::string name;         // "NVIDIA H100 80GB HBM3"; empty = unknown
  std::int64_t memory = 0;  // bytes; 0 = unknown
  std::int64_t free = 0;
};

struct Gpus {
  std::vector<Gpu> devices;  // all of the machine
  int visible = 0;           // number visible to programs started from here: CUDA_VISIBLE_DEVICES may hide some
  std::string driver;        // "550.54.15"; empty = no driver
  std::string cuda;          // the newest CUDA that the driver supports: "12.4"
  std::string problem;       // reason why there are none, or why details are missing
};

Gpus find_gpus();

// State of a GPU at a moment. Numbers are 0 if the driver does not report them.
struct GpuState {
  int clock = 0, top_clock = 0;                       // of the multiprocessors, MHz
  double power_limit = 0, usual_power_limit = 0;      // watts: enforced, and the default of the card
  int temperature = 0;                                // degrees Celsius
  double busy = 0;                                    // share of the last moments in which a kernel ran
  std::uint64_t slowed = 0;                           // kSlowed... bits: reasons for reduced clocks
  int pcie_generation = 0, most_pcie_generation = 0;  // an idle card drops to 1
  int pcie_lanes = 0, most_pcie_lanes = 0;
  bool exclusive = false;  // compute mode: only one process at a time, or none
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

// Queries the driver repeatedly while something runs. Indices are the driver's, over all GPUs of the machine.
class GpuMonitor {
 public:
  GpuMonitor();
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  std::vector<GpuState> now() const;            // empty if the driver does not answer
  std::vector<PeersApart> peers_apart() const;  // among the pairs that the driver reports on

 private:
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace panpipe::cli
