#include "costmodel/cluster/assemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "costmodel/cluster/fabric.hpp"
#include "costmodel/cluster/host_path.hpp"

namespace panpipe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The common part of the routes of all nodes in a group.
struct Group {
  NodeTemplate node;
  std::optional<NetworkParameters> network;
  int first_nic = 0;     // in the node's block of resources: nic0.out, nic0.in, nic1.out ...
  int first_uplink = 0;  // uplink.out, uplink.in; -1 when the tree does not block
  std::string device_word, type_name;
  std::string missing_way;  // why two devices of this node may have no route
};

struct Block {  // a node's share of the cluster's resources and devices
  int group = 0;
  int first_resource = 0;
  int first_device = 0;
};

class TreeWiring : public Wiring, public HostPaths, public HasFabric {
 public:
  Fabric around;
  std::vector<Group> groups;
  std::vector<Block> nodes;
  std::vector<int> node_of;           // device -> node
  std::vector<Bandwidth> bandwidths;  // of the cluster's resources
  int spine = -1;
  int first_rail = -1;  // rail0.up, rail0.down, rail1.up ...; -1 when they do not block

  Route route(int from, int to) const override {
    const auto devices = static_cast<int>(node_of.size());
    PANPIPE_CHECK(from >= 0 && from < devices && to >= 0 && to < devices, "no such device");
    const int from_node = node_of[from];
    const int to_node = node_of[to];
    return from_node == to_node ? route_inside(from_node, from, to) : route_between(from_node, to_node, from, to);
  }

  const Fabric& fabric() const override { return around; }

  std::optional<Route> host_path(int device, bool away) const override {
    PANPIPE_CHECK(device >= 0 && device < static_cast<int>(node_of.size()), "no such device");
    const Block& place = node(node_of[device]);
    const NodeTemplate& local = group(place).node;
    std::optional<Route> route = (away ? local.to_host : local.from_host)[device - place.first_device];
    if (route)
      for (Hop& hop : route->hops) hop.resource += place.first_resource;
    return route;
  }

 private:
  const Block& node(int index) const { return nodes[index]; }
  const Group& group(const Block& place) const { return groups[place.group]; }

  Route route_inside(int index, int from, int to) const {
    const Block& place = node(index);
    const std::optional<Route>& local = group(place).node.route(from - place.first_device, to - place.first_device);
    if (!local) throw InputError(fmt::format("{} cannot reach {}: {}", describe(from), describe(to), group(place).missing_way));
    Route result = *local;
    for (Hop& hop : result.hops) hop.resource += place.first_resource;
    return result;
  }

  Route route_between(int from_node, int to_node, int from, int to) const {
    if (!group(node(from_node)).network || !group(node(to_node)).network)
      throw InputError(fmt::format("{} cannot reach {}: the cluster has no network", describe(from), describe(to)));
    Route result;
    result.path = PathClass::Network;
    add_side(result, node(from_node), from, 0);
    const int from_rail = nic_of(node(from_node), from), to_rail = nic_of(node(to_node), to);
    const bool crosses = around.rails == 0 || from_rail != to_rail;
    if (crosses && first_rail >= 0) result.hops.push_back({first_rail + 2 * from_rail, 1});
    if (crosses && spine >= 0) result.hops.push_back({spine, 1});
    if (crosses && first_rail >= 0) result.hops.push_back({first_rail + 2 * to_rail + 1, 1});
    add_side(result, node(to_node), to, 1);
    result.bandwidth = Bandwidth(kInfinity);
    for (const Hop& hop : result.hops) result.bandwidth = std::min(result.bandwidth, bandwidths[hop.resource] / hop.uses);
    return result;
  }

  // Devices are spread over a node's NICs in blocks.
  int nic_of(const Block& place, int device) const {
    const Group& kind = group(place);
    return static_cast<int>(static_cast<long long>(device - place.first_device) * kind.network->nics_per_node /
                            kind.node.devices);
  }

  // The NIC and uplink of one end; direction 0 = out, 1 = in.
  void add_side(Route& result, const Block& place, int device, int direction) const {
    const Group& kind = group(place);
    const int nic = nic_of(place, device);
    result.latency = std::max(result.latency, kind.network->latency);
    result.hops.push_back({place.first_resource + kind.first_nic + 2 * nic + direction, 1});
    if (kind.first_uplink >= 0) result.hops.push_back({place.first_resource + kind.first_uplink + direction, 1});
  }

  std::string describe(int device) const {
    const int index = node_of[device];
    const Group& kind = group(node(index));
    return fmt::format("device {} (node{}.{}{}, {})", device, index, kind.device_word, device - node(index).first_device,
                       kind.type_name);
  }
};

std::string missing_way(const NodeGroup& group) {
  if (!group.wiring.host && !group.wiring.peer_access && group.wiring.peer)
    return fmt::format("{} has no PCIe peer access, and the cluster has no 'wiring.host' to copy through", group.type.name);
  return "no link, switch, PCIe peer access or host memory joins them";
}

Bandwidth node_network(const NodeGroup& group) {
  if (!group.network) return Bandwidth(0);
  const double narrower = group.network->rails ? 1 : std::max(1.0, group.network->oversubscription);
  return group.network->nic * group.network->nics_per_node / narrower;
}

// A node's whole block of resources: inside, then its NICs, then its uplink.
Group make_group(const NodeGroup& source) {
  Group group{make_node(source.wiring), source.network, 0, -1, source.wiring.device_word, source.type.name, missing_way(source)};
  std::vector<Resource>& block = group.node.resources;
  if (!source.network) return group;
  const NetworkParameters& network = *source.network;
  group.first_nic = static_cast<int>(block.size());
  for (int nic = 0; nic < network.nics_per_node; ++nic)
    for (const char* direction : {"out", "in"})
      block.push_back({fmt::format("nic{}.{}", nic, direction), ResourceClass::Nic, network.nic});
  if (network.oversubscription > 1 && !network.rails) {
    group.first_uplink = static_cast<int>(block.size());
    for (const char* direction : {"out", "in"})
      block.push_back({fmt::format("uplink.{}", direction), ResourceClass::LeafUplink, node_network(source)});
  }
  return group;
}

bool all_switched(const std::vector<Group>& groups) {
  return std::all_of(groups.begin(), groups.end(), [](const Group& group) {
    if (group.node.devices < 2) return false;
    return std::all_of(group.node.routes.begin(), group.node.routes.end(), [](const std::optional<Route>& route) {
      return route && (route->path == PathClass::Switch || route->path == PathClass::Local);
    });
  });
}

// The switches of each rail, if the network has rails: their uplinks carry what their NICs do, over the oversubscription.
void add_rails(const std::vector<NodeGroup>& sources, Cluster& cluster, TreeWiring& wiring) {
  if (sources.empty() || !sources.front().network || !sources.front().network->rails) return;
  Fabric& fabric = wiring.around;
  fabric.rails = sources.front().network->nics_per_node;
  fabric.alike = false;
  const double oversubscription = sources.front().network->oversubscription;
  if (oversubscription <= 1) return;
  Bandwidth below(0);
  for (const NodeGroup& source : sources) below += source.network->nic * source.nodes;
  fabric.rail_uplink = below / oversubscription;
  wiring.first_rail = static_cast<int>(cluster.resources.size());
  for (int rail = 0; rail < fabric.rails; ++rail)
    for (const char* direction : {"up", "down"})
      cluster.resources.push_back({fmt::format("rail{}.{}", rail, direction), ResourceClass::LeafUplink, fabric.rail_uplink});
}

int type_index(std::vector<DeviceType>& types, std::vector<double>& clocks, const NodeGroup& group) {
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i].name == group.type.name && types[i].memory == group.type.memory && types[i].usable == group.type.usable &&
        clocks[i] == group.clock)
      return static_cast<int>(i);
  types.push_back(group.type);
  clocks.push_back(group.clock);
  return static_cast<int>(types.size()) - 1;
}

class PairWiring : public Wiring {
 public:
  int devices = 0;
  GivenLink link;

  bool shared() const { return !link.table && std::isfinite(link.bandwidth.base()); }

  Route route(int from, int to) const override {
    PANPIPE_CHECK(from >= 0 && from < devices && to >= 0 && to < devices, "no such device");
    Route result;
    result.bandwidth = Bandwidth(kInfinity);
    if (from == to) return result;
    result.path = PathClass::Given;
    result.latency = link.latency;
    result.table = link.table;
    if (!link.table) result.bandwidth = link.bandwidth;
    // Ordered pairs without the diagonal, row by row.
    if (shared()) result.hops = {{from * (devices - 1) + (to < from ? to : to - 1), 1}};
    return result;
  }
};

}  // namespace

Cluster assemble_cluster(std::string name, const std::vector<NodeGroup>& given) {
  std::vector<NodeGroup> sources = given;
  if (sources.size() == 1 && sources.front().nodes == 1) sources.front().network.reset();  // nobody to talk to
  auto wiring = std::make_shared<TreeWiring>();
  Cluster cluster;
  cluster.name = std::move(name);
  cluster.nodes = 0;
  for (const NodeGroup& source : sources) {
    const int type = type_index(cluster.types, wiring->around.clock, source);
    const int group_index = static_cast<int>(wiring->groups.size());
    const Group& group = wiring->groups.emplace_back(make_group(source));
    for (int i = 0; i < source.nodes; ++i) {
      const int node = cluster.nodes++;
      wiring->nodes.push_back({group_index, static_cast<int>(cluster.resources.size()), cluster.size()});
      cluster.node.push_back({group_index, group.node.devices, node_network(source),
                              source.network ? source.network->post : Duration(0), source.host_memory});
      for (const Resource& resource : group.node.resources)
        cluster.resources.push_back({fmt::format("node{}.{}", node, resource.name), resource.kind, resource.bandwidth});
      for (int device = 0; device < group.node.devices; ++device) cluster.devices.push_back({type, node, device});
    }
  }
  for (const Device& device : cluster.devices) wiring->node_of.push_back(device.node);
  for (const NodeGroup& source : sources)
    if (wiring->spine < 0 && source.network && source.network->spine) {
      wiring->spine = static_cast<int>(cluster.resources.size());
      cluster.spine = *source.network->spine;
      cluster.resources.push_back({"spine", ResourceClass::Spine, cluster.spine});
    }
  add_rails(sources, cluster, *wiring);
  wiring->around.reduces = std::any_of(sources.begin(), sources.end(),
                                       [](const NodeGroup& source) { return source.network && source.network->sharp; });
  for (const Resource& resource : cluster.resources) wiring->bandwidths.push_back(resource.bandwidth);
  cluster.switched = all_switched(wiring->groups);
  if (!sources.empty()) cluster.fabric_bandwidth = ring_bandwidth(wiring->groups.front().node);
  cluster.wiring = std::move(wiring);
  return cluster;
}

std::optional<Route> host_path(const Cluster& cluster, int device, bool away) {
  const auto* hosts = dynamic_cast<const HostPaths*>(cluster.wiring.get());
  return hosts != nullptr ? hosts->host_path(device, away) : std::nullopt;
}

Bandwidth host_copy_bandwidth(const Cluster& cluster, int device, bool away) {
  const Bandwidth own = cluster.type_of(device).copy_bandwidth;
  const auto path = host_path(cluster, device, away);
  return path ? std::min(own, path->bandwidth) : own;
}

Bandwidth shared_host_copy_bandwidth(const Cluster& cluster, const std::vector<int>& devices, int device, bool away) {
  Bandwidth rate = host_copy_bandwidth(cluster, device, away);
  const auto own = host_path(cluster, device, away);
  if (!own) return rate;
  std::vector<int> uses(cluster.resources.size(), 0);
  for (const int other : devices)
    if (const auto path = host_path(cluster, other, away))
      for (const Hop& hop : path->hops) uses[hop.resource] += hop.uses;
  for (const Hop& hop : own->hops) {
    const auto resource = static_cast<std::size_t>(hop.resource);
    rate = std::min(rate, cluster.resources[resource].bandwidth / std::max(hop.uses, uses[resource]));
  }
  return rate;
}

Cluster given_cluster(int devices, Bytes memory, std::optional<double> usable, const GivenLink& link) {
  auto wiring = std::make_shared<PairWiring>();
  wiring->devices = devices;
  wiring->link = link;
  Cluster cluster;
  cluster.name = "given";
  cluster.given = true;
  cluster.usable = usable;
  DeviceType type;
  type.name = "given";
  type.kind = "given";
  type.memory = memory;
  cluster.types.push_back(std::move(type));
  cluster.node.push_back({0, devices, Bandwidth(0)});
  for (int i = 0; i < devices; ++i) cluster.devices.push_back({0, 0, i});
  if (wiring->shared())
    for (int from = 0; from < devices; ++from)
      for (int to = 0; to < devices; ++to)
        if (from != to)
          cluster.resources.push_back(
              {fmt::format("link.device{}-device{}", from, to), ResourceClass::GivenLink, link.bandwidth});
  cluster.fabric_bandwidth = link.table ? Bandwidth(kInfinity) : link.bandwidth;
  if (link.table && link.table->points.size() > 1) {
    const auto& [left_size, left_time] = link.table->points[link.table->points.size() - 2];
    const auto& [right_size, right_time] = link.table->points.back();
    if (right_time > left_time) cluster.fabric_bandwidth = (right_size - left_size) / (right_time - left_time);
  }
  cluster.wiring = std::move(wiring);
  return cluster;
}

}  // namespace panpipe
