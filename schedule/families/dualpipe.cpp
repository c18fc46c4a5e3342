// DualPipe and DualPipeV (DeepSeek-V3 technical report, 2024; github.com/deepseek-ai/DualPipe): forwards of one half of the model
// run as one group with backwards of the other half, so that communication of one hides under the compute of the other.
//
// DualPipeV places the stages in a V. DualPipe has two chains that run against each other, every stage twice in memory; on the
// ranks r and p-1-r the two chains together make the row that DualPipeV has on rank min(r, p-1-r) of p/2.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

// The row of one rank of a V of `ranks`; chunk 0 is where microbatches come in, chunk 1 where they come back.
struct DualPipeRank {
  int ranks, microbatches, rank;
  RowBuilder& row;

  bool is_at_the_turn() const { return rank == ranks - 1; }

  void warm_up() const {
    row.add_first_forwards(ranks, rank);
    for (int i = 0; i < ranks - 1 - rank; ++i) {
      row.add(row.I(1));
      row.add(row.W());
      row.add(row.F(1));
    }
  }

  void steady() const {
    for (int i = 0; i < microbatches - 2 * ranks + rank + 1; ++i) {
      if (i == 0 && is_at_the_turn()) {  // its neighbour waits for the forward: not grouped
        row.add(row.F(0));
        row.add(row.B(1));
      } else {
        row.add(GroupKind::OverlapFB, {row.F(0), row.B(1)});
      }
      row.add(GroupKind::OverlapFB, {row.F(1), row.B(0)});
    }
    for (int i = 0; i < ranks - 1 - rank; ++i) {
      row.add(row.B(1));
      row.add(GroupKind::OverlapFB, {row.F(1), row.B(0)});
    }
  }

  // From the middle of the last rank+1 pairs on, weight gradients wait.
  void drain() const {
    bool split = false;
    const auto add_backward = [&](int chunk) { row.add(split ? row.I(chunk) : row.B(chunk)); };
    for (int i = 0; i <= rank; ++i) {
      const bool is_middle = i == (rank + 1) / 2;
      if (is_middle && rank % 2 == 1) split = true;
      add_backward(1);
      if (is_middle && rank % 2 == 0) split = true;
      add_backward(0);
    }
    for (int i = 0; i < ranks - 1 - rank; ++i) {
      row.add(row.W());
      row.add(row.I(0));
    }
    while (row.has_weights()) row.add(row.W());
  }
};

void add_row(int ranks, int microbatches, int rank, RowBuilder row) {
  const DualPipeRank order{ranks, microbatches, rank, row};
  order.warm_up();
  order.steady();
  order.drain();
}

std::string no_dualpipe_v(int ranks, int microbatches, const ScheduleOptions&) {
  if (microbatches >= 2 * ranks) return "";
  return fmt::format(
      "dualpipe-v needs at least 2P = {} microbatches on {} ranks, not {}: that many are under way before its first group",
      2 * ranks, ranks, microbatches);
}

Schedule make_dualpipe_v(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = v_schedule("dualpipe-v", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank)
    add_row(ranks, microbatches, rank, RowBuilder(schedule.order[rank], {rank, 2 * ranks - 1 - rank}));
  return schedule;
}

std::string no_dualpipe(int ranks, int microbatches, const ScheduleOptions&) {
  if (ranks % 2 != 0)
    return fmt::format("dualpipe needs an even number of ranks, not {}: its two chains meet in the middle", ranks);
  if (microbatches % 2 != 0 || microbatches < 2 * ranks)
    return fmt::format(
        "dualpipe needs an even number of microbatches, at least 2P = {} on {} ranks, not {}: its two chains take one "
        "half each, and P of each are under way before its first group",
        2 * ranks, ranks, microbatches);
  return "";
}

Schedule make_dualpipe(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = bidirectional_schedule("dualpipe", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    const int from_end = std::min(rank, ranks - 1 - rank);
    std::vector<int> stages = {rank, 2 * ranks - 1 - rank};
    if (from_end != rank) std::swap(stages[0], stages[1]);  // chain 1 comes in at this end
    add_row(ranks / 2, microbatches / 2, from_end, RowBuilder(schedule.order[rank], stages));
  }
  return schedule;
}

}  // namespace

ScheduleFamily dualpipe_family() {
  return {"dualpipe",           "two chains against each other: forwards of one overlap backwards of the other",
          published::kDualPipe, {},
          make_dualpipe,        no_dualpipe};
}

ScheduleFamily dualpipe_v_family() {
  return {"dualpipe-v", "dualpipe in a V, with every stage once", published::kDualPipe, {}, make_dualpipe_v, no_dualpipe_v};
}

}  // namespace panpipe
