#include "validation/runs/run_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>

#include "base/text/quantity_text.hpp"

namespace panpipe {
namespace {

struct KnownDevice {
  std::string_view gpu, device, cluster;
  // Cards of the described server where its wiring names each; 0 where any number hangs off a switch.
  int server = 0;
  bool bridged = false;  // a row may say that the NVLink bridges are missing
};
// The name that rows use, our device file, and a cluster file with its wiring.
constexpr std::array kDevices = {KnownDevice{"A100-80G-SXM", "a100-80g-sxm", "dgx-a100-80g"},
                                 KnownDevice{"A100-40G-SXM", "a100-40g-sxm", "dgx-a100-40g"},
                                 KnownDevice{"A100-80G-PCIe", "a100-80g-pcie", "a100-80g-pcie-x4", 4, true},
                                 KnownDevice{"A800-80G-SXM", "a800-80g-sxm", "a800x8"},
                                 KnownDevice{"H100-SXM", "h100-sxm", "h100x8"},
                                 KnownDevice{"H100-PCIe", "h100-pcie", "h100-pcie-x4", 4, true},
                                 KnownDevice{"H800-80G-SXM", "h800-80g-sxm", "h800x8"},
                                 KnownDevice{"H200-SXM", "h200-sxm", "h200x8"},
                                 KnownDevice{"H20", "h20", "h20x8"},
                                 KnownDevice{"B200", "b200", "b200x8"},
                                 KnownDevice{"V100-SXM2-32GB", "v100-sxm2-32gb", "dgx-1-v100", 8},
                                 KnownDevice{"V100-SXM2-16GB", "v100-sxm2-16gb", "dgx-1-v100", 8},
                                 KnownDevice{"RTX3090", "rtx-3090", "rtx3090ti-x2", 2, true},
                                 KnownDevice{"RTX3090Ti", "rtx-3090-ti", "rtx3090ti-x2", 2, true},
                                 KnownDevice{"RTX4090", "rtx-4090", "rtx4090x8", 8},
                                 KnownDevice{"A6000", "a6000", "a6000x8", 8, true},
                                 KnownDevice{"L40S", "l40s", "l40sx8", 8}};

std::string folded(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

const KnownDevice* find_device(const std::string& gpu) {
  for (const KnownDevice& known : kDevices)
    if (folded(known.gpu) == folded(gpu) || folded(std::string(known.gpu) + "-80G") == folded(gpu)) return &known;
  return nullptr;
}

// A node's adapters: how many, and GB/s each.
struct Adapters {
  int count = 0;
  double rate = 0;
  std::string assumed;
};

// Of the Omni-Path 100 adapters' 12.5 GB/s, what GPU memory gets: their protocol runs on the host's cores. From the multi-node
// runs of the BLOOM training on Jean Zay.
constexpr double kOmniPathReached = 0.5;

Adapters adapters_of(const RunRow& row) {
  static const std::regex kNamed(R"((\d+)x (HDR200|HDR100|EDR|NDR400|NDR|HDR)\b)"), kOmniPath(R"((\d+)x Omni-Path 100)"),
      kTotal(R"((\d+) ?Gb/s)");
  std::smatch match;
  const std::string& text = row.fabric;
  if (std::regex_search(text, match, kNamed)) {
    const std::string kind = match[2];
    const double rate = kind.rfind("NDR", 0) == 0 ? 50 : kind == "HDR100" || kind == "EDR" ? 12.5 : 25;
    return {std::stoi(match[1]), rate, ""};
  }
  if (std::regex_search(text, match, kOmniPath))
    return {std::stoi(match[1]), 12.5 * kOmniPathReached, "network: Omni-Path at 50 % of its 12.5 GB/s"};
  if (std::regex_search(text, match, kTotal)) {  // a node's total
    const int adapters = std::min(8, row.gpus_per_node.value_or(8));
    return {adapters, std::stod(match[1]) / 8 / adapters, ""};
  }
  return {};
}

}  // namespace

std::string gpu_of_driver_name(const std::string& name) {
  // As nvidia-smi prints them.
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"NVIDIA A100-SXM4-80GB", "A100-80G-SXM"},
                                                                             {"NVIDIA A100-SXM4-40GB", "A100-40G-SXM"},
                                                                             {"NVIDIA A100 80GB PCIe", "A100-80G-PCIe"},
                                                                             {"NVIDIA A800-SXM4-80GB", "A800-80G-SXM"},
                                                                             {"NVIDIA H100 80GB HBM3", "H100-SXM"},
                                                                             {"NVIDIA H100 PCIe", "H100-PCIe"},
                                                                             {"NVIDIA H800", "H800-80G-SXM"},
                                                                             {"NVIDIA H200", "H200-SXM"},
                                                                             {"NVIDIA H20", "H20"},
                                                                             {"NVIDIA B200", "B200"},
                                                                             {"Tesla V100-SXM2-32GB", "V100-SXM2-32GB"},
                                                                             {"Tesla V100-SXM2-16GB", "V100-SXM2-16GB"},
                                                                             {"NVIDIA GeForce RTX 3090", "RTX3090"},
                                                                             {"NVIDIA GeForce RTX 3090 Ti", "RTX3090Ti"},
                                                                             {"NVIDIA GeForce RTX 4090", "RTX4090"},
                                                                             {"NVIDIA RTX A6000", "A6000"},
                                                                             {"NVIDIA L40S", "L40S"}};
  for (const auto& [driver, gpu] : kNames)
    if (name == driver) return std::string(gpu);
  constexpr std::string_view kMaker = "NVIDIA ";
  return name.rfind(kMaker, 0) == 0 ? name.substr(kMaker.size()) : name;
}

std::string device_file_of(const std::string& gpu) {
  const KnownDevice* known = find_device(gpu);
  return known == nullptr ? "" : std::string(known->device);
}

RunCluster cluster_of(const RunRow& row, const std::string& calibration) {
  RunCluster result;
  const KnownDevice* known = find_device(row.gpu);
  if (known == nullptr) {
    std::string names;
    for (const KnownDevice& device : kDevices) names += (names.empty() ? "" : ", ") + std::string(device.gpu);
    result.problem =
        row.gpu.empty() ? "no gpu is stated" : fmt::format("no data sheet of the GPU '{}'; there are {}", row.gpu, names);
    return result;
  }
  result.device = known->device;
  const int gpus = row.gpus.value_or(row.tp.value_or(1) * row.pp.value_or(1) * row.dp.value_or(1));
  const int described = known->server == 0 ? 8 : known->server;
  if (!row.gpus_per_node && gpus > 1) result.assumed.push_back(fmt::format("gpus_per_node: {}", described));
  const int per_node = row.gpus_per_node.value_or(described), nodes = (gpus + per_node - 1) / per_node;
  std::string overrides;
  std::string device = fmt::format("file: devices/{}.yaml", known->device);
  if (!calibration.empty()) device += fmt::format(", calibration: \"{}\"", calibration);
  if (known->bridged && row.fabric.find("no NVLink") != std::string::npos) overrides += ", wiring: {bridges: {pairs: []}}";
  if (known->server == 0) {
    overrides += fmt::format(", devices_per_node: {}", per_node);
  } else if (nodes > 1 ? per_node != known->server : gpus > known->server) {
    result.problem =
        fmt::format("{} {} in nodes of {}: only a server of {} is described", gpus, row.gpu, per_node, known->server);
    return result;
  } else if (gpus > 1 && per_node != known->server) {
    result.assumed.push_back(fmt::format("wiring: the first {} cards of {}", gpus, known->cluster));
  }
  // Amazon's p5 servers are known whole: their adapters in another count than a DGX's, with a latency of their own.
  std::string cluster(known->cluster);
  const bool p5 = known->device == "h100-sxm" && per_node == 8 && row.fabric.find("EFA") != std::string::npos;
  if (p5) cluster = "aws-p5";
  if (nodes > 1 && !p5) {
    const Adapters adapters = adapters_of(row);
    if (adapters.count > 0)
      overrides += fmt::format(", network: {{nics_per_node: {}, bandwidth: {} GB/s}}", adapters.count, adapters.rate);
    else
      result.assumed.push_back(known->server == 0 ? "network: a 25 GB/s adapter per GPU"
                                                  : fmt::format("network: that of {}", known->cluster));
    if (!adapters.assumed.empty()) result.assumed.push_back(adapters.assumed);
  }
  result.yaml = fmt::format("{{file: clusters/{}.yaml, nodes: {}, device: {{{}}}{}}}", cluster, nodes, device, overrides);
  return result;
}

}  // namespace panpipe
