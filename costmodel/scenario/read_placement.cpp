// Reads `partition:` and `placement:`.
#include <fmt/format.h>

#include <map>

#include "base/input/declare.hpp"
#include "base/text/counted.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

Key partition_key() {
  return declare("partition", "the movable units that start a stage after the first: names, module paths, or numbers from 0",
                 Words{"auto"}, items(form::text()), Fallback{"auto"}, InExports::Stated);
}

Key placement_key() {
  return declare("placement", "the device of every position, tensor fastest, then context, then data, then pipeline",
                 Words{"auto"}, items(form::whole(0)), Otherwise{"0, 1, 2 ..."}, InExports::Stated);
}

std::vector<std::string> read_partition(MapReader& scenario) {
  std::vector<std::string> cuts;
  ReadLog& log = scenario.log();
  const Node* node = scenario.find("partition");
  if (node == nullptr) {
    log.resolved("partition", "auto", "default");
    return cuts;
  }
  if (node->kind != NodeKind::Sequence) {
    if (node->kind == NodeKind::Scalar && node->text == "auto")
      log.resolved(node->path, "auto", origin_of(*node));
    else
      log.error(*node, "a partition is 'auto' or a list of the units that start a stage after the first",
                "as in 'partition: [12, 24]' or 'partition: [block.12, block.24]'");
    return cuts;
  }
  std::map<std::string, const Node*> seen;
  for (const auto& item : node->items) {
    const auto cut = read_string(*item, log);
    if (!cut) continue;
    if (const auto [first, is_new] = seen.emplace(*cut, item.get()); !is_new)
      log.error(*item, fmt::format("the partition starts two stages at '{}'", *cut));
    cuts.push_back(*cut);
  }
  if (node->items.empty()) log.resolved(node->path, "[]", origin_of(*node));
  return cuts;
}

std::optional<std::vector<int>> read_placement(MapReader& scenario, const Cluster& cluster, const Degrees& degrees) {
  const Node* node = scenario.find("placement");
  if (node == nullptr || read_auto(scenario, "placement", "")) return std::nullopt;
  ReadLog& log = scenario.log();
  if (node->kind != NodeKind::Sequence) {
    log.error(*node, "a placement is a list of device numbers, tensor fastest, then data, then pipeline",
              "as in 'placement: [0, 2, 1, 3]'; leave it out for 0, 1, 2 ...");
    return std::nullopt;
  }
  std::vector<int> placement;
  std::map<int, const Node*> seen;
  bool whole = true;
  for (const auto& item : node->items) {
    const auto device = read_integer(*item, log, 0);
    if (!device) {
      whole = false;
      continue;
    }
    if (*device >= cluster.size())
      log.error(*item, fmt::format("there is no device {}; the cluster has {}, numbered from 0 ({})", *device,
                                   counted(cluster.size(), "device"), device_place(scenario)));
    else if (const auto [first, is_new] = seen.emplace(*device, item.get()); !is_new)
      log.error(*item, fmt::format("device {} is placed twice, first as {}", *device, first->second->path));
    placement.push_back(*device);
  }
  const int wanted = degrees.device_count();  // no more than there are
  if (whole && placement.size() != static_cast<std::size_t>(wanted))
    log.error(*node, fmt::format("the placement lists {}, but parallel asks for {} ({}, {})",
                                 counted(static_cast<long long>(placement.size()), "device"), wanted, product_text(degrees),
                                 scenario.has("parallel") ? place_of(scenario, "parallel") : "default"));
  return placement;
}

}  // namespace panpipe
