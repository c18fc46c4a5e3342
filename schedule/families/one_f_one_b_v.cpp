// 1F1B-V (Qi et al., "Pipeline parallelism with controllable memory", NeurIPS 2024, in the order of their generator): a V whose
// backwards are not split, with about two thirds of the activations of 1F1B.
//
// Passes are placed on a grid of slots, F one slot long and B two. A microbatch takes six slots of each rank, so its block
// repeats every six slots. Then every pass moves to an earlier free place behind its inputs; a forward only as far as its rank
// holds no more activations than the fullest rank did before.
#include <array>
#include <vector>

#include "schedule/order_building.hpp"
#include "schedule/search/squeezed_block.hpp"

namespace panpipe {
namespace {

constexpr int kPeriod = 6;
using search::F0, search::F1, search::I1, search::W;
constexpr bool goes_down(int line) { return line == F0 || line == I1; }  // from rank 0 to the last; the others come back

using SlotBlock = std::array<std::vector<int>, W>;  // per line and rank: the slot of microbatch 0

// Down the V and up again, forwards in one slot each, then backwards in two, with a pause of three slots after every third
// backward: no two passes of a rank stand on the same slot modulo six.
SlotBlock block_modulo_period(int ranks) {
  SlotBlock block;
  int now = 1, until_pause = 0;
  for (int line = F0; line < W; ++line) {
    if (line == I1) {
      if (ranks % 3 == 0) now += 3;
      until_pause = 1 + (ranks + 1) % 3;
    }
    block[line].resize(ranks);
    for (int i = 0; i < ranks; ++i) {
      block[line][goes_down(line) ? i : ranks - 1 - i] = now % kPeriod;
      now += line < I1 ? 1 : 2;
      if (line >= I1 && --until_pause == 0) {
        until_pause = 3;
        now += 3;
      }
    }
  }
  return block;
}

// Every pass on the first slot behind its input that the block allows.
SlotBlock first_block(int ranks) {
  SlotBlock block = block_modulo_period(ranks);
  int at = kPeriod;
  for (int line = F0; line < W; ++line)
    for (int i = 0; i < ranks; ++i) {
      int& slot = block[line][goes_down(line) ? i : ranks - 1 - i];
      slot = at + (slot - at % kPeriod + kPeriod) % kPeriod;
      at = slot + 1;
    }
  return block;
}

Schedule make_1f1b_v(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = v_schedule("1f1b-v", ranks, microbatches);
  const SlotBlock block = first_block(ranks);
  search::Grids grids(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    for (int line = F0; line < W; ++line) {
      std::vector<int>& slots = grids[rank].slots[line];
      slots.resize(static_cast<std::size_t>(microbatches));
      for (int m = 0; m < microbatches; ++m) slots[m] = block[line][rank] + kPeriod * m;
    }
  search::squeeze(grids, search::Backwards::Whole);
  for (int rank = 0; rank < ranks; ++rank) {
    RowBuilder row(schedule.order[rank], {rank, 2 * ranks - 1 - rank});
    for (const int line : search::laid_out(grids[rank], true)) {
      const int chunk = line == F1 || line == I1 ? 1 : 0;
      if (line >= 0 && line < W) row.add(line < I1 ? row.F(chunk) : row.B(chunk));
    }
  }
  return schedule;
}

}  // namespace

ScheduleFamily one_f_one_b_v_family() {
  return {
      "1f1b-v", "1f1b over a V: two thirds of its memory, with a larger bubble", published::kControllableMemory, {}, make_1f1b_v};
}

}  // namespace panpipe
