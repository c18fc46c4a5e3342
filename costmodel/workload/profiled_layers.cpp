#include "costmodel/workload/profiled_layers.hpp"

#include <fmt/format.h>

#include "base/text/quantity_text.hpp"

namespace panpipe {
namespace {

std::vector<std::pair<std::string, double>> read_border(MapReader& map, const std::string& key) {
  std::vector<std::pair<std::string, double>> border;
  const Node* node = map.find(key);
  if (!node) return border;
  if (node->kind != NodeKind::Map) {
    map.log().error(*node, fmt::format("'{}' must be a map of layers to bytes", key), "for example {op0: 8192 B}");
    return border;
  }
  for (const Node::Entry& entry : node->entries) border.emplace_back(entry.key, read_exact_bytes(*entry.value, map.log()));
  return border;
}

double exact_bytes(MapReader& map, const std::string& key) {
  const Node* node = map.find(key);
  return node ? read_exact_bytes(*node, map.log()) : 0;
}

LayerProfile read_profile(const Node& node, ReadLog& log) {
  MapReader map(node, log);
  LayerProfile profile;
  profile.tensor = map.integer("tensor", 1, 1);
  profile.name = map.string("name", "");
  profile.recompute = map.boolean("recompute", false);
  profile.time = map.duration("time");
  profile.parameters = exact_bytes(map, "parameters");
  profile.in_flight = exact_bytes(map, "in_flight");
  profile.fixed = exact_bytes(map, "fixed");
  profile.receive = read_border(map, "receive");
  profile.send = read_border(map, "send");
  map.finish();
  if (profile.name.empty()) profile.name = profile.recompute ? "recompute" : "plain";
  return profile;
}

}  // namespace

double read_exact_bytes(const Node& node, ReadLog& log) {
  if (node.kind == NodeKind::Scalar && node.text.ends_with(" B"))
    if (const Parsed<double> number = parse_number(node.text.substr(0, node.text.size() - 2)); number.value) {
      if (*number.value < 0) log.error(node, fmt::format("'{}' must not be negative", node.text), "", code::kOutOfRange);
      return *number.value;
    }
  const auto bytes = read_bytes(node, log);
  return bytes ? static_cast<double>(bytes->base()) : 0;
}

std::vector<LayerProfile> read_profiles(const Node& list, ReadLog& log) {
  std::vector<LayerProfile> profiles;
  if (list.kind != NodeKind::Sequence || list.items.empty()) {
    log.error(list, "'profiles' must be a list of at least one profile",
              "for example [{tensor: 1, time: 5 ms, parameters: 1 MB, in_flight: 2 MB, fixed: 3 MB}]");
    return profiles;
  }
  for (const NodePtr& item : list.items) profiles.push_back(read_profile(*item, log));
  return profiles;
}

}  // namespace panpipe
