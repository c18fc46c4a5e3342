// STP (Qi et al., "Synergistic Tensor and Pipeline Parallelism", NeurIPS 2025), in the exact order of its published generator: a
// V with two stages a rank, whose steady state runs a forward and a backward of the same stage, of different microbatches, as one
// group, so that the tensor-parallel all-reduces of one hide under the compute of the other.
//
// Chunk 0 is stage r, chunk 1 stage 2p-1-r. The backward is split where the pipeline fills (the first groups) and where it
// drains, so that weight gradients fill the gaps; between, it runs whole.
#include <fmt/format.h>

#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

struct StpRank {
  int ranks, microbatches, rank;
  RowBuilder& row;

  void warm_up() const {
    row.add_first_forwards(ranks, rank);
    if (rank % 2 == 0) row.add(row.F(0));
    for (int i = 0; i < (rank + 1) / 2; ++i) row.add(GroupKind::OverlapFF, {row.F(0), row.F(0)});
    for (int i = 0; i < ranks - 1 - rank; ++i) {
      row.add(GroupKind::OverlapFB, {row.F(1), row.I(1)});
      row.add(GroupKind::OverlapFW, {row.F(0), row.W()});
    }
  }

  void steady() const {
    const int groups = 2 * (microbatches - 3 * ranks + 1) + 1 + 2 * rank;
    for (int i = 0; i < groups; ++i) {
      const int chunk = 1 - i % 2;
      if (i < groups - rank) {
        row.add(GroupKind::OverlapFB, {row.F(chunk), row.B(chunk)});
      } else {
        row.add(GroupKind::OverlapFB, {row.F(chunk), row.I(chunk)});
      }
    }
  }

  // Chunk 0 has no forwards left.
  void drain() const {
    for (int i = 0; i < 2 * ranks - 2 - rank; ++i) {
      row.add(row.B(0));
      row.add(GroupKind::OverlapFB, {row.F(1), row.I(1)});
    }
    for (int i = 0; i <= rank; ++i) {
      row.add(row.B(0));
      row.add(row.B(1));
    }
    row.add(row.B(0));
    for (int i = 0; i < ranks - 1 - rank; ++i) {
      row.add(row.W());
      row.add(row.W());
      row.add(row.B(0));
    }
    while (row.has_weights()) row.add(row.W());
  }
};

std::string no_stp(int ranks, int microbatches, const ScheduleOptions&) {
  if (microbatches >= 3 * ranks - 1) return "";
  return fmt::format(
      "stp needs at least 3P-1 = {} microbatches on {} ranks, not {}: rank 0 runs that many forwards of its first "
      "stage before its steady state begins",
      3 * ranks - 1, ranks, microbatches);
}

Schedule make_stp(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = v_schedule("stp", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    RowBuilder row(schedule.order[rank], {rank, 2 * ranks - 1 - rank});
    const StpRank order{ranks, microbatches, rank, row};
    order.warm_up();
    order.steady();
    order.drain();
  }
  return schedule;
}

}  // namespace

ScheduleFamily stp_family() {
  return {"stp",
          "V whose forwards and backwards overlap, to hide tensor-parallel communication",
          "Qi et al., Synergistic tensor and pipeline parallelism, NeurIPS 2025",
          {},
          make_stp,
          no_stp};
}

}  // namespace panpipe
