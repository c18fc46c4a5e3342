#include "costmodel/cluster/wiring_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/files/files_read.hpp"
#include "base/files/input_registry.hpp"
#include "costmodel/cluster/nvidia_smi_topology.hpp"
#include "costmodel/cluster/wiring_defaults.hpp"

namespace panpipe {
namespace {

namespace defaults = wiring_defaults;

// Every bandwidth here is of something that transfers share, so it must have an end.
Bandwidth read_capacity(MapReader& reader, const std::string& key, std::optional<Bandwidth> fallback = {}) {
  const Bandwidth value = reader.bandwidth(key, Sign::Positive, fallback);
  if (std::isinf(value.base()))
    reader.log().error(*reader.node().find(key), "a shared resource cannot be unlimited",
                       "only the link of a cluster written in place can");
  return value;
}

std::optional<int> read_device_index(const Node& node, int devices, ReadLog& log) {
  const std::optional<int> index = read_integer(node, log, 0);
  if (index && *index >= devices) {
    log.error(node, fmt::format("device {} does not exist: a node has {} (0..{})", *index, devices, devices - 1));
    return std::nullopt;
  }
  return index;
}

// A list of lists of device indices, no device twice.
std::vector<std::vector<int>> read_groups(const Node& node, int devices, ReadLog& log) {
  std::vector<std::vector<int>> groups;
  std::set<int> seen;
  if (node.kind != NodeKind::Sequence) {
    log.error(node, "expected a list of lists of devices", "for example [[0, 1], [2, 3]]");
    return groups;
  }
  for (const NodePtr& item : node.items) {
    if (item->kind != NodeKind::Sequence) {
      log.error(*item, "expected a list of devices", "for example [0, 1]");
      continue;
    }
    std::vector<int>& group = groups.emplace_back();
    for (const NodePtr& member : item->items)
      if (const auto index = read_device_index(*member, devices, log)) {
        if (!seen.insert(*index).second) log.error(*member, fmt::format("device {} is named twice", *index));
        group.push_back(*index);
      }
  }
  return groups;
}

void add_link(NodeWiring& wiring, PairLink link, const Node& at, ReadLog& log) {
  if (link.first == link.second) {
    log.error(at, fmt::format("a link joins two devices, not {} with itself", link.first));
    return;
  }
  for (const PairLink& other : wiring.links)
    if (std::minmax(other.first, other.second) == std::minmax(link.first, link.second)) {
      log.error(at, fmt::format("devices {} and {} are linked twice", link.first, link.second));
      return;
    }
  wiring.links.push_back(link);
}

std::optional<std::pair<int, int>> read_pair(const Node& node, int devices, ReadLog& log) {
  if (node.kind != NodeKind::Sequence || node.items.size() != 2) {
    log.error(node, "expected two devices", "for example [0, 1]");
    return std::nullopt;
  }
  const auto first = read_device_index(*node.items[0], devices, log);
  const auto second = read_device_index(*node.items[1], devices, log);
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

void read_bridges(const Node& node, NodeWiring& wiring, ReadLog& log) {
  MapReader reader(node, log);
  const Node* pairs = reader.require("pairs");
  const Bandwidth bandwidth = read_capacity(reader, "bandwidth");
  const Duration latency = reader.duration("latency", Sign::NonNegative, defaults::kNvlinkLatency);
  reader.finish();
  wiring.links.clear();  // a matrix's, which this key replaces
  if (!pairs) return;
  if (pairs->kind != NodeKind::Sequence) {
    log.error(*pairs, "expected a list of pairs of devices", "for example [[0, 1], [2, 3]]");
    return;
  }
  for (const NodePtr& item : pairs->items)
    if (const auto pair = read_pair(*item, wiring.devices, log))
      add_link(wiring, {pair->first, pair->second, PathClass::Bridge, bandwidth, latency}, *item, log);
}

void read_links(const Node& node, NodeWiring& wiring, ReadLog& log) {
  if (node.kind != NodeKind::Sequence) {
    log.error(node, "expected a list of links",
              "for example [{between: [0, 1], class: bridge, bandwidth: 50 GB/s, latency: 2 us}]");
    return;
  }
  for (const NodePtr& item : node.items) {
    MapReader reader(*item, log);
    const Node* between = reader.require("between");
    PairLink link;
    link.path = reader.choice<PathClass>("class",
                                         {{"bridge", PathClass::Bridge},
                                          {"peer-pcie", PathClass::PeerPcie},
                                          {"host", PathClass::Host},
                                          {"host-sockets", PathClass::HostSockets}},
                                         PathClass::Bridge);
    link.bandwidth = read_capacity(reader, "bandwidth");
    link.latency = reader.duration("latency");
    reader.finish();
    if (!between) continue;
    const auto pair = read_pair(*between, wiring.devices, log);
    if (!pair) continue;
    std::tie(link.first, link.second) = *pair;
    add_link(wiring, link, *between, log);
  }
}

// Of 16 lanes of the third generation, each later one twice that: the share of the raw rate that PCIe 4.0 and 5.0 reach with 25
// of 31.5 and 50 of 63 GB/s (sources of scenarios/devices/).
constexpr Bandwidth kSixteenLanes = gb_per_s(12.5);

// Reads a slot: its bandwidth as stated, and the most that its generation and lanes carry. Lanes alone are a share of what is
// stated for sixteen.
void read_slot(const Node& node, NodeWiring& wiring, ReadLog& log) {
  constexpr int kFirst = 3, kLast = 6, kMostLanes = 16;
  MapReader pcie(node, log);
  const bool has_generation = pcie.has("generation"), has_lanes = pcie.has("lanes");
  const int generation = has_generation ? pcie.integer("generation", kFirst) : kFirst;
  const int lanes = pcie.integer("lanes", 1, kMostLanes);
  if (generation > kLast) log.error(*node.find("generation"), fmt::format("the last generation of PCIe is {}", kLast));
  if (lanes > kMostLanes) log.error(*node.find("lanes"), fmt::format("a slot has at most {} lanes", kMostLanes));
  const double share = std::min(lanes, kMostLanes) / static_cast<double>(kMostLanes);
  if (has_generation) wiring.slot = kSixteenLanes * (std::exp2(std::min(generation, kLast) - kFirst) * share);
  wiring.pcie = read_capacity(pcie, "bandwidth", wiring.slot);
  if (has_lanes && !has_generation) wiring.slot = *wiring.pcie * share;
  pcie.finish();
}

// A slot with less than the card's own lanes narrows what goes through it; other links of the node stay.
void narrow_to_slot(NodeWiring& wiring) {
  if (!wiring.slot) return;
  const double share = wiring.pcie ? std::min(1.0, *wiring.slot / *wiring.pcie) : 1;
  if (wiring.host) {
    wiring.host->copy = std::min(wiring.host->copy * share, *wiring.slot);
    if (wiring.host->both_ways) wiring.host->both_ways = *wiring.host->both_ways * share;
  }
  if (wiring.pcie) wiring.pcie = *wiring.pcie * share;
}

void read_roots(const Node& node, NodeWiring& wiring, ReadLog& log) {
  MapReader reader(node, log);
  RootParameters roots;
  if (const Node* groups = reader.require("groups")) roots.groups = read_groups(*groups, wiring.devices, log);
  roots.uplink = read_capacity(reader, "bandwidth", wiring.pcie);
  reader.finish();
  wiring.roots = roots.groups.empty() ? std::nullopt : std::optional(roots);
}

void read_sockets(const Node& node, NodeWiring& wiring, ReadLog& log) {
  MapReader reader(node, log);
  SocketParameters sockets;
  const Node* groups = reader.require("groups");
  if (groups) sockets.groups = read_groups(*groups, wiring.devices, log);
  sockets.link = read_capacity(reader, "bandwidth", defaults::kSocketLink);
  sockets.latency = reader.duration("latency", Sign::NonNegative, defaults::kSocketLatency);
  reader.finish();
  std::size_t members = 0;
  for (const auto& group : sockets.groups) members += group.size();
  if (groups && members < static_cast<std::size_t>(wiring.devices) && !log.has_errors())
    log.error(*groups, fmt::format("{} of {} devices are on a socket", members, wiring.devices),
              "name every device of the node once");
  wiring.sockets = std::move(sockets);
}

void read_host(const Node& node, NodeWiring& wiring, ReadLog& log) {
  MapReader reader(node, log);
  HostParameters host;
  host.copy = read_capacity(reader, "copy");
  if (reader.has("both_ways")) host.both_ways = read_capacity(reader, "both_ways");
  if (reader.has("memory")) host.memory = read_capacity(reader, "memory");
  if (reader.has("relay")) host.relay = read_capacity(reader, "relay");
  host.latency = reader.duration("latency", Sign::NonNegative, defaults::kHostLatency);
  reader.finish();
  wiring.host = host;
}

std::optional<TopologyMatrix> load_matrix(const Node& node, ReadLog& log) {
  const auto path = read_file_reference(node, log, "topology matrix");
  if (!path) return std::nullopt;
  const std::string text = input_bytes(*path).value_or("");
  report_file_read(*path);
  return parse_topology_matrix(text, *path);
}

// The initial wiring: from a matrix, or bare devices.
NodeWiring start_wiring(MapReader* reader, int devices, const DeviceType& type, ReadLog& log) {
  NodeWiring wiring;
  wiring.devices = devices;
  wiring.device_word = type.kind;
  wiring.peer_access = type.peer_access;
  const Node* topology = reader ? reader->find("topology") : nullptr;
  if (!topology) return wiring;
  const std::optional<TopologyMatrix> matrix = load_matrix(*topology, log);
  if (!matrix) return wiring;
  if (devices != 0 && matrix->devices != devices)
    log.error(*topology, fmt::format("the matrix has {} devices, but 'devices_per_node' is {}", matrix->devices, devices));
  try {
    return wiring_from_matrix(*matrix, type);
  } catch (const InputError& error) {
    log.add_at(*topology, error);
  }
  return wiring;
}

}  // namespace

NodeWiring read_wiring(const Node* node, int devices, const DeviceType& type, ReadLog& log) {
  if (!node) return start_wiring(nullptr, devices, type, log);
  MapReader reader(*node, log);
  NodeWiring wiring = start_wiring(&reader, devices, type, log);
  if (const Node* fabric = reader.find("switch")) {
    MapReader keys(*fabric, log);
    wiring.fabric =
        SwitchParameters{read_capacity(keys, "bandwidth"), keys.duration("latency", Sign::NonNegative, defaults::kNvlinkLatency)};
    keys.finish();
  }
  if (const Node* bridges = reader.find("bridges")) read_bridges(*bridges, wiring, log);
  if (const Node* links = reader.find("links")) read_links(*links, wiring, log);
  if (const Node* pcie = reader.find("pcie")) read_slot(*pcie, wiring, log);
  if (const Node* roots = reader.find("roots")) read_roots(*roots, wiring, log);
  if (const Node* sockets = reader.find("sockets")) read_sockets(*sockets, wiring, log);
  if (const Node* peer = reader.find("peer")) {
    MapReader keys(*peer, log);
    wiring.peer = PeerParameters{keys.duration("latency", Sign::NonNegative, defaults::kPeerLatency)};
    keys.finish();
    if (!wiring.pcie) log.error(*peer, "PCIe peer access needs 'pcie: {bandwidth: ...}'");
  }
  // Devices with peer access use it over PCIe if there is PCIe.
  if (!wiring.peer && wiring.pcie && wiring.peer_access) wiring.peer = PeerParameters{defaults::kPeerLatency};
  if (const Node* host = reader.find("host")) read_host(*host, wiring, log);
  narrow_to_slot(wiring);
  reader.finish();
  return wiring;
}

NetworkParameters read_network(const Node& node, ReadLog& log) {
  MapReader reader(node, log);
  NetworkParameters network;
  network.nics_per_node = reader.integer("nics_per_node", 1);
  network.nic = read_capacity(reader, "bandwidth");
  network.latency = reader.duration("latency", Sign::NonNegative, defaults::kNetworkLatency);
  network.post = reader.duration("post", Sign::NonNegative, defaults::kNetworkPost);
  network.oversubscription = reader.number("oversubscription", Sign::Positive, 1.0);
  if (network.oversubscription < 1) {
    if (const Node* value = node.find("oversubscription"))
      log.error(*value, "must be at least 1",
                "write 1 for a tree that never blocks, 2 where half of what the NICs can send leaves the node");
    network.oversubscription = 1;
  }
  if (reader.find("spine")) network.spine = read_capacity(reader, "spine");
  network.rails = reader.boolean("rails", false);
  network.sharp = reader.boolean("sharp", false);
  reader.finish();
  return network;
}

}  // namespace panpipe
