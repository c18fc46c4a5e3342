// `experts:`.
#include <fmt/format.h>

#include "base/input/bound_key.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

namespace {

const std::vector<BoundKey<ExpertLoad>>& expert_rows() {
  static const std::vector<BoundKey<ExpertLoad>> rows = {
      bound(&ExpertLoad::imbalance, {.name = "imbalance",
                                     .forms = {form::number(Sign::Positive)},
                                     .otherwise = "1: tokens are spread evenly",
                                     .meaning = "rows of the busiest rank over the mean of all; at least 1",
                                     .page = "models/expert-parallelism.md#what-a-layer-does",
                                     .example = "1.5"}),
      bound(&ExpertLoad::capacity, {.name = "capacity",
                                    .forms = {form::number(Sign::Positive)},
                                    .otherwise = "no limit: none is dropped",
                                    .meaning = "rows that an expert takes over the mean",
                                    .page = "models/expert-parallelism.md#what-a-layer-does",
                                    .example = "1.25"})};
  return rows;
}

}  // namespace

Key experts_key() {
  return {.name = "experts",
          .keys = declared(expert_rows()),
          .meaning = "how tokens are spread over experts",
          .page = "models/expert-parallelism.md",
          .exports = InExports::Reported};
}

ExpertLoad read_expert_load(MapReader& scenario, const Degrees& degrees) {
  ExpertLoad load;
  const Node* node = scenario.find("experts");
  if (node == nullptr) return load;
  ReadLog& log = scenario.log();
  MapReader reader(*node, log);
  read_keys(reader, expert_rows(), load);
  if (const Node* imbalance = reader.find("imbalance"); imbalance != nullptr && *load.imbalance > 0) {
    if (*load.imbalance < 1)
      log.error(*imbalance, fmt::format("an imbalance of {} is below 1", *load.imbalance),
                "it is the rows of the busiest rank over the mean of all: 1 where tokens fall evenly");
    else if (degrees.expert > 1 && *load.imbalance > degrees.expert)
      log.error(*imbalance,
                fmt::format("an imbalance of {} over {} ranks: one of them would have more rows than there are", *load.imbalance,
                            degrees.expert),
                fmt::format("where all rows go to one rank, it is parallel.expert, {}", degrees.expert));
  }
  if (node->kind == NodeKind::Map && node->entries.empty())
    log.error(*node, "'experts' says nothing", "state an imbalance, a capacity, or both");
  reader.finish();
  return load;
}

}  // namespace panpipe
