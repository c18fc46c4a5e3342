#include "costmodel/cluster/cluster_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <filesystem>
#include <utility>

#include "base/input/cached_document.hpp"
#include "costmodel/cluster/assemble.hpp"
#include "costmodel/cluster/collective_tables.hpp"
#include "costmodel/cluster/device_reader.hpp"
#include "costmodel/cluster/impaired.hpp"
#include "costmodel/cluster/value_or_file.hpp"
#include "costmodel/cluster/wiring_reader.hpp"

namespace panpipe {
namespace {

const ReferenceKind kCluster{"cluster", "clusters"};
const ReferenceKind kCollectives{"collectives", "collectives"};

// A shared link per ordered pair is a resource each: more devices than this belong into a cluster file.
constexpr int kMostGivenDevices = 1024;
constexpr int kMostUnsharedDevices = 65536;
constexpr long long kMostDevices = 1 << 20;
constexpr int kMostPerNode = 1024;  // devices or NICs: the routes inside a node are stored, one per ordered pair

std::shared_ptr<const TransferTable> read_table(const Node& node, ReadLog& log) {
  TransferTable table = read_transfer_table(node, log);
  return table.points.empty() ? nullptr : std::make_shared<const TransferTable>(std::move(table));
}

std::vector<NodeGroup> read_groups(MapReader& reader);

// The description that names the tables: the node, or a file to which it refers.
NodePtr description_with_tables(const Node& node) {
  const Node* file = node.kind == NodeKind::Scalar ? &node : node.find("file");
  if (file == nullptr || node.find("collectives") != nullptr) return std::make_shared<Node>(node);
  return description_with_tables(*cached_document(resolve_reference(file->text, kCluster, *file)));
}

std::shared_ptr<const Cluster> where_measured(const Node& node) {
  ReadLog log;
  const NodePtr tree = expand_reference(*description_with_tables(node), kCluster);
  MapReader reader(*tree, log);
  std::vector<NodeGroup> groups = read_groups(reader);
  log.throw_if_errors();
  for (NodeGroup& group : groups) {
    if (!group.network) return nullptr;
    group.nodes = 2;
  }
  return std::make_shared<const Cluster>(assemble_cluster("measured", groups));
}

// `collectives: FILE` of a cluster file.
std::shared_ptr<const CollectiveTables> read_collectives(const Node& node, ReadLog& log) {
  if (node.kind != NodeKind::Scalar) {
    log.error(node, "expected the name of a file of measured collectives",
              "make one with panpipe import nccl-tests FILE... -o TABLE");
    return nullptr;
  }
  return read_or_log(log, [&] { return load_collective_tables(resolve_reference(node.text, kCollectives, node)); });
}

// Latency and bandwidth as a delay that nothing shares; the slope is taken over a second.
std::shared_ptr<const TransferTable> delay_of(const GivenLink& link) {
  const double second = link.bandwidth.base();
  if (!(second >= 1 && second < 9e18)) return nullptr;  // unlimited (or a reported fault): nothing to share
  auto table = std::make_shared<TransferTable>();
  table->points = {{Bytes(0), link.latency}, {Bytes(std::llround(second)), link.latency + seconds(1)}};
  return table;
}

GivenLink read_given_link(const Node& node, ReadLog& log) {
  GivenLink link;
  MapReader reader(node, log);
  if (const Node* table = reader.find("table")) {
    link.table = read_table(*table, log);
    for (const char* other : {"latency", "bandwidth"})
      if (reader.find(other))
        log.error_at_key(node, other, "a link with a table has no other keys", "the table holds the whole time");
  } else {
    link.latency = reader.duration("latency");
    link.bandwidth = reader.bandwidth("bandwidth");
    if (!reader.boolean("shared", true)) link.table = delay_of(link);
  }
  reader.finish();
  return link;
}

// Without a value for the cluster, its devices' values apply.
std::optional<double> read_usable(MapReader& reader) {
  if (reader.find("usable") == nullptr) return std::nullopt;  // among the known keys when absent
  return reader.fraction("usable");
}

Cluster read_given(const Node& node, ReadLog& log) {
  MapReader reader(node, log);
  read_heading(reader, kCluster.kind, Heading::Optional);
  int devices = reader.integer("devices", 1);
  const Bytes memory = reader.bytes("memory", Sign::Positive);
  const std::optional<double> usable = read_usable(reader);
  GivenLink link;
  if (const Node* value = reader.require("link")) link = read_given_link(*value, log);
  if (const int most = link.table ? kMostUnsharedDevices : kMostGivenDevices; devices > most)
    log.error(*node.find("devices"), fmt::format("a cluster written in place has at most {} devices", most),
              "describe a larger one by nodes and wiring: docs/models/topology.md");
  Cluster cluster = given_cluster(log.has_errors() ? 0 : devices, memory, usable, link);
  read_impairments(reader, cluster);
  reader.finish();
  return log.has_errors() ? given_cluster(0, memory, usable, link) : cluster;
}

// The keys of one kind of node, from the cluster itself or from an entry of `groups:`.
NodeGroup read_group(MapReader& reader, const Node* common_device, const std::optional<NetworkParameters>& common_network) {
  ReadLog& log = reader.log();
  NodeGroup group;
  const Node* device = reader.find("device");
  if (!device) device = common_device;
  if (!device) device = reader.require("device");
  if (device) group.type = read_device(*device, log, &group.clock);
  group.nodes = reader.integer("nodes", 1, 1);
  const Node* wiring = reader.find("wiring");
  const bool from_matrix = wiring && wiring->find("topology") && !reader.has("devices_per_node");
  const int devices = from_matrix ? 0 : reader.integer("devices_per_node", 1);
  group.wiring = read_wiring(wiring, devices, group.type, log);
  if (reader.has("host_memory")) group.host_memory = reader.bytes("host_memory", Sign::Positive);
  if (const auto slot = group.wiring.slot) group.type.copy_bandwidth = std::min(group.type.copy_bandwidth, *slot);
  group.network = common_network;
  if (const Node* network = reader.find("network")) group.network = read_network(*network, log);
  return group;
}

std::vector<NodeGroup> read_groups(MapReader& reader) {
  ReadLog& log = reader.log();
  std::vector<NodeGroup> groups;
  const Node* list = reader.find("groups");
  if (!list) {
    groups.push_back(read_group(reader, nullptr, std::nullopt));
    return groups;
  }
  std::optional<NetworkParameters> network;
  if (const Node* node = reader.find("network")) network = read_network(*node, log);
  const Node* device = reader.find("device");
  if (list->kind != NodeKind::Sequence || list->items.empty()) {
    log.error(*list, "expected a list of groups of equal nodes",
              "for example [{device: h100-sxm, nodes: 2, devices_per_node: 8, wiring: {...}}]");
    return groups;
  }
  for (const NodePtr& item : list->items) {
    MapReader keys(*item, log);
    groups.push_back(read_group(keys, device, network));
    keys.finish();
  }
  return groups;
}

void check_groups(const std::vector<NodeGroup>& groups, const Node& node, ReadLog& log) {
  const Node* key = node.find("groups") ? node.find("groups") : node.find("nodes");
  const Node& where = key ? *key : node;
  long long nodes = 0, devices = 0;
  bool network = true;
  const auto other_rails = [&](const NodeGroup& group) {
    const auto& first = groups.front().network;
    return group.network && first &&
           (group.network->rails != first->rails || (first->rails && group.network->nics_per_node != first->nics_per_node));
  };
  if (std::any_of(groups.begin(), groups.end(), other_rails))
    log.error(where, "nodes of one network have the same rails", "state `rails`, and as many `nics_per_node`, for every group");
  for (const NodeGroup& group : groups) {
    nodes += group.nodes;
    devices += static_cast<long long>(group.nodes) * group.wiring.devices;
    network = network && group.network;
    const int nics = group.network ? group.network->nics_per_node : 0;
    if (group.wiring.devices > kMostPerNode || nics > kMostPerNode)
      log.error(where, fmt::format("a node has at most {} devices and {} NICs", kMostPerNode, kMostPerNode));
  }
  if (devices > kMostDevices)
    log.error(where, fmt::format("{} devices are more than the {} that are supported", devices, kMostDevices));
  if (nodes > 1 && !network)
    log.error(where, fmt::format("{} nodes, but no network between them", nodes),
              "add 'network: {nics_per_node: 8, bandwidth: 25 GB/s, latency: 5 us}'");
}

std::string name_from(const Node& node) {
  const Node* reference = node.kind == NodeKind::Scalar ? &node : node.find("file");
  if (reference) return std::filesystem::path(reference->text).stem().string();
  return node.source ? std::filesystem::path(node.source->name).stem().string() : "cluster";
}

// `node`: as written, before `tree` took the place of the files that it refers to.
Cluster read_described(const Node& node, const Node& tree, ReadLog& log) {
  MapReader reader(tree, log);
  read_heading(reader, kCluster.kind, Heading::Optional);
  const std::string name = reader.has("name") ? reader.string("name") : name_from(node);
  const std::vector<NodeGroup> groups = read_groups(reader);
  const std::optional<double> usable = read_usable(reader);
  std::shared_ptr<const CollectiveTables> collectives;
  if (const Node* table = reader.find("collectives")) collectives = read_collectives(*table, log);
  read_sources(reader);
  check_groups(groups, tree, log);
  Cluster cluster = log.has_errors() ? given_cluster(0, Bytes(0), {}, {}) : assemble_cluster(name, groups);
  read_impairments(reader, cluster);
  reader.finish();
  if (log.has_errors()) return given_cluster(0, Bytes(0), {}, {});
  cluster.usable = usable;
  if (collectives) {
    auto tables = std::make_shared<CollectiveTables>(*collectives);
    tables->measured_on = where_measured(node);
    cluster.collectives = std::move(tables);
  }
  return cluster;
}

}  // namespace

TransferTable read_size_table(const Node& node, ReadLog& log, Sign sizes, std::string_view second, std::string_view example,
                              const TimeOfRow& time_of_row) {
  TransferTable table;
  if (node.kind != NodeKind::Sequence || node.items.empty()) {
    log.error(node, fmt::format("expected a list of [size, {}] pairs", second), fmt::format("for example [{}]", example));
    return table;
  }
  for (const NodePtr& row : node.items) {
    if (row->kind != NodeKind::Sequence || row->items.size() != 2) {
      log.error(*row, fmt::format("expected a pair of size and {}", second), fmt::format("for example {}", example));
      continue;
    }
    const auto size = read_bytes(*row->items[0], log, sizes);
    const auto time = size ? time_of_row(*size, *row->items[1]) : std::nullopt;
    if (!time) continue;
    if (!table.points.empty() && *size <= table.points.back().first)
      log.error(*row->items[0], "sizes must grow from row to row");
    else
      table.points.emplace_back(*size, *time);
  }
  return table;
}

TransferTable read_transfer_table(const Node& node, ReadLog& log) {
  return read_size_table(node, log, Sign::NonNegative, "time", "[512 KiB, 20 us]",
                         [&](Bytes, const Node& time) { return read_duration(time, log); });
}

Cluster read_cluster(const Node& node, ReadLog& log) {
  const NodePtr tree = expand_reference(node, kCluster);
  ReadLog own(log.declared());  // whether this cluster is whole must not depend on faults elsewhere
  Cluster cluster = read_or_log(log, [&] {
    Cluster read =
        tree->kind == NodeKind::Map && tree->find("devices") ? read_given(*tree, own) : read_described(node, *tree, own);
    own.throw_if_errors();
    return read;
  });
  for (const ResolvedValue& value : own.resolved_values()) log.resolved(value.path, value.value, value.origin);
  return cluster;
}

Cluster load_cluster(const std::string& path, ReadLog& log) { return read_cluster(*load_document(path), log); }

NodePtr overridable_reference(const NodePtr& reference) {
  if (!reference || reference->kind != NodeKind::Scalar) return reference;
  auto map = std::make_shared<Node>(*reference);
  auto file = std::make_shared<Node>(*reference);
  map->kind = NodeKind::Map;
  map->text.clear();
  file->path = reference->path.empty() ? "file" : reference->path + ".file";
  map->entries = {Node::Entry{"file", reference->line, reference->column, std::move(file)}};
  return map;
}

}  // namespace panpipe
