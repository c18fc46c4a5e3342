// kFkB (Ada-Grouper, Wang et al., 2023): 1F1B whose unit is a group of k microbatches, so that a rank that waits for one
// transfer has other microbatches to run; k times the activations of 1F1B. k = 1 is 1F1B, k = M is GPipe. The last group is
// short when k does not divide the microbatches.
#include <algorithm>

#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

Schedule make_kfkb(int ranks, int microbatches, const ScheduleOptions& options) {
  const int group = std::min(integer_option(options, "group", 2, 1), microbatches);
  Schedule schedule = linear_schedule("kfkb", ranks, microbatches);
  const int groups = (microbatches + group - 1) / group;
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    const auto group_of = [&](ActionKind kind) {
      return [&row, rank, group, microbatches, kind](int number) {
        const int first = number * group;
        for (int m = first; m < first + std::min(group, microbatches - first); ++m) row.push_back(pass(kind, rank, m));
      };
    };
    take_turns(groups, ranks - 1 - rank, group_of(ActionKind::F), group_of(ActionKind::B));
  }
  return schedule;
}

}  // namespace

ScheduleFamily kfkb_family() {
  return {"kfkb",
          "1f1b in groups of microbatches: transfers have time to arrive",
          "Wang et al., Ada-Grouper, arXiv 2303.01675, 2023",
          {{"group", "2"}},
          make_kfkb};
}

}  // namespace panpipe
