#include "schedule/search/squeezed_block.hpp"

#include <algorithm>
#include <tuple>

#include "schedule/search/rows.hpp"

namespace panpipe::search {
namespace {

// Passes of a rank in the order a microbatch goes through them; then the weight gradients of both chunks together.
enum Line { F0, F1, I1, I0, W, kLines };

// Slots of one rank: for each line, the slot of each of its passes, ascending.
struct Grid {
  std::vector<int> slots[kLines];
  int last() const {
    int slot = 0;
    for (int line = F0; line <= I0; ++line) slot = std::max(slot, slots[line].back());
    return slot;
  }
};

// The line in each slot of a grid, or -1.
std::vector<std::int8_t> laid_out(const Grid& grid) {
  int last = grid.last();
  if (!grid.slots[W].empty()) last = std::max(last, grid.slots[W].back());
  std::vector<std::int8_t> cells(size(last + 1), -1);
  for (int line = F0; line < kLines; ++line)
    for (const int slot : grid.slots[line]) cells[size(slot)] = static_cast<std::int8_t>(line);
  return cells;
}

// Gives every pending weight gradient the next free slot; what is left follows at the end.
void place_weights(Grid& grid) {
  grid.slots[W].clear();
  const std::vector<std::int8_t> cells = laid_out(grid);
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

// Without weight gradients in the grid they are thought of in the free slots.
int peak_of(const Grid& grid) {
  const bool placed = !grid.slots[W].empty();
  int held = 0, peak = 0, pending = 0;
  for (const int line : laid_out(grid)) {
    if (line == F0 || line == F1) ++held;
    if (line == I1 || line == I0) ++pending;
    if (line == W) --held;
    if (line < 0 && !placed && pending > 0) {
      --held;
      --pending;
    }
    peak = std::max(peak, held);
  }
  return peak;
}

using Grids = std::vector<Grid>;

class Squeeze {
 public:
  Squeeze(Grids& grids, bool with_weights) : grids_(grids), with_weights_(with_weights), occupied_(grids.size()) {
    for (const Grid& grid : grids) limit_ = std::max(limit_, peak_of(grid));
  }

  void run() {
    std::vector<std::tuple<int, int, int, int>> passes;  // slot, rank, line, number: in this order
    for (int r = 0; r < static_cast<int>(grids_.size()); ++r)
      for (int line = F0; line < kLines; ++line)
        for (std::size_t k = 0; k < grids_[size(r)].slots[line].size(); ++k)
          passes.emplace_back(grids_[size(r)].slots[line][k], r, line, static_cast<int>(k));
    std::sort(passes.begin(), passes.end());
    const int last_microbatch = static_cast<int>(grids_[0].slots[F0].size()) - 1;
    enum { Filling, Steady, Draining } phase = Filling;
    for (const auto& [slot, r, line, k] : passes) {
      if (phase == Filling && r == 0 && line == I0) phase = Steady;
      if (phase == Draining || (phase == Filling && with_weights_)) pull(slot, r, line, k);
      if (phase == Steady && line == F0 && k == last_microbatch) phase = Draining;
      occupy(r, grids_[size(r)].slots[line][size(k)]);
    }
  }

 private:
  // Moves a pass to the first free slot after its inputs that keeps the memory.
  void pull(int slot, int r, int line, int k) {
    int& at = grids_[size(r)].slots[line][size(k)];
    for (int earlier = earliest(r, line, k); earlier < slot; ++earlier) {
      if (is_occupied(r, earlier)) continue;
      at = earlier;
      if (peak_of(grids_[size(r)]) <= limit_) return;
    }
    at = slot;
  }

  int earliest(int r, int line, int k) const {
    const auto slot_of = [&](int rank, int of) { return grids_[size(rank)].slots[of][size(k)]; };
    int after = -1;
    const int neighbour = line == F0 || line == I1 ? r - 1 : r + 1;
    if (line != W && neighbour >= 0 && neighbour < static_cast<int>(grids_.size())) after = slot_of(neighbour, line);
    if (line == F1 || line == I1 || line == I0) after = std::max(after, slot_of(r, line - 1));
    if (line == W) after = std::max(after, gradient(r, k));
    if (k > 0) after = std::max(after, grids_[size(r)].slots[line][size(k - 1)]);
    return after + 1;
  }

  // Slot of the k-th input gradient of a rank, whichever its chunk.
  int gradient(int r, int k) const {
    std::vector<int> all = grids_[size(r)].slots[I1];
    all.insert(all.end(), grids_[size(r)].slots[I0].begin(), grids_[size(r)].slots[I0].end());
    std::nth_element(all.begin(), all.begin() + k, all.end());
    return all[size(k)];
  }

  void occupy(int r, int slot) {
    auto& taken = occupied_[size(r)];
    if (taken.size() <= size(slot)) taken.resize(size(slot) + 1);
    taken[size(slot)] = true;
  }
  bool is_occupied(int r, int slot) const { return size(slot) < occupied_[size(r)].size() && occupied_[size(r)][size(slot)]; }

  Grids& grids_;
  bool with_weights_;
  int limit_ = 0;
  std::vector<std::vector<bool>> occupied_;
};

// Rows in the order of slots. A pending weight gradient of the second chunk goes before one of the first.
Rows rows_of_grids(const Grids& grids) {
  Rows rows;
  for (const Grid& grid : grids) {
    auto& row = rows.emplace_back();
    int next[kLines] = {}, pending[2] = {}, done[2] = {};
    for (const int line : laid_out(grid)) {
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
    Squeeze(grids, with_weights).run();
    if (!with_weights)
      for (Grid& grid : grids) place_weights(grid);
    grids = run_once(unit, grids);
  }
  for (Grid& grid : grids) place_weights(grid);
  return rows_of_grids(grids);
}

}  // namespace panpipe::search
