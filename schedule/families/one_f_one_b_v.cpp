// 1F1B-V (Qi et al., "Pipeline parallelism with controllable memory", NeurIPS 2024, in the order of their generator): a V whose
// backwards are not split, with about two thirds of the activations of 1F1B.
//
// Passes are placed on a grid of slots, F one slot long and B two. A microbatch takes six slots of each rank, so its block
// repeats every six slots. Then every pass moves to an earlier free place behind its inputs; a forward only as far as its rank
// holds no more activations than the fullest rank did before.
#include <algorithm>
#include <array>

#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

constexpr int kPeriod = 6;
// The passes of a microbatch on a rank, in the order in which it runs them; Tail is the second slot of a backward.
enum Kind : std::uint8_t { F0, F1, B1, B0, kKinds, Tail, Free };
constexpr int length(int kind) { return kind < B1 ? 1 : 2; }
constexpr bool goes_down(int kind) { return kind == F0 || kind == B1; }  // from rank 0 to the last; the others come back

using SlotBlock = std::array<std::vector<int>, kKinds>;  // per kind and rank: the slot of microbatch 0

// Down the V and up again, forwards in one slot each, then backwards in two, with a pause of three slots after every third
// backward: no two passes of a rank stand on the same slot modulo six.
SlotBlock block_modulo_period(int ranks) {
  SlotBlock block;
  int now = 1, until_pause = 0;
  for (int kind = F0; kind < kKinds; ++kind) {
    if (kind == B1) {
      if (ranks % 3 == 0) now += 3;
      until_pause = 1 + (ranks + 1) % 3;
    }
    block[kind].resize(ranks);
    for (int i = 0; i < ranks; ++i) {
      block[kind][goes_down(kind) ? i : ranks - 1 - i] = now % kPeriod;
      now += length(kind);
      if (kind >= B1 && --until_pause == 0) {
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
  for (int kind = F0; kind < kKinds; ++kind)
    for (int i = 0; i < ranks; ++i) {
      int& slot = block[kind][goes_down(kind) ? i : ranks - 1 - i];
      slot = at + (slot - at % kPeriod + kPeriod) % kPeriod;
      at = slot + 1;
    }
  return block;
}

class SquaredPaper {
 public:
  SquaredPaper(int ranks, int microbatches) : ranks_(ranks) {
    const SlotBlock block = first_block(ranks);
    const std::size_t width = static_cast<std::size_t>(block[B0][0] + 2 + kPeriod * microbatches);
    lines_.resize(ranks);
    for (std::size_t rank = 0; rank < lines_.size(); ++rank) {
      Line& line = lines_[rank];
      line.cells.assign(width, Free);
      for (int kind = F0; kind < kKinds; ++kind)
        for (int m = 0; m < microbatches; ++m) {
          const auto slot = static_cast<std::size_t>(block[kind][rank] + kPeriod * m);
          put(line, slot, kind);
        }
      count_activations(line);
    }
  }

  // Slot by slot, so that the inputs of a pass are placed before it.
  void move_to_earlier_slots() {
    for (std::size_t at = 0; at < lines_[0].cells.size(); ++at)
      for (int rank = 0; rank < ranks_; ++rank)
        if (const int kind = lines_[rank].cells[at]; kind < kKinds) move(rank, kind, at);
  }

  Row row(int rank) const {
    Row row;
    std::array<int, kKinds> count{};
    for (const std::uint8_t kind : lines_[rank].cells) {
      if (kind >= kKinds) continue;
      const int stage = kind == F0 || kind == B0 ? rank : 2 * ranks_ - 1 - rank;
      row.push_back(pass(length(kind) == 1 ? ActionKind::F : ActionKind::B, stage, count[kind]++));
    }
    return row;
  }

 private:
  struct Line {
    std::vector<std::uint8_t> cells;                    // Kind of each slot
    std::vector<int> live;                              // activations held in each slot
    std::array<std::vector<std::size_t>, kKinds> ends;  // of the passes that found their place: first slot behind them
  };

  static void put(Line& line, std::size_t slot, int kind) {
    line.cells[slot] = static_cast<std::uint8_t>(kind);
    if (length(kind) == 2) line.cells[slot + 1] = Tail;
  }

  void count_activations(Line& line) {
    int live = 0;
    line.live.reserve(line.cells.size());
    for (const std::uint8_t kind : line.cells) {
      if (kind == F0 || kind == F1) ++live;
      if (kind == Tail) --live;
      line.live.push_back(live);
      peak_ = std::max(peak_, live);
    }
  }

  // First slot behind what the next pass of this kind needs: the one before it on the rank, and its input.
  std::size_t behind_inputs(int rank, int kind) const {
    const auto& same = lines_[rank].ends[kind];
    const std::size_t microbatch = same.size();
    std::size_t slot = microbatch > 0 ? same.back() : 0;
    int from = goes_down(kind) ? rank - 1 : rank + 1, made_by = kind;
    if (from < 0 || from == ranks_) {  // where the way turns, its input is made on the same rank
      from = rank;
      --made_by;
    }
    if (made_by >= F0) slot = std::max(slot, lines_[from].ends[made_by][microbatch]);
    return slot;
  }

  void move(int rank, int kind, std::size_t at) {
    Line& line = lines_[rank];
    std::size_t to = behind_inputs(rank, kind);
    if (length(kind) == 1) {
      std::size_t earliest = at;
      while (earliest > to && line.live[earliest - 1] < peak_) --earliest;
      to = earliest;
      while (to < at && line.cells[to] != Free) ++to;
      for (std::size_t slot = to; slot < at; ++slot) ++line.live[slot];
    } else {
      while (to < at && (line.cells[to] != Free || line.cells[to + 1] != Free)) ++to;
      for (std::size_t slot = to + 1; slot < at + 1; ++slot) --line.live[slot];
    }
    if (to != at) {
      for (int i = 0; i < length(kind); ++i) line.cells[at + static_cast<std::size_t>(i)] = Free;
      put(line, to, kind);
    }
    line.ends[kind].push_back(to + static_cast<std::size_t>(length(kind)));
  }

  int ranks_, peak_ = 0;
  std::vector<Line> lines_;
};

Schedule make_1f1b_v(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = v_schedule("1f1b-v", ranks, microbatches);
  SquaredPaper paper(ranks, microbatches);
  paper.move_to_earlier_slots();
  for (int rank = 0; rank < ranks; ++rank) schedule.order[rank] = paper.row(rank);
  return schedule;
}

}  // namespace

ScheduleFamily one_f_one_b_v_family() {
  return {
      "1f1b-v", "1f1b over a V: two thirds of its memory, with a larger bubble", published::kControllableMemory, {}, make_1f1b_v};
}

}  // namespace panpipe
