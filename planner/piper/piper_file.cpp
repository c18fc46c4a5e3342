#include "planner/piper/piper_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/input/source_text.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe::planner::piper {
namespace {

// A profile is one of recompute when its id states it: "activation recomp" in the published files.
bool is_recompute_profile(std::string id) {
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return std::tolower(c); });
  return id.find("recomp") != std::string::npos;
}

std::string as_warning(std::string text) {
  if (const auto place = text.find(": error: "); place != std::string::npos) text.replace(place, 9, ": warning: ");
  return text;
}

std::string warning_at(const Node& node, const std::string& message, const std::string& help) {
  return as_warning(diagnostic_at(node, message, help).text());
}

class Reader {
 public:
  explicit Reader(PiperFile& file) : file_(file) {}

  void read() {
    MapReader top(*file_.document, log_);
    log_.throw_if_errors();
    read_limits(top);
    const Node* nodes = require(top, "nodes");
    const Node* edges = top.find("edges");
    finish(top);
    read_nodes(nodes);
    read_edges(edges);
    log_.throw_if_errors();
    read_profiles();
    log_.throw_if_errors();
    sort_nodes();
    name_apart();
  }

 private:
  const Node* require(MapReader& map, const std::string& key) {
    if (!map.has(key)) missing_.push_back(key);
    return map.require(key);
  }

  // An unknown key is reported and skipped: such files carry notes. One that is nearly a missing key is a fault.
  void finish(MapReader& map) {
    const std::vector<std::string> missing = std::exchange(missing_, {});
    ReadLog unknown;
    MapReader again(map.node(), unknown);
    for (const Node::Entry& entry : map.node().entries) {
      const bool misspelt = !known_.count(entry.key) && nearest_name(entry.key, missing);
      if (!misspelt) map.find(entry.key);
      if (misspelt || known_.count(entry.key)) again.find(entry.key);
    }
    map.finish();
    again.finish();
    try {
      unknown.throw_if_errors();
    } catch (const InputError& error) {
      for (const Diagnostic& d : error.diagnostics()) file_.warnings.push_back(as_warning(d.text()) + " (skipped)");
    }
  }

  std::optional<double> number(MapReader& map, const std::string& key, bool required) {
    const Node* node = required ? require(map, key) : map.find(key);
    return node ? read_number(*node, log_, Sign::NonNegative) : std::nullopt;
  }

  // A number of seconds, within the limits of a time: the layers that are made of it are read again.
  Duration duration(MapReader& map, const std::string& key) {
    const auto value = number(map, key, true);
    if (!value || *value == 0) return Duration(0);
    const Parsed<Duration> parsed = parse_duration(fmt::format("{} s", *value));
    if (!parsed.value) log_.error(*map.find(key), parsed.problem);
    return parsed.value.value_or(Duration(0));
  }

  std::optional<int> count(MapReader& map, const std::string& key) {
    const auto value = number(map, key, false);
    if (!value) return std::nullopt;
    if (*value < 1 || *value != std::floor(*value) || *value > 1e9) {
      log_.error(*map.find(key), fmt::format("'{}' must be a whole number from 1", key));
      return std::nullopt;
    }
    return static_cast<int>(*value);
  }

  void read_limits(MapReader& top) {
    file_.devices = count(top, "maxDevices");
    file_.memory = number(top, "maxMemoryPerDevice", false);
    file_.bandwidth = number(top, "bandwidth", false);
    file_.microbatches = count(top, "mbsInBatch");
    const Node* other = top.find("maxBatchSize");
    if (!other) return;
    if (!file_.microbatches) file_.microbatches = count(top, "maxBatchSize");
    file_.warnings.push_back(warning_at(*other,
                                        top.has("mbsInBatch")
                                            ? "'maxBatchSize' is not read where 'mbsInBatch' is there"
                                            : "'maxBatchSize' is taken for 'mbsInBatch', the microbatches of a step",
                                        "the format's description says maxBatchSize, its program reads mbsInBatch"));
  }

  void read_nodes(const Node* list) {
    if (!list) return;
    if (list->kind != NodeKind::Sequence || list->items.empty()) {
      log_.error(*list, "'nodes' must be a list of at least one node");
      return;
    }
    for (const NodePtr& item : list->items) {
      MapReader map(*item, log_);
      PiperNode node;
      node.at = item.get();
      if (const Node* id = require(map, "id")) node.id = read_integer(*id, log_, 0).value_or(0);
      node.name = map.find("name") ? read_string(*map.find("name"), log_).value_or("") : "";
      tmpcs_.push_back(require(map, "TMPCs"));
      finish(map);
      if (map.has("id") && !index_.emplace(node.id, static_cast<int>(file_.nodes.size())).second)
        log_.error(*item, fmt::format("two nodes have the id {}", node.id));
      file_.nodes.push_back(std::move(node));
    }
  }

  int node_of(MapReader& map, const char* key) {
    const Node* node = require(map, key);
    const auto id = node ? read_integer(*node, log_, 0) : std::nullopt;
    if (!id) return -1;
    if (const auto found = index_.find(*id); found != index_.end()) return found->second;
    log_.error(*node, fmt::format("there is no node with the id {}", *id));
    return -1;
  }

  void read_edges(const Node* list) {
    into_.resize(file_.nodes.size());
    out_of_.resize(file_.nodes.size());
    if (!list) return;
    if (list->kind != NodeKind::Sequence) {
      log_.error(*list, "'edges' must be a list");
      return;
    }
    std::set<std::pair<int, int>> seen;
    for (const NodePtr& item : list->items) {
      MapReader map(*item, log_);
      PiperFile::Edge edge;
      edge.at = item.get();
      edge.from = node_of(map, "sourceId");
      edge.to = node_of(map, "destId");
      edge.bytes = number(map, "communicationCost", true).value_or(0);
      finish(map);
      if (edge.from < 0 || edge.to < 0) continue;
      if (edge.from == edge.to) log_.error(*item, fmt::format("node {} feeds itself", file_.nodes[edge.from].id));
      if (!seen.emplace(edge.from, edge.to).second)
        log_.error(*item,
                   fmt::format("the edge from {} to {} is given twice", file_.nodes[edge.from].id, file_.nodes[edge.to].id));
      into_[edge.to].insert(file_.nodes[edge.from].id);
      out_of_[edge.from].insert(file_.nodes[edge.to].id);
      file_.edges.push_back(edge);
    }
  }

  void read_profiles() {
    for (std::size_t n = 0; n < file_.nodes.size(); ++n) {
      if (tmpcs_[n]->kind != NodeKind::Map || tmpcs_[n]->entries.empty()) {
        log_.error(*tmpcs_[n], "'TMPCs' must be a map from tensor degrees to lists of profiles");
        continue;
      }
      for (const Node::Entry& entry : tmpcs_[n]->entries) {
        const Parsed<long long> degree = parse_integer(entry.key);
        if (!degree.value || *degree.value < 1 || *degree.value > 65536) {
          log_.error_at_key(*tmpcs_[n], entry.key, fmt::format("'{}' is no tensor degree", entry.key));
          continue;
        }
        if (entry.value->kind != NodeKind::Sequence || entry.value->items.empty())
          log_.error(*entry.value, fmt::format("tensor degree {} has no list of profiles", entry.key));
        for (const NodePtr& item : entry.value->items) read_profile(n, static_cast<int>(*degree.value), *item);
      }
    }
  }

  void read_profile(std::size_t node, int degree, const Node& item) {
    MapReader map(item, log_);
    LayerProfile profile;
    profile.tensor = degree;
    profile.name = map.find("id") ? read_string(*map.find("id"), log_).value_or("") : "vanilla";
    profile.recompute = is_recompute_profile(profile.name);
    profile.time = duration(map, "timePerSample");
    profile.parameters = number(map, "parameterSize", true).value_or(0);
    profile.in_flight = number(map, "memoryUsageA", true).value_or(0);
    profile.fixed = number(map, "memoryUsageB", true).value_or(0);
    std::map<long long, double> forward = border(map, "syncTimeFw"), backward = border(map, "syncTimeBw");
    match(node, item, forward, backward);
    for (const auto& [id, bytes] : forward)
      if (bytes > 0) profile.receive.emplace_back(std::to_string(id), bytes);  // names come when all nodes have theirs
    for (const auto& [id, bytes] : backward)
      if (bytes > 0) profile.send.emplace_back(std::to_string(id), bytes);
    finish(map);
    file_.nodes[node].profiles.push_back(std::move(profile));
  }

  std::map<long long, double> border(MapReader& map, const char* key) {
    std::map<long long, double> result;
    const Node* node = require(map, key);
    if (!node) return result;
    if (node->kind != NodeKind::Map) {
      log_.error(*node, fmt::format("'{}' must be a map of node ids to bytes", key));
      return result;
    }
    for (const Node::Entry& entry : node->entries) {
      const Parsed<long long> id = parse_integer(entry.key);
      if (!id.value || index_.count(*id.value) == 0) {
        log_.error_at_key(*node, entry.key, fmt::format("there is no node with the id '{}'", entry.key));
        continue;
      }
      result[*id.value] = read_number(*entry.value, log_, Sign::NonNegative).value_or(0);
    }
    return result;
  }

  // syncTimeFw is keyed by what feeds the node, syncTimeBw by what it feeds, and both name all of them. The format's description
  // states it the other way round; a file that follows it is understood, with a note.
  void match(std::size_t node, const Node& item, std::map<long long, double>& forward, std::map<long long, double>& backward) {
    const auto keys = [](const std::map<long long, double>& map) {
      std::set<long long> set;
      for (const auto& entry : map) set.insert(entry.first);
      return set;
    };
    const std::set<long long> fw = keys(forward), bw = keys(backward);
    if (fw == into_[node] && bw == out_of_[node]) return;
    if (fw == out_of_[node] && bw == into_[node]) {
      std::swap(forward, backward);
      if (!reported_swapped_)
        file_.warnings.push_back(warning_at(
            item, "syncTimeFw is keyed by the nodes that this one feeds, and syncTimeBw by those that feed it: swapped back",
            "the format's description says it so, its program the other way round"));
      reported_swapped_ = true;
      return;
    }
    complain(item, "syncTimeFw", "feeds this node", fw, into_[node]);
    complain(item, "syncTimeBw", "is fed by this node", bw, out_of_[node]);
  }

  void complain(const Node& item, const char* key, const char* what, const std::set<long long>& given,
                const std::set<long long>& edges) {
    for (const long long id : edges)
      if (!given.count(id)) log_.error_at_key(item, key, fmt::format("'{}' lacks node {}, which {}", key, id, what));
    for (const long long id : given)
      if (!edges.count(id))
        log_.error_at_key(item, key, fmt::format("'{}' names node {}, but no edge says that it {}", key, id, what));
  }

  // Kahn's order, the first of the file among those that are ready.
  void sort_nodes() {
    const std::size_t count = file_.nodes.size();
    std::vector<int> waiting(count, 0), place(count, -1);
    for (const PiperFile::Edge& edge : file_.edges) ++waiting[edge.to];
    std::set<int> ready;
    for (std::size_t n = 0; n < count; ++n)
      if (waiting[n] == 0) ready.insert(static_cast<int>(n));
    std::vector<PiperNode> sorted;
    while (!ready.empty()) {
      const int node = *ready.begin();
      ready.erase(ready.begin());
      place[node] = static_cast<int>(sorted.size());
      sorted.push_back(file_.nodes[node]);
      for (const PiperFile::Edge& edge : file_.edges)
        if (edge.from == node && --waiting[edge.to] == 0) ready.insert(edge.to);
    }
    if (sorted.size() < count) {
      const auto stuck = std::find(place.begin(), place.end(), -1) - place.begin();
      log_.error(*file_.nodes[stuck].at,
                 fmt::format("the edges form a cycle; node {} is on it or behind it", file_.nodes[stuck].id));
      log_.throw_if_errors();
    }
    file_.nodes = std::move(sorted);
    for (PiperFile::Edge& edge : file_.edges) {
      edge.from = place[edge.from];
      edge.to = place[edge.to];
    }
  }

  void name_apart() {
    std::map<std::string, int> uses;
    for (const PiperNode& node : file_.nodes) ++uses[node.name];
    std::map<std::string, std::string> names;  // by id
    std::set<std::string> taken;
    for (PiperNode& node : file_.nodes) {
      const std::string given = node.name;
      if (given.empty() || uses[given] > 1) node.name = fmt::format("{}.{}", given.empty() ? "node" : given, node.id);
      while (!taken.insert(node.name).second) node.name += fmt::format(".{}", node.id);
      names[std::to_string(node.id)] = node.name;
    }
    for (PiperNode& node : file_.nodes)
      for (LayerProfile& profile : node.profiles)
        for (auto* border : {&profile.receive, &profile.send})
          for (auto& entry : *border) entry.first = names.at(entry.first);
  }

  PiperFile& file_;
  ReadLog log_;
  std::map<long long, int> index_;
  std::vector<const Node*> tmpcs_;    // of each node; read once no node lacks any
  std::vector<std::string> missing_;  // required keys that the map being read has not
  std::vector<std::set<long long>> into_, out_of_;
  bool reported_swapped_ = false;
  const std::set<std::string> known_ = {"maxDevices",
                                        "maxMemoryPerDevice",
                                        "bandwidth",
                                        "mbsInBatch",
                                        "maxBatchSize",
                                        "nodes",
                                        "edges",
                                        "id",
                                        "name",
                                        "TMPCs",
                                        "sourceId",
                                        "destId",
                                        "timePerSample",
                                        "parameterSize",
                                        "memoryUsageA",
                                        "memoryUsageB",
                                        "syncTimeFw",
                                        "syncTimeBw",
                                        "communicationCost"};
};

}  // namespace

PiperFile read_piper_file(const std::string& path) {
  // JSON is read as the YAML that it is, so that every number has a place; tabs, which YAML does not like, are spaces to JSON.
  std::string text = read_text_file(path);
  std::replace(text.begin(), text.end(), '\t', ' ');
  PiperFile file;
  file.document = parse_document(text, path, std::filesystem::path(path).parent_path().string());
  Reader(file).read();
  return file;
}

}  // namespace panpipe::planner::piper
