#include "costmodel/cluster/links_matrix.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/text/text_table.hpp"

namespace panpipe {
namespace {

constexpr int kMostShown = 16;

// The shown part of a cluster: blocks of devices with one matrix each, and possibly a pair between nodes.
struct View {
  std::vector<std::vector<int>> blocks;
  std::optional<std::pair<int, int>> between;
  std::string note;  // what was left out
};

std::vector<std::vector<int>> devices_of_nodes(const Cluster& cluster) {
  std::vector<std::vector<int>> nodes(cluster.nodes);
  for (int device = 0; device < cluster.size(); ++device) nodes[cluster.devices[device].node].push_back(device);
  return nodes;
}

View view_of(const Cluster& cluster) {
  View view;
  if (cluster.size() <= kMostShown) {
    std::vector<int> all;
    for (int device = 0; device < cluster.size(); ++device) all.push_back(device);
    view.blocks.push_back(std::move(all));
    return view;
  }
  const auto nodes = devices_of_nodes(cluster);
  std::set<std::pair<int, std::size_t>> kinds;  // device type and number of devices
  for (const std::vector<int>& node : nodes) {
    if (!kinds.emplace(cluster.devices[node.front()].type, node.size()).second) continue;
    view.blocks.push_back(node);
    if (view.blocks.back().size() > kMostShown) view.blocks.back().resize(kMostShown);
  }
  if (nodes.size() > 1) view.between = std::pair(nodes[0].front(), nodes[1].front());
  const std::size_t shown = view.blocks.front().size();
  if (shown < nodes.front().size())
    view.note = fmt::format("The first {} of {} devices of a node are shown.\n", shown, nodes.front().size());
  if (cluster.nodes > 1)
    view.note += fmt::format("One node of each kind is shown ({} of {}); every other is wired like it.\n", view.blocks.size(),
                             cluster.nodes);
  return view;
}

std::optional<Route> find_route(const Cluster& cluster, int from, int to) {
  try {
    return cluster.route(from, to);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

struct PathWords {
  char letter;
  std::string_view meaning;
};
const PathWords& words_of(PathClass path) {
  static constexpr PathWords kWords[] = {{'-', "the same device, free"},
                                         {'B', "NVLink bridge between the two"},
                                         {'S', "NVSwitch inside the node"},
                                         {'P', "PCIe peer access inside the node"},
                                         {'H', "copied through host memory, one socket"},
                                         {'X', "copied through host memory, over the link between sockets"},
                                         {'N', "between nodes"},
                                         {'G', "written in place, one link per ordered pair"}};
  return kWords[at(path)];
}

std::string bandwidth_cell(const std::optional<Route>& route) {
  if (!route) return "none";
  if (route->path == PathClass::Local) return "-";
  if (route->table) return "table";
  if (std::isinf(route->bandwidth.base())) return "inf";
  return fmt::format("{:.4g} {}", route->bandwidth.base() * 1e-9, words_of(route->path).letter);
}

std::string latency_cell(const std::optional<Route>& route) {
  if (!route) return "none";
  if (route->path == PathClass::Local) return "-";
  return fmt::format("{:.4g}", (route->table ? route->table->at(Bytes(0)) : route->latency).base() * 1e6);
}

using Cell = std::string (*)(const std::optional<Route>&);

std::string matrix(const Cluster& cluster, const std::vector<int>& devices, const std::string& title, Cell cell) {
  std::vector<TextColumn> columns = {"", "<"};
  for (const int device : devices) columns.push_back(TextColumn(std::to_string(device)).least(6));
  TextTable table(std::move(columns));
  for (const int from : devices) {
    std::vector<std::string> row = {std::to_string(from), device_name(cluster, from)};
    for (const int column : devices) row.push_back(cell(find_route(cluster, from, column)));
    table.row(std::move(row));
  }
  return title + "\n" + table.text();
}

// "16 x NIC of 25 GB/s: node0.nic0.out ... node7.nic7.in"
void write_resources(std::string& out, const Cluster& cluster) {
  std::map<std::tuple<ResourceClass, double, std::string>, std::vector<const Resource*>> classes;
  for (const Resource& resource : cluster.resources) {
    const std::string suffix = resource.name.substr(resource.name.rfind('.') + 1);
    const bool direction = suffix == "out" || suffix == "in" || suffix == "up" || suffix == "down" || suffix == "both";
    classes[{resource.kind, resource.bandwidth.base(), direction ? suffix : ""}].push_back(&resource);
  }
  out += classes.empty() ? "Nothing is shared.\n" : "Shared resources\n";
  for (const auto& [key, members] : classes)
    fmt::format_to(std::back_inserter(out), "  {} x {} of {:.4g} GB/s: {}{}{}\n", members.size(), name_of(std::get<0>(key)),
                   std::get<1>(key) * 1e-9, members.front()->name, members.size() > 1 ? " ... " : "",
                   members.size() > 1 ? members.back()->name : "");
}

nlohmann::ordered_json pair_json(const Cluster& cluster, int from, int to) {
  nlohmann::ordered_json pair = {{"from", device_name(cluster, from)}, {"to", device_name(cluster, to)}};
  const std::optional<Route> route = find_route(cluster, from, to);
  if (!route) {
    pair["class"] = nullptr;
    return pair;
  }
  pair["class"] = name_of(route->path);
  pair["bandwidth_bytes_per_s"] = nullptr;
  if (std::isfinite(route->bandwidth.base())) pair["bandwidth_bytes_per_s"] = route->bandwidth.base();
  pair["latency_s"] = route->latency.base();
  if (route->table) {
    pair["table"] = nlohmann::ordered_json::array();
    for (const auto& [size, time] : route->table->points) pair["table"].push_back({size.base(), time.base()});
  }
  pair["resources"] = nlohmann::ordered_json::array();
  for (const Hop& hop : route->hops)
    pair["resources"].push_back({{"name", cluster.resources[hop.resource].name}, {"uses", hop.uses}});
  return pair;
}

}  // namespace

std::string links_matrix(const Cluster& cluster) {
  const View view = view_of(cluster);
  std::string out = fmt::format("{}: {} device{} on {} node{}\n{}\n", cluster.name, cluster.size(),
                                cluster.size() == 1 ? "" : "s", cluster.nodes, cluster.nodes == 1 ? "" : "s", view.note);
  std::set<PathClass> classes;
  for (const std::vector<int>& block : view.blocks) {
    out += matrix(cluster, block, "Bandwidth of a transfer alone, GB/s (row sends to column)", bandwidth_cell) + "\n";
    out += matrix(cluster, block, "Latency, us", latency_cell) + "\n";
    for (const int from : block)
      for (const int to : block)
        if (const auto route = find_route(cluster, from, to); route && from != to) classes.insert(route->path);
  }
  if (view.between) {
    const auto route = find_route(cluster, view.between->first, view.between->second);
    if (route) classes.insert(route->path);
    fmt::format_to(std::back_inserter(out), "Between nodes ({} to {}): {} GB/s, {} us\n\n",
                   device_name(cluster, view.between->first), device_name(cluster, view.between->second), bandwidth_cell(route),
                   latency_cell(route));
  }
  for (const PathClass path : classes)
    fmt::format_to(std::back_inserter(out), "  {}  {}: {}\n", words_of(path).letter, name_of(path), words_of(path).meaning);
  if (!classes.empty()) out += '\n';
  write_resources(out, cluster);
  return out;
}

std::string links_json(const Cluster& cluster) {
  const View view = view_of(cluster);
  nlohmann::ordered_json document = {{"schema", "panpipe-links/1"},   {"cluster", cluster.name},
                                     {"devices", cluster.size()},     {"nodes", cluster.nodes},
                                     {"complete", view.note.empty()}, {"pairs", nlohmann::ordered_json::array()},
                                     {"between_nodes", nullptr},      {"resources", nlohmann::ordered_json::array()}};
  for (const std::vector<int>& block : view.blocks)
    for (const int from : block)
      for (const int to : block)
        if (from != to) document["pairs"].push_back(pair_json(cluster, from, to));
  if (view.between) document["between_nodes"] = pair_json(cluster, view.between->first, view.between->second);
  for (const Resource& resource : cluster.resources)
    document["resources"].push_back(
        {{"name", resource.name}, {"class", name_of(resource.kind)}, {"bandwidth_bytes_per_s", resource.bandwidth.base()}});
  return document.dump(2) + "\n";
}

}  // namespace panpipe
