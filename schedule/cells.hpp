// Cells of a row (lone actions and groups) with their times, for code that inserts actions into finished orders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
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

// An action that is added in front of a cell, or behind the last one; those of one cell stand in the order of their times.
struct AddedAction {
  std::size_t cell = 0;
  double start = 0;
  Action action;
};

inline std::vector<Action> woven(const std::vector<Action>& row, const std::vector<Cell>& cells, std::vector<AddedAction> added) {
  std::stable_sort(added.begin(), added.end(),
                   [](const auto& a, const auto& b) { return std::tie(a.cell, a.start) < std::tie(b.cell, b.start); });
  std::vector<Action> result;
  auto next = added.begin();
  for (std::size_t c = 0; c <= cells.size(); ++c) {
    for (; next != added.end() && next->cell == c; ++next) result.push_back(next->action);
    for (std::size_t i = c < cells.size() ? cells[c].first : row.size(); i < row.size() && i < cells[c].end; ++i)
      result.push_back(row[i]);
  }
  return result;
}

inline bool same_activation(const Action& a, const Action& b) {
  return a.stage == b.stage && a.microbatch == b.microbatch && a.split == b.split;
}

// A lone action of another kind, with the stage, microbatch and slice of `like`.
inline Action with_kind(const Action& like, ActionKind kind) {
  return {kind, GroupKind::None, 1, like.split, like.stage, like.microbatch};
}

}  // namespace panpipe
