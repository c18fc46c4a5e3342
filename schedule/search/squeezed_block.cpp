#include "schedule/search/squeezed_block.hpp"

#include <algorithm>
#include <array>

#include "schedule/search/rows.hpp"

namespace panpipe::search {

std::vector<std::int8_t> laid_out(const Grid& grid, bool whole) {
  int end = 0;
  for (const auto& slots : grid.slots)
    for (const int slot : slots) end = std::max(end, slot + (whole ? 2 : 1));
  std::vector<std::int8_t> cells(size(end), -1);
  for (int line = F0; line < kLines; ++line)
    for (const int slot : grid.slots[line]) {
      cells[size(slot)] = static_cast<std::int8_t>(line);
      if (whole && line >= I1) cells[size(slot + 1)] = kTail;
    }
  return cells;
}

namespace {

// Gives every pending weight gradient the next free slot; what is left follows at the end.
void place_weights(Grid& grid) {
  grid.slots[W].clear();
  const std::vector<std::int8_t> cells = laid_out(grid, false);
  int pending = 0, slot = 0;
  for (; slot < static_cast<int>(cells.size()); ++slot) {
    const int line = cells[size(slot)];
    if (line == I1 || line == I0) ++pending;
    if (line >= 0 || pending == 0) continue;
    grid.slots[W].push_back(slot);
    --pending;
  }
  for (; pending > 0; --pending) grid.slots[W].push_back(slot++);
}

// Activations held in each slot. `thought`: weight gradients are not in the grid, but are thought of in the free slots.
std::vector<int> levels_of(const std::vector<std::int8_t>& cells, bool thought) {
  int held = 0, pending = 0;
  std::vector<int> levels;
  levels.reserve(cells.size());
  for (const int line : cells) {
    if (line == F0 || line == F1) ++held;
    if (line == I1 || line == I0) ++pending;
    if (line == W || line == kTail) --held;
    if (line < 0 && thought && pending > 0) {
      --held;
      --pending;
    }
    levels.push_back(held);
  }
  return levels;
}

int peak_of(const std::vector<int>& levels) { return std::max(0, *std::max_element(levels.begin(), levels.end())); }

template <Backwards backwards>
class Squeeze {
 public:
  explicit Squeeze(Grids& grids) : grids_(grids) {
    for (const Grid& grid : grids) {
      cells_.push_back(laid_out(grid, kWhole));
      levels_.push_back(levels_of(cells_.back(), backwards == Backwards::Split));
      limit_ = std::max(limit_, peak_of(levels_.back()));
    }
  }

  // Slot by slot, so that the inputs of a pass have their places before it.
  void run() {
    std::size_t end = 0;
    for (const auto& cells : cells_) end = std::max(end, cells.size());
    std::vector<std::array<int, kLines>> passed(grids_.size());  // passes of each line
    const int last_microbatch = static_cast<int>(grids_[0].slots[F0].size()) - 1;
    enum { Filling, Steady, Draining } phase = Filling;
    for (std::size_t slot = 0; slot < end; ++slot)
      for (std::size_t r = 0; r < grids_.size(); ++r) {
        const int line = slot < cells_[r].size() ? cells_[r][slot] : -1;
        if (line < 0 || line == kTail) continue;
        const int k = passed[r][size(line)]++;
        if (phase == Filling && r == 0 && line == I0) phase = Steady;
        if (kWhole || phase == Draining || (phase == Filling && backwards == Backwards::SplitAndPlaced))
          pull(static_cast<int>(slot), static_cast<int>(r), line, k);
        if (phase == Steady && line == F0 && k == last_microbatch) phase = Draining;
      }
  }

 private:
  static constexpr bool kWhole = backwards == Backwards::Whole;
  static int length(int line) { return kWhole && line >= I1 ? 2 : 1; }

  // Moves a pass to the first free slots behind its inputs that keep the memory.
  void pull(int slot, int r, int line, int k) {
    int& at = grids_[size(r)].slots[line][size(k)];  // = slot
    std::vector<int>& levels = levels_[size(r)];
    const std::vector<std::int8_t>& cells = cells_[size(r)];
    const bool one = length(line) == 1;
    int earlier = earliest(r, line, k);
    constexpr bool thought = backwards == Backwards::Split;
    const bool forward = line == F0 || line == F1;
    if (!thought && forward) {
      const int behind_inputs = earlier;
      for (earlier = slot; earlier > behind_inputs && levels[size(earlier - 1)] < limit_;) --earlier;
    }
    for (; earlier < slot; ++earlier) {
      if (cells[size(earlier)] >= 0 || !(one || cells[size(earlier + 1)] < 0)) continue;
      if (!thought) break;
      at = earlier;
      if (peak_of(levels_of(laid_out(grids_[size(r)], false), true)) <= limit_) break;
      at = slot;
    }
    if (earlier >= slot) return;
    at = earlier;
    const int freed = length(line) - 1;  // in its last slot
    if (forward || line == W || kWhole)
      for (int s = at + freed; s < slot + freed; ++s) levels[size(s)] += forward ? 1 : -1;
    fill(r, slot, length(line), -1);
    fill(r, at, length(line), line);
  }

  int earliest(int r, int line, int k) const {
    int after = 0;
    const auto behind = [&](int rank, int of, int number) {
      after = std::max(after, grids_[size(rank)].slots[of][size(number)] + length(of));
    };
    const int neighbour = line == F0 || line == I1 ? r - 1 : r + 1;
    if (line != W && neighbour >= 0 && neighbour < static_cast<int>(grids_.size()))
      behind(neighbour, line, k);
    else if (line == F1 || line == I1 || line == I0)  // where the way turns
      behind(r, line - 1, k);
    if (line == W) after = std::max(after, gradient(r, k) + 1);
    if (k > 0) behind(r, line, k - 1);
    return after;
  }

  // Slot of the k-th input gradient of a rank, whichever its chunk.
  int gradient(int r, int k) const {
    std::vector<int> all = grids_[size(r)].slots[I1];
    all.insert(all.end(), grids_[size(r)].slots[I0].begin(), grids_[size(r)].slots[I0].end());
    std::nth_element(all.begin(), all.begin() + k, all.end());
    return all[size(k)];
  }

  void fill(int r, int slot, int length, int line) {
    std::fill_n(cells_[size(r)].begin() + slot, length, static_cast<std::int8_t>(line));
  }

  Grids& grids_;
  int limit_ = 0;
  std::vector<std::vector<int>> levels_;         // per rank and slot; not kept where weight gradients are thought of
  std::vector<std::vector<std::int8_t>> cells_;  // per rank: what is in each slot
};

// Rows in the order of slots. A pending weight gradient of the second chunk goes before one of the first.
Rows rows_of_grids(const Grids& grids) {
  Rows rows;
  for (const Grid& grid : grids) {
    auto& row = rows.emplace_back();
    int next[kLines] = {}, pending[2] = {}, done[2] = {};
    for (const int line : laid_out(grid, false)) {
      if (line < 0) continue;
      const int chunk = line == W ? (pending[1] > 0 ? 1 : 0) : (line == F1 || line == I1 ? 1 : 0);
      if (line == W) {
        row.push_back({Kind::W, static_cast<std::uint8_t>(chunk), done[chunk]++});
        --pending[chunk];
        continue;
      }
      row.push_back({line == F0 || line == F1 ? Kind::F : Kind::I, static_cast<std::uint8_t>(chunk), next[line]++});
      if (line == I1 || line == I0) ++pending[chunk];
    }
  }
  return rows;
}

// Slots as the passes run when each takes one unit and starts as soon as it can; weight gradients are left out.
Grids run_once(const OrderProblem& unit, const Grids& grids) {
  RowTimer replay(unit);
  Score score;
  replay.run(rows_of_grids(grids), score);
  Grids result(grids.size());
  for (int r = 0; r < unit.ranks; ++r)
    for (int k = 0; k < unit.microbatches; ++k) {
      const auto slot = [&](Kind kind, int chunk) { return static_cast<int>(replay.end(kind, unit.stage_on(r, chunk), k)) - 1; };
      Grid& grid = result[size(r)];
      grid.slots[F0].push_back(slot(Kind::F, 0));
      grid.slots[F1].push_back(slot(Kind::F, 1));
      grid.slots[I1].push_back(slot(Kind::I, 1));
      grid.slots[I0].push_back(slot(Kind::I, 0));
    }
  return result;
}

}  // namespace

void squeeze(Grids& grids, Backwards backwards) {
  if (backwards == Backwards::Whole) return Squeeze<Backwards::Whole>(grids).run();
  if (backwards == Backwards::Split) return Squeeze<Backwards::Split>(grids).run();
  Squeeze<Backwards::SplitAndPlaced>(grids).run();
}

Rows squeezed_building_block(const OrderProblem& problem, Pattern pattern) {
  OrderProblem unit = problem;
  unit.F = unit.I = unit.W = 1;
  unit.each.clear();
  unit.comm = 0;
  // The intervals keep passes of a rank apart.
  const int interval = pattern == Pattern::VHalf ? (unit.ranks % 2 == 0 ? 3 : 0) : (unit.ranks % 3 == 0 ? 2 : 0);
  constexpr int kPasses[] = {0, 2, 3, 1};  // kind + 2 chunk of each line
  Grids grids(size(unit.ranks));
  for (int r = 0; r < unit.ranks; ++r)
    for (int line = F0; line <= I0; ++line)
      for (int k = 0; k < unit.microbatches; ++k)
        grids[size(r)].slots[line].push_back(published_start(pattern, unit.ranks, interval, r, kPasses[line]) + 6 * k);
  for (const bool with_weights : {true, false}) {
    if (with_weights)
      for (Grid& grid : grids) place_weights(grid);
    squeeze(grids, with_weights ? Backwards::SplitAndPlaced : Backwards::Split);
    if (!with_weights)
      for (Grid& grid : grids) place_weights(grid);
    grids = run_once(unit, grids);
  }
  for (Grid& grid : grids) place_weights(grid);
  return rows_of_grids(grids);
}

}  // namespace panpipe::search
