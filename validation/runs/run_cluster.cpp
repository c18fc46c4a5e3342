#include "validation/runs/run_cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "base/error.hpp"
#include "base/input/shipped.hpp"
#include "base/input/yaml_document.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/cluster_reader.hpp"

namespace panpipe::validation {
namespace {

// A shipped device and its server, as their files describe them.
struct KnownGpu {
  std::string file;
  DeviceType type;
  int cards = 0;         // of the server where its wiring names each; 0 where any number hangs off a switch
  bool bridged = false;  // a row may state that the NVLink bridges are missing
};

KnownGpu known_gpu(const std::string& file, const DeviceType& type) {
  KnownGpu known{file, type};
  const NodePtr cluster = load_document(shipped_file("clusters", type.server));
  const Node *wiring = cluster->find("wiring"), *cards = cluster->find("devices_per_node");
  if (wiring == nullptr || cards == nullptr) throw InputError("cluster " + type.server + " describes no server");
  if (wiring->find("switch") == nullptr) known.cards = std::stoi(cards->text);
  known.bridged = wiring->find("bridges") != nullptr;
  return known;
}

const std::vector<KnownGpu>& known_gpus() {
  static const std::vector<KnownGpu> all = [] {
    std::vector<KnownGpu> found;
    for (const std::string& file : shipped_names("devices")) {
      ReadLog log;
      const DeviceType type = load_device(file, "", log);
      log.throw_if_errors();
      if (!type.server.empty()) found.push_back(known_gpu(file, type));
    }
    return found;
  }();
  return all;
}

std::string folded(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

const KnownGpu* find_gpu(const std::string& gpu) {
  const auto found = std::find_if(known_gpus().begin(), known_gpus().end(),
                                  [name = folded(gpu)](const KnownGpu& known) { return folded(known.type.name) == name; });
  return found == known_gpus().end() ? nullptr : &*found;
}

// A node's adapters: how many, and GB/s each.
struct Adapters {
  int count = 0;
  double rate = 0;
  std::string assumed;
};

// The part of the Omni-Path 100 adapters' 12.5 GB/s that GPU memory gets, because their protocol runs on the host's cores. From
// the multi-node runs of the BLOOM training on Jean Zay.
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
  for (const KnownGpu& known : known_gpus())
    if (known.type.driver_name == name) return known.type.name;
  constexpr std::string_view kMaker = "NVIDIA ";
  return name.rfind(kMaker, 0) == 0 ? name.substr(kMaker.size()) : name;
}

std::string device_file_of(const std::string& gpu) {
  const KnownGpu* known = find_gpu(gpu);
  return known == nullptr ? "" : known->file;
}

const DeviceType* device_of(const std::string& gpu) {
  const KnownGpu* known = find_gpu(gpu);
  return known == nullptr ? nullptr : &known->type;
}

RunCluster cluster_of(const RunRow& row, const std::string& calibration) {
  RunCluster result;
  const KnownGpu* known = find_gpu(row.gpu);
  if (known == nullptr) {
    std::vector<std::string> names;
    for (const KnownGpu& gpu : known_gpus()) names.push_back(gpu.type.name);
    result.problem = row.gpu.empty()
                         ? "no gpu is stated"
                         : fmt::format("no data sheet of the GPU '{}'; there are {}", row.gpu, fmt::join(names, ", "));
    return result;
  }
  result.device = known->file;
  const int gpus = row.gpus.value_or(row.tp.value_or(1) * row.pp.value_or(1) * row.dp.value_or(1));
  const int described = known->cards == 0 ? 8 : known->cards;
  if (!row.gpus_per_node && gpus > 1) result.assumed.push_back(fmt::format("gpus_per_node: {}", described));
  const int per_node = row.gpus_per_node.value_or(described), nodes = (gpus + per_node - 1) / per_node;
  std::string overrides;
  std::string device = fmt::format("file: devices/{}.yaml", known->file);
  if (!calibration.empty()) device += fmt::format(", calibration: \"{}\"", calibration);
  if (known->bridged && row.fabric.find("no NVLink") != std::string::npos) overrides += ", wiring: {bridges: {pairs: []}}";
  if (known->cards == 0) {
    overrides += fmt::format(", devices_per_node: {}", per_node);
  } else if (nodes > 1 ? per_node != known->cards : gpus > known->cards) {
    result.problem = fmt::format("{} {} in nodes of {}: only a server of {} is described", gpus, row.gpu, per_node, known->cards);
    return result;
  } else if (gpus > 1 && per_node != known->cards) {
    result.assumed.push_back(fmt::format("wiring: the first {} cards of {}", gpus, known->type.server));
  }
  // Amazon's p5 servers are known whole: their adapters in another count than a DGX's, with a latency of their own.
  std::string cluster = known->type.server;
  const bool p5 = known->file == "h100-sxm" && per_node == 8 && row.fabric.find("EFA") != std::string::npos;
  if (p5) cluster = "aws-p5";
  if (nodes > 1 && !p5) {
    const Adapters adapters = adapters_of(row);
    if (adapters.count > 0)
      overrides += fmt::format(", network: {{nics_per_node: {}, bandwidth: {} GB/s}}", adapters.count, adapters.rate);
    else
      result.assumed.push_back(known->cards == 0 ? "network: a 25 GB/s adapter per GPU"
                                                 : fmt::format("network: that of {}", known->type.server));
    if (!adapters.assumed.empty()) result.assumed.push_back(adapters.assumed);
  }
  result.yaml = fmt::format("{{file: clusters/{}.yaml, nodes: {}, device: {{{}}}{}}}", cluster, nodes, device, overrides);
  return result;
}

}  // namespace panpipe::validation
