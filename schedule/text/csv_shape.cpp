#include "schedule/text/csv_shape.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace panpipe {

namespace {

// Rank r of P holds stages r and 2P-1-r: one chain there and back (a V), or two that run against each other (DualPipe). The last
// rank holds P-1 and P; as one chain it can only begin with P-1.
bool runs_from_both_ends(const std::vector<std::vector<Action>>& rows, const ScheduleShape& shape) {
  const int ranks = static_cast<int>(rows.size());
  if (ranks < 2 || shape.stages != 2 * ranks) return false;
  for (int stage = 0; stage < shape.stages; ++stage)
    if (shape.stage_to_rank[stage] != std::min(stage, shape.stages - 1 - stage)) return false;
  for (const Action& action : rows.back())
    if (action.kind == ActionKind::F) return action.stage == ranks;
  return false;
}

}  // namespace

ScheduleShape shape_of_rows(const std::vector<std::vector<Action>>& rows) {
  ScheduleShape shape;
  int split_count = 1, named_microbatches = 0;
  std::vector<std::pair<int, int>> forwards;  // (stage, microbatch)
  for (const auto& row : rows)
    for (const Action& action : row) {
      shape.stages = std::max(shape.stages, action.stage + 1);
      split_count = std::max(split_count, action.split + 1);
      named_microbatches = std::max(named_microbatches, action.microbatch + 1);
      if (action.kind == ActionKind::F) forwards.emplace_back(action.stage, action.microbatch);
    }
  shape.splits = split_count;
  std::sort(forwards.begin(), forwards.end());
  forwards.erase(std::unique(forwards.begin(), forwards.end()), forwards.end());
  for (std::size_t first = 0, end = 0; first < forwards.size(); first = end) {
    while (end < forwards.size() && forwards[end].first == forwards[first].first) ++end;
    shape.microbatches = std::max(shape.microbatches, static_cast<int>(end - first));
  }
  if (forwards.empty()) shape.microbatches = named_microbatches;
  shape.microbatches = std::max(shape.microbatches, 1);

  shape.stage_to_rank.assign(shape.stages, -1);
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    for (const Action& action : rows[rank])
      if (action.stage >= 0 && shape.stage_to_rank[action.stage] < 0) shape.stage_to_rank[action.stage] = static_cast<int>(rank);
  shape.chains.emplace_back(shape.stages);
  std::iota(shape.chains[0].begin(), shape.chains[0].end(), 0);
  if (runs_from_both_ends(rows, shape)) {
    const auto half = shape.chains[0].begin() + shape.stages / 2;
    shape.chains.emplace_back(half, shape.chains[0].end());
    shape.chains[0].erase(half, shape.chains[0].end());
  }
  return shape;
}

}  // namespace panpipe
