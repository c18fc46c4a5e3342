#include "costmodel/cluster/impaired.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/cluster/host_path.hpp"

namespace panpipe {
namespace {

// Routes of a sound cluster, at the bandwidths of the degraded one.
class ImpairedWiring : public Wiring, public HostPaths, public HasFabric {
 public:
  ImpairedWiring(std::shared_ptr<const Wiring> sound, Fabric fabric, const std::vector<Resource>& resources)
      : sound_(std::move(sound)), fabric_(std::move(fabric)) {
    for (const Resource& resource : resources) bandwidths_.push_back(resource.bandwidth);
  }

  const Fabric& fabric() const override { return fabric_; }
  Route route(int from, int to) const override { return narrowed(sound_->route(from, to)); }

  std::optional<Route> host_path(int device, bool away) const override {
    const auto* hosts = dynamic_cast<const HostPaths*>(sound_.get());
    std::optional<Route> route = hosts != nullptr ? hosts->host_path(device, away) : std::nullopt;
    if (route) route = narrowed(*std::move(route));
    return route;
  }

 private:
  Route narrowed(Route route) const {
    for (const Hop& hop : route.hops) route.bandwidth = std::min(route.bandwidth, bandwidths_[at(hop.resource)] / hop.uses);
    return route;
  }

  std::shared_ptr<const Wiring> sound_;
  Fabric fabric_;
  std::vector<Bandwidth> bandwidths_;  // of the cluster's resources
};

bool is_part_of(const std::string& resource, const std::string& link) {
  return resource.starts_with(link) && (resource.size() == link.size() || resource[link.size()] == '.');
}

// One more type for each type and slowdown.
void slow_down(Cluster& cluster, Fabric& fabric, const SlowDevice& slow) {
  if (slow.slowdown == 1) return;
  std::int32_t& type = cluster.devices[at(slow.device)].type;
  const std::int32_t sound = type;
  fabric.slowdown.resize(cluster.types.size(), 1);
  fabric.clock.resize(cluster.types.size(), 1);
  for (std::size_t t = 0; t < cluster.types.size(); ++t)
    if (fabric.slowdown[t] == slow.slowdown && cluster.types[t].name == cluster.types[at(sound)].name &&
        cluster.types[t].memory == cluster.types[at(sound)].memory && fabric.clock[t] == fabric.clock[at(sound)]) {
      type = static_cast<std::int32_t>(t);
      return;
    }
  type = static_cast<std::int32_t>(cluster.types.size());
  cluster.types.push_back(DeviceType(cluster.types[at(sound)]));
  fabric.slowdown.push_back(slow.slowdown);
  fabric.clock.push_back(fabric.clock[at(sound)]);
}

// What a node's NICs carry, or its uplink where that is less; the narrower of both directions.
void narrow_nodes(Cluster& cluster) {
  struct Way {
    double out = 0, in = 0;
  };
  std::vector<Way> nics(cluster.node.size());
  std::vector<double> uplinks(cluster.node.size(), std::numeric_limits<double>::infinity());
  for (const Resource& resource : cluster.resources) {
    if (!resource.name.starts_with("node") || (resource.kind != ResourceClass::Nic && resource.kind != ResourceClass::LeafUplink))
      continue;
    const std::size_t node = std::stoul(resource.name.substr(4));
    const double bandwidth = resource.bandwidth.base();
    if (resource.kind == ResourceClass::LeafUplink)
      uplinks[node] = std::min(uplinks[node], bandwidth);
    else
      (resource.name.ends_with(".out") ? nics[node].out : nics[node].in) += bandwidth;
  }
  for (std::size_t n = 0; n < nics.size(); ++n)
    cluster.node[n].network =
        std::min({cluster.node[n].network, Bandwidth(std::min(nics[n].out, nics[n].in)), Bandwidth(uplinks[n])});
}

// Of the ring over the first node's devices, as when the cluster was assembled.
void narrow_fabric(Cluster& cluster) {
  const int devices = cluster.node.empty() ? 0 : cluster.node.front().devices;
  std::vector<int> uses(cluster.resources.size(), 0);
  for (int from = 0; devices > 1 && from < devices; ++from)
    for (const Hop& hop : cluster.route(from, (from + 1) % devices).hops) uses[at(hop.resource)] += hop.uses;
  for (std::size_t r = 0; r < uses.size(); ++r)
    if (uses[r] > 0) cluster.fabric_bandwidth = std::min(cluster.fabric_bandwidth, cluster.resources[r].bandwidth / uses[r]);
}

// Below 1 the share that is left, above 1 how many times as long it takes: 0.5 and 2 are the same.
double times_as_long(double factor) { return factor < 1 ? 1 / factor : factor; }

std::optional<double> read_factor(MapReader& entry) {
  const Node* node = entry.require("factor");
  if (node == nullptr) return std::nullopt;
  const std::optional<double> factor = read_number(*node, entry.log(), Sign::Positive);
  return factor ? std::optional(times_as_long(*factor)) : std::nullopt;
}

template <class Read>
void each_entry(MapReader& reader, const char* key, const char* example, Read read) {
  const Node* list = reader.find(key);
  if (list == nullptr) return;
  if (list->kind != NodeKind::Sequence) {
    reader.log().error(*list, fmt::format("expected a list of maps, not {}", words_for(*list)), example);
    return;
  }
  for (const NodePtr& item : list->items) {
    MapReader entry(*item, reader.log());
    read(entry);
    entry.finish();
  }
}

std::optional<SlowDevice> read_slow(MapReader& entry, const Cluster& cluster, std::set<int>& seen) {
  const Node* device = entry.require("device");
  const std::optional<double> factor = read_factor(entry);
  if (device == nullptr || !factor) return std::nullopt;
  const std::optional<int> index = read_integer(*device, entry.log(), 0);
  if (!index) return std::nullopt;
  if (*index >= cluster.size()) {
    entry.log().error(
        *device, fmt::format("device {} does not exist: the cluster has {} (0..{})", *index, cluster.size(), cluster.size() - 1));
    return std::nullopt;
  }
  if (!seen.insert(*index).second) {
    entry.log().error(*device, fmt::format("device {} is named twice", *index));
    return std::nullopt;
  }
  return SlowDevice{*index, *factor};
}

bool joins_a_pair(ResourceClass kind) { return kind == ResourceClass::BridgeLink || kind == ResourceClass::GivenLink; }

// The resources that only the two devices use, one each way.
std::vector<DegradedLink> links_of_pair(const Node& pair, const Cluster& cluster, ReadLog& log) {
  std::vector<int> ends;
  for (const NodePtr& item : pair.items)
    if (const auto end = read_integer(*item, log, 0); end && *end < cluster.size()) ends.push_back(*end);
  if (ends.size() != 2 || ends[0] == ends[1]) {
    log.error(pair, fmt::format("expected two devices of 0..{}", cluster.size() - 1), "for example [0, 1]");
    return {};
  }
  std::vector<DegradedLink> links;
  for (const auto& [from, to] : {std::pair(ends[0], ends[1]), std::pair(ends[1], ends[0])})
    for (const Hop& hop : cluster.route(from, to).hops)
      if (const Resource& resource = cluster.resources[at(hop.resource)]; joins_a_pair(resource.kind))
        links.push_back({resource.name});
  if (links.empty())
    log.error(pair, fmt::format("devices {} and {} have no link of their own with a bandwidth", ends[0], ends[1]),
              "name a part of the way between them, as panpipe check --links prints it: {link: node0.gpu0.switch, factor: 0.5}");
  return links;
}

std::vector<DegradedLink> read_link(const Node& link, const Cluster& cluster, ReadLog& log) {
  if (link.kind == NodeKind::Sequence) return links_of_pair(link, cluster, log);
  const std::optional<std::string> name = read_string(link, log);
  if (!name) return {};
  std::vector<std::string> names;
  for (const Resource& resource : cluster.resources) {
    if (is_part_of(resource.name, *name)) return {{*name}};
    names.push_back(resource.name);
  }
  log.error(link, fmt::format("this cluster has no link '{}'{}", *name, suggestion(*name, names)),
            names.empty() ? "its links have no bandwidth that several transfers share"
                          : "panpipe check --links SCENARIO names them; without the direction a name is of both");
  return {};
}

}  // namespace

Cluster impaired(Cluster cluster, const std::vector<SlowDevice>& slow, const std::vector<DegradedLink>& degraded) {
  if (slow.empty() && degraded.empty()) return cluster;
  Fabric fabric = fabric_of(cluster);
  fabric.sound = std::make_shared<const Cluster>(cluster);
  for (const SlowDevice& device : slow) slow_down(cluster, fabric, device);
  fabric.slow = slow;
  fabric.degraded = degraded;
  for (const DegradedLink& link : degraded) {
    bool known = false;
    for (Resource& resource : cluster.resources)
      if (is_part_of(resource.name, link.link)) {
        resource.bandwidth = resource.bandwidth * link.share;
        known = true;
        if (resource.kind == ResourceClass::Spine) cluster.spine = resource.bandwidth;
      }
    PANPIPE_CHECK(known, "a degraded link exists");
  }
  if (!degraded.empty()) fabric.alike = cluster.switched = false;
  cluster.wiring = std::make_shared<const ImpairedWiring>(cluster.wiring, std::move(fabric), cluster.resources);
  if (degraded.empty()) return cluster;
  narrow_nodes(cluster);
  narrow_fabric(cluster);
  return cluster;
}

void read_impairments(MapReader& reader, Cluster& cluster) {
  ReadLog& log = reader.log();
  if (log.has_errors()) {  // of another cluster than the intended one
    for (const char* key : {"slow", "degraded"}) reader.find(key);
    return;
  }
  std::vector<SlowDevice> slow;
  std::set<int> seen;
  each_entry(reader, "slow", "for example [{device: 3, factor: 0.9}]", [&](MapReader& entry) {
    if (const auto device = read_slow(entry, cluster, seen)) slow.push_back(*device);
  });
  std::vector<DegradedLink> degraded;
  std::set<std::string> names;
  each_entry(reader, "degraded", "for example [{link: node0.nic3, factor: 0.5}]", [&](MapReader& entry) {
    const Node* link = entry.require("link");
    const std::optional<double> factor = read_factor(entry);
    if (link == nullptr || !factor) return;
    for (DegradedLink& each : read_link(*link, cluster, log)) {
      if (!names.insert(each.link).second) log.error(*link, fmt::format("link '{}' is named twice", each.link));
      each.share = 1 / *factor;
      degraded.push_back(std::move(each));
    }
  });
  if (!log.has_errors()) cluster = impaired(std::move(cluster), slow, degraded);
}

}  // namespace panpipe
