#include "costmodel/schedule/csv_shape.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace panpipe {

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

  shape.stage_to_rank.assign(static_cast<std::size_t>(shape.stages), -1);
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    for (const Action& action : rows[rank])
      if (action.stage >= 0 && shape.stage_to_rank[static_cast<std::size_t>(action.stage)] < 0)
        shape.stage_to_rank[static_cast<std::size_t>(action.stage)] = static_cast<int>(rank);
  shape.chains.emplace_back(static_cast<std::size_t>(shape.stages));
  std::iota(shape.chains[0].begin(), shape.chains[0].end(), 0);
  return shape;
}

}  // namespace panpipe
