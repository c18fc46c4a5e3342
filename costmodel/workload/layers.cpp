// The table of measured layers: one file, kind `layers`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/text/did_you_mean.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {
namespace {

struct ListedLayer {
  MeasuredLayer layer;
  std::vector<LayerProfile> profiles;
  Bytes output{0};
  bool has_output = false;
  const Node* node = nullptr;
};

// A backward takes twice its forward: the usual count of operations, for profiles that give the two together.
constexpr double kForwardShare = 1.0 / 3;

// The layer as the engines use it: its profile for the degree, without recompute if there is one.
void take_profile(ListedLayer& listed, int degree, ReadLog& log) {
  const LayerProfile* taken = nullptr;
  const auto better = [&](const LayerProfile& a, const LayerProfile& b) {
    return std::tuple(a.tensor != degree, a.tensor, a.recompute) < std::tuple(b.tensor != degree, b.tensor, b.recompute);
  };
  for (const LayerProfile& profile : listed.profiles)
    if (!taken || better(profile, *taken)) taken = &profile;
  if (!taken) return;
  if (taken->tensor != degree && degree > 1)
    log.error(*listed.node, fmt::format("layer '{}' has no profile for tensor degree {}", listed.layer.name, degree));
  MeasuredLayer& layer = listed.layer;
  const auto whole = [](double bytes) { return Bytes(static_cast<std::int64_t>(std::llround(bytes))); };
  layer.forward = taken->time * kForwardShare;
  layer.input_gradient = taken->time - layer.forward;
  layer.split_backward = false;
  layer.saved = whole(taken->in_flight);
  layer.parameters = whole(taken->parameters);
}

ListedLayer read_layer(const Node& node, int degree, ReadLog& log) {
  MapReader map(node, log);
  ListedLayer listed;
  listed.node = &node;
  MeasuredLayer& layer = listed.layer;
  layer.name = map.string("name");
  if (const Node* profiles = map.find("profiles")) {
    listed.profiles = read_profiles(*profiles, log);
    take_profile(listed, degree, log);
    listed.has_output = map.has("output");
    listed.output = map.bytes("output", Sign::NonNegative, Bytes(0));
    map.finish();
    return listed;
  }
  layer.forward = map.duration("forward");
  if (map.has("backward")) {
    layer.split_backward = false;
    layer.input_gradient = map.duration("backward");
    for (const char* part : {"input_gradient", "weight_gradient"})
      if (map.find(part)) log.error_at_key(node, part, fmt::format("'backward' already holds '{}'; give one or the other", part));
  } else if (node.kind == NodeKind::Map && !map.has("input_gradient") && !map.has("weight_gradient")) {
    log.error(node, fmt::format("layer '{}' has no backward", layer.name),
              "give 'input_gradient' and 'weight_gradient', or 'backward' for both together");
    for (const char* part : {"backward", "input_gradient", "weight_gradient"}) map.find(part);
  } else {
    layer.input_gradient = map.duration("input_gradient");
    layer.weight_gradient = map.duration("weight_gradient");
  }
  layer.saved = map.bytes("saved", Sign::Any, Bytes(0));
  layer.temporary = map.bytes("temporary", Sign::NonNegative, Bytes(0));
  layer.parameters = map.bytes("parameters", Sign::NonNegative, Bytes(0));
  layer.inputs = map.bytes("inputs", Sign::NonNegative, Bytes(0));
  layer.optimizer = map.duration("optimizer", Sign::NonNegative, Duration(0));
  listed.has_output = map.has("output");
  listed.output = map.bytes("output", Sign::NonNegative, Bytes(0));
  map.finish();
  return listed;
}

class Names {
 public:
  Names(const std::vector<ListedLayer>& layers, ReadLog& log) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string& name = layers[i].layer.name;
      if (name.empty()) continue;
      const auto [first, fresh] = index_.emplace(name, static_cast<int>(i));
      if (!fresh)
        log.error(*layers[i].node->find("name"), fmt::format("the layer name '{}' is used twice", name),
                  fmt::format("first at line {}", layers[first->second].node->line));
      else
        list_.push_back(name);
    }
  }

  // The layer's index, -1 after an error.
  int find(const Node* node, ReadLog& log) const {
    if (!node) return -1;
    const auto name = read_string(*node, log);
    if (!name) return -1;
    if (const auto found = index_.find(*name); found != index_.end()) return found->second;
    log.error(*node, fmt::format("unknown layer '{}'{}", *name, suggestion(*name, list_)), "", code::kUnknownName);
    return -1;
  }

 private:
  std::map<std::string, int> index_;
  std::vector<std::string> list_;
};

struct ListedEdge {
  LayerEdge edge;
  const Node* node = nullptr;
};

// A path of edges from one layer to another, including both ends; empty if there is none.
std::vector<int> path_between(const std::vector<ListedEdge>& edges, int from, int to, std::size_t layers) {
  std::vector<int> came_from(layers, -1), queue = {from};
  std::vector<bool> seen(layers, false);
  seen[from] = true;
  for (std::size_t next = 0; next < queue.size() && !seen[to]; ++next)
    for (const ListedEdge& e : edges) {
      const auto target = static_cast<std::size_t>(e.edge.to);
      if (e.edge.from != queue[next] || seen[target]) continue;
      seen[target] = true;
      came_from[target] = queue[next];
      queue.push_back(e.edge.to);
    }
  if (!seen[to]) return {};
  std::vector<int> path = {to};
  while (path.back() != from) path.push_back(came_from[path.back()]);
  std::reverse(path.begin(), path.end());
  return path;
}

// Layers are in topological order, so an edge that points back closes a cycle or contradicts the order.
void check_order(const std::vector<ListedEdge>& edges, const std::vector<ListedLayer>& layers, ReadLog& log) {
  const auto name = [&](int index) -> const std::string& { return layers[index].layer.name; };
  for (const ListedEdge& e : edges) {
    const auto [from, to] = std::pair(e.edge.from, e.edge.to);
    if (from < to) continue;
    if (from == to) {
      log.error(*e.node, fmt::format("layer '{}' feeds itself", name(from)));
      continue;
    }
    const std::vector<int> path = path_between(edges, to, from, layers.size());
    if (path.empty()) {
      log.error(*e.node, fmt::format("layer '{}' feeds '{}', which is listed before it", name(from), name(to)),
                fmt::format("list '{}' after '{}': layers are listed in topological order", name(to), name(from)));
      continue;
    }
    std::string cycle = name(from);
    for (int step : path) cycle += " -> " + name(step);
    log.error(*e.node, fmt::format("the edges form a cycle: {}", cycle));
  }
}

// Two edges of one tensor carry the same bytes, and no edge stands twice.
void check_listed_tensors(const std::vector<ListedEdge>& edges, const std::vector<ListedLayer>& layers, ReadLog& log) {
  const auto name = [&](int index) -> const std::string& { return layers[index].layer.name; };
  std::map<std::pair<int, std::string>, Bytes> sizes;
  std::set<std::tuple<int, int, std::string>> seen;
  for (const ListedEdge& e : edges) {
    if (!seen.emplace(e.edge.from, e.edge.to, e.edge.tensor).second)
      log.error(*e.node, fmt::format("the edge from '{}' to '{}' is given twice", name(e.edge.from), name(e.edge.to)),
                "several tensors between two layers need a 'tensor' name each");
    const auto [known, fresh] = sizes.emplace(std::pair(e.edge.from, e.edge.tensor), e.edge.bytes);
    if (!fresh && known->second != e.edge.bytes)
      log.error(*e.node,
                fmt::format("the tensor '{}' that leaves '{}' has {} B here and {} B in an earlier edge", e.edge.tensor,
                            name(e.edge.from), e.edge.bytes.base(), known->second.base()),
                "edges that leave one layer under one name are one tensor");
  }
}

// Edges without a name that leave one layer are one tensor; of different sizes they cannot be one, so each size is a tensor.
void report_unnamed_apart(std::vector<ListedEdge>& edges) {
  std::map<int, Bytes> first_size;
  for (ListedEdge& e : edges) {
    if (!e.edge.tensor.empty()) continue;
    const Bytes first = first_size.emplace(e.edge.from, e.edge.bytes).first->second;
    if (e.edge.bytes != first) e.edge.tensor = fmt::format("{} B", e.edge.bytes.base());
  }
}

std::vector<LayerEdge> read_edges(const Node& list, const std::vector<ListedLayer>& layers, ProfiledLayers& profiles,
                                  ReadLog& log) {
  if (list.kind != NodeKind::Sequence) {
    log.error(list, "'edges' must be a list of {from, to, bytes}");
    return {};
  }
  const Names names(layers, log);
  std::vector<ListedEdge> edges;
  for (const auto& item : list.items) {
    MapReader map(*item, log);
    ListedEdge listed;
    listed.node = item.get();
    listed.edge.from = names.find(map.require("from"), log);
    listed.edge.to = names.find(map.require("to"), log);
    listed.edge.bytes = map.bytes("bytes");
    if (map.has("tensor")) listed.edge.tensor = map.string("tensor");
    map.finish();
    if (listed.edge.from < 0 || listed.edge.to < 0) continue;
    profiles.edge_bytes.push_back(map.has("bytes") ? read_exact_bytes(*item->find("bytes"), log) : 0);
    edges.push_back(std::move(listed));
  }
  report_unnamed_apart(edges);
  check_order(edges, layers, log);
  check_listed_tensors(edges, layers, log);
  for (const ListedLayer& layer : layers)
    if (layer.has_output)
      log.error_at_key(*layer.node, "output", "use 'output' or 'edges', not both: edges give the bytes that a layer sends", "",
                       code::kConflict);
  std::vector<LayerEdge> result;
  for (ListedEdge& e : edges) result.push_back(std::move(e.edge));
  return result;
}

// Either all layers have profiles or none, and a profile's border must belong to an edge.
void check_profiles(const std::vector<ListedLayer>& layers, LayerTable& table, ReadLog& log) {
  std::set<std::pair<std::string, std::string>> edges;
  for (const LayerEdge& e : table.edges) edges.emplace(layers[e.from].layer.name, layers[e.to].layer.name);
  if (table.profiles.edge_bytes.empty())
    for (const LayerEdge& e : table.edges) table.profiles.edge_bytes.push_back(static_cast<double>(e.bytes.base()));
  for (const ListedLayer& listed : layers) {
    const std::string& name = listed.layer.name;
    if (listed.profiles.empty() != layers.front().profiles.empty())
      log.error(*listed.node,
                fmt::format("layer '{}' has {} profiles, and '{}' has {}", name, listed.profiles.size(),
                            layers.front().layer.name, layers.front().profiles.size()),
                "give all layers profiles, or none");
    for (const LayerProfile& profile : listed.profiles) {
      for (const auto& border : profile.receive)
        if (edges.count({border.first, name}) == 0)
          log.error(*listed.node, fmt::format("profile '{}' of layer '{}' receives from '{}', but there is no such edge",
                                              profile.name, name, border.first));
      for (const auto& border : profile.send)
        if (edges.count({name, border.first}) == 0)
          log.error(*listed.node, fmt::format("profile '{}' of layer '{}' sends to '{}', but there is no such edge", profile.name,
                                              name, border.first));
    }
  }
}

// Without edges every layer feeds the next.
std::vector<LayerEdge> chain(const std::vector<ListedLayer>& layers, ReadLog& log) {
  const Names names(layers, log);  // finds repeated names
  std::vector<LayerEdge> edges;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    if (!layers[i].has_output)
      log.error(*layers[i].node, fmt::format("layer '{}' needs 'output', the bytes it sends to the next", layers[i].layer.name),
                "or give the file a list of 'edges'");
    edges.push_back({static_cast<int>(i), static_cast<int>(i) + 1, layers[i].output, ""});
  }
  return edges;
}

std::vector<ListedLayer> read_list(const Node* list, int degree, ReadLog& log) {
  std::vector<ListedLayer> layers;
  if (!list) return layers;
  if (list->kind != NodeKind::Sequence || list->items.empty()) {
    log.error(*list, "'layers' must be a list of at least one layer");
    return layers;
  }
  for (const auto& item : list->items) layers.push_back(read_layer(*item, degree, log));
  return layers;
}

}  // namespace

LayerTable load_layers(const std::string& path, int tensor_degree) {
  const NodePtr document = load_document(path);
  ReadLog log;
  MapReader map(*document, log);
  read_heading(map, "layers");
  LayerTable table;
  table.source = map.string("source", "not stated");
  std::vector<ListedLayer> listed = read_list(map.require("layers"), tensor_degree, log);
  table.profiles.most_data = map.has("most_data") ? map.integer("most_data", 1) : 0;
  const Node* edges = map.find("edges");
  map.finish();
  if (!listed.empty()) table.edges = edges ? read_edges(*edges, listed, table.profiles, log) : chain(listed, log);
  check_profiles(listed, table, log);
  log.throw_if_errors();
  for (ListedLayer& layer : listed) {
    table.layers.push_back(std::move(layer.layer));
    if (!layer.profiles.empty()) table.profiles.of_layer.push_back(std::move(layer.profiles));
  }
  return table;
}

}  // namespace panpipe
