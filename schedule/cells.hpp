// Cells of a row (lone actions and groups) with their times, for code that inserts actions into finished orders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "schedule/action.hpp"

namespace panpipe {

using CellTimes = std::vector<std::pair<double, double>>;  // per action: start, end

struct Cell {
  std::size_t first = 0, end = 0;  // indices of the row's actions
  double start = 0, over = 0;      // start and end time
};

inline std::vector<Cell> cells_of(const std::vector<Action>& row, const CellTimes& times) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < row.size();) {
    const std::size_t end = i + row[i].cell_size();
    cells.push_back({i, end, times[i].first, times[end - 1].second});
    i = end;
  }
  return cells;
}

inline bool starts_backward(ActionKind kind) { return kind == ActionKind::B || kind == ActionKind::I; }

// A lone action of another kind, with the stage, microbatch and slice of `like`.
inline Action with_kind(const Action& like, ActionKind kind) {
  return {kind, GroupKind::None, 1, like.split, like.stage, like.microbatch};
}

}  // namespace panpipe
