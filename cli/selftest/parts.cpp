// The parts of this machine, and the state of its GPUs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text/quantity_text.hpp"
#include "cli/doctor_text.hpp"
#include "cli/selftest/steps.hpp"
#include "exec/launch/visible_gpus.hpp"

namespace panpipe::cli {
namespace {

// A share of the usual limit: cards are delivered within a few watts of it.
constexpr double kLimited = 0.9;

// "GPU 0", "GPUs 0, 3"
std::string numbered(const std::vector<std::size_t>& gpus) {
  return fmt::format("GPU{} {}", gpus.size() == 1 ? "" : "s", fmt::join(gpus, ", "));
}

}  // namespace

std::vector<Trouble> troubles_of_parts(const Machine& machine, bool on_gpus) {
  std::vector<Trouble> troubles;
  for (const Lack& lack : lacks_of(machine)) {
    // Predictions go without these two; nothing else asks for Ceres than fits.
    if (lack.what == "Ceres") continue;
    const bool of_gpus = lack.what == "GPUs" || lack.what == "NCCL" || lack.what == "training";
    if (of_gpus && !on_gpus) continue;
    troubles.push_back({lack.what != "SimGrid", fmt::format("{}: {}", lack.what, lack.found), lack.rest});
  }
  if (const std::string small = exec::small_shared_memory(machine.shared_memory);
      on_gpus && machine.gpus.visible > 1 && !small.empty())
    troubles.push_back({false, small, "NCCL_SHM_DISABLE=1 does without it, more slowly"});
  return troubles;
}

StepReport look_at_parts(const Trial& trial) {
  StepReport report;
  report.troubles = troubles_of_parts(trial.machine, trial.on_gpus());
  const Machine& machine = trial.machine;
  report.text = trial.on_gpus()
                    ? gpus_text(machine.gpus)
                    : fmt::format("the CPU: {} core{}, {} of memory, {} available", machine.cores, machine.cores == 1 ? "" : "s",
                                  to_text(Bytes(machine.memory)), to_text(Bytes(machine.memory_available)));
  report.figures = {{"cores", machine.cores},
                    {"memory_bytes", machine.memory},
                    {"shared_memory_bytes", machine.shared_memory},
                    {"libtorch", machine.libtorch_version},
                    {"libtorch_cuda", machine.libtorch_cuda},
                    {"nccl", machine.nccl_version},
                    {"simgrid", machine.simgrid_problem.empty() ? machine.simgrid_version : ""},
                    {"driver", machine.gpus.driver},
                    {"cuda", machine.gpus.cuda},
                    {"gpus_visible", machine.gpus.visible}};
  for (const Gpu& gpu : machine.gpus.devices)
    report.figures["gpus"].push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory}, {"free_bytes", gpu.free}});
  return report;
}

std::vector<Trouble> troubles_of_gpus(const Gpus& gpus, const std::vector<GpuState>& states,
                                      const std::vector<PeersApart>& peers_apart) {
  std::vector<Trouble> troubles;
  std::set<std::string> kinds;
  for (const Gpu& gpu : gpus.devices)
    if (!gpu.name.empty()) kinds.insert(gpu.name);
  if (kinds.size() > 1)
    troubles.push_back({false, fmt::format("the cards are of different kinds: {}", fmt::join(kinds, ", ")),
                        "let programs see those of one kind (CUDA_VISIBLE_DEVICES): the slowest one sets the pace of a pipeline, "
                        "and a profile is that of the first"});
  std::vector<std::size_t> heat, hardware, exclusive, lanes;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const GpuState& state = states[i];
    if (state.power_limit > 0 && state.power_limit < kLimited * state.usual_power_limit)
      troubles.push_back(
          {true, fmt::format("GPU {} may take {:.0f} W of the usual {:.0f} W", i, state.power_limit, state.usual_power_limit),
           fmt::format("nvidia-smi -i {} -pl {:.0f}, as root, unless the limit is wanted", i, state.usual_power_limit)});
    if ((state.slowed & kSlowedByHeat) != 0)
      heat.push_back(i);
    else if ((state.slowed & (kSlowedByHardware | kSlowedByPowerBrake)) != 0)
      hardware.push_back(i);
    if (state.exclusive) exclusive.push_back(i);
    if (state.pcie_lanes > 0 && state.pcie_lanes < state.most_pcie_lanes) lanes.push_back(i);
  }
  for (const std::size_t i : heat)
    troubles.push_back({true, fmt::format("GPU {} slowed down because of heat ({} C)", i, states[i].temperature),
                        "look after its fans and the room's cooling; nvidia-smi -q -d TEMPERATURE shows the limits"});
  if (!hardware.empty())
    troubles.push_back({true, fmt::format("{} slowed down at the hardware's wish", numbered(hardware)),
                        "look after power cables and the power supply; nvidia-smi -q -d PERFORMANCE shows the reason"});
  if (!exclusive.empty())
    troubles.push_back({false, fmt::format("{}: one process at a time", numbered(exclusive)),
                        "nvidia-smi -c DEFAULT, as root, where ranks shall share a GPU"});
  if (!lanes.empty())
    troubles.push_back({false,
                        fmt::format("{}: {} of {} PCIe lanes", numbered(lanes), states[lanes.front()].pcie_lanes,
                                    states[lanes.front()].most_pcie_lanes),
                        "put it into a slot of its full width, unless the board has none"});
  std::map<std::string, std::vector<std::string>> apart;
  for (const PeersApart& peers : peers_apart) apart[peers.why].push_back(fmt::format("{} and {}", peers.first, peers.second));
  for (const auto& [why, pairs] : apart)
    troubles.push_back(
        {false,
         fmt::format("no direct access between GPUs {}: {}; transfers go through the host's memory", fmt::join(pairs, ", "), why),
         "usual of GeForce cards without a bridge; else look for the IOMMU and access control (ACS) in the host's "
         "settings"});
  return troubles;
}

StepReport look_at_gpus(Trial& trial) {
  StepReport report;
  trial.load.look();
  const std::vector<GpuState>& states = trial.load.states();
  const std::vector<PeersApart> apart = trial.load.monitor().peers_apart();
  report.troubles = troubles_of_gpus(trial.machine.gpus, states, apart);
  if (states.empty()) {
    report.done = false;
    report.text = "left out: the driver does not say how they do";
    return report;
  }
  int hottest = 0, slowest = states.front().clock, top = states.front().top_clock;
  for (const GpuState& state : states) {
    hottest = std::max(hottest, state.temperature);
    slowest = std::min(slowest, state.clock);
    top = std::max(top, state.top_clock);
    report.figures["gpus"].push_back({{"clock_mhz", state.clock},
                                      {"top_clock_mhz", state.top_clock},
                                      {"power_limit_w", state.power_limit},
                                      {"usual_power_limit_w", state.usual_power_limit},
                                      {"temperature_c", state.temperature},
                                      {"slowed_bits", state.slowed},
                                      {"pcie_generation", state.pcie_generation},
                                      {"most_pcie_generation", state.most_pcie_generation},
                                      {"pcie_lanes", state.pcie_lanes},
                                      {"most_pcie_lanes", state.most_pcie_lanes}});
  }
  report.figures["without_peer_access"] = nlohmann::ordered_json::array();
  for (const PeersApart& peers : apart)
    report.figures["without_peer_access"].push_back({{"first", peers.first}, {"second", peers.second}, {"why", peers.why}});
  std::vector<std::string> facts;
  if (top > 0) facts.push_back(fmt::format("{} of {} MHz", slowest, top));
  if (const GpuState& first = states.front(); first.usual_power_limit > 0)
    facts.push_back(fmt::format("{:.0f} of {:.0f} W", first.power_limit, first.usual_power_limit));
  if (hottest > 0) facts.push_back(fmt::format("{} C", hottest));
  report.text =
      facts.empty() ? "the driver says nothing of their clocks" : fmt::format("{} while they worked", fmt::join(facts, ", "));
  return report;
}

}  // namespace panpipe::cli
