// `experts:`.
#include <fmt/format.h>

#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

ExpertLoad read_expert_load(MapReader& scenario, const Degrees& degrees) {
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
