// `parallel.expert`, `parallel.expert_tensor` and `experts:`.
#include <fmt/format.h>

#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

void read_expert_degrees(MapReader& parallel, Parallel& degrees) {
  ReadLog& log = parallel.log();
  if (!read_auto(parallel, "expert", "1")) degrees.expert = parallel.integer("expert", 1, 1);
  if (const Node* width = parallel.find("expert_tensor"); width != nullptr && !read_auto(parallel, "expert_tensor", "")) {
    degrees.expert_tensor = read_integer(*width, log, 1).value_or(0);
    if (degrees.expert_tensor > 1 && degrees.expert_tensor != degrees.tensor) {
      log.error(*width,
                fmt::format("expert_tensor {} cuts an expert otherwise than tensor {} cuts the rest", degrees.expert_tensor,
                            degrees.tensor),
                degrees.tensor > 1 ? fmt::format("expert_tensor is 1 (experts stay whole) or {}, as tensor", degrees.tensor)
                                   : "expert_tensor is 1 where tensor is");
      degrees.expert_tensor = 0;
    }
  }
  const bool apart = degrees.expert > 1 || (degrees.expert_tensor > 0 && degrees.expert_tensor != degrees.tensor);
  if (apart && degrees.shard > 0)
    log.error(*parallel.node().find(degrees.expert > 1 ? "expert" : "expert_tensor"),
              "experts over several ranks and ZeRO in shard groups are not modelled together",
              "leave parallel.shard out: each kind of weights is then divided over all ranks that hold it");
}

ExpertLoad read_expert_load(MapReader& scenario, const Parallel& degrees) {
  ExpertLoad load;
  const Node* node = scenario.find("experts");
  if (node == nullptr) return load;
  ReadLog& log = scenario.log();
  MapReader reader(*node, log);
  if (const Node* imbalance = reader.find("imbalance")) {
    load.imbalance = read_number(*imbalance, log, Sign::Positive);
    if (load.imbalance && *load.imbalance < 1)
      log.error(*imbalance, fmt::format("an imbalance of {} is below 1", *load.imbalance),
                "it is the rows of the busiest rank over the mean of all: 1 where tokens fall evenly");
    else if (load.imbalance && degrees.expert > 1 && *load.imbalance > degrees.expert)
      log.error(*imbalance,
                fmt::format("an imbalance of {} over {} ranks: one of them would have more rows than there are", *load.imbalance,
                            degrees.expert),
                fmt::format("where all rows go to one rank, it is parallel.expert, {}", degrees.expert));
  }
  if (const Node* capacity = reader.find("capacity")) load.capacity = read_number(*capacity, log, Sign::Positive);
  if (node->kind == NodeKind::Map && node->entries.empty())
    log.error(*node, "'experts' says nothing", "state an imbalance, a capacity, or both");
  reader.finish();
  return load;
}

}  // namespace panpipe
