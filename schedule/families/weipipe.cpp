// WeiPipe (Lin et al., PPoPP 2025): activations stay, weights go round the ranks (schedule/travelling_weights.hpp). A rank runs a
// whole microbatch, all stages forwards and all backwards, with the next microbatch's forwards between the backwards
// ("interleaved"; B and F in turn). Its k-th forward is one turn behind that of the rank before it, so that each stage's weights
// reach the ranks one after another. The order is the authors' (weipipe.py, forward_backward_step).
//
// A rank runs every stage of its microbatches, so it has a chain of its own.
#include <fmt/format.h>

#include "base/index.hpp"
#include "schedule/limits.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

std::string no_weipipe(int ranks, int microbatches, const ScheduleOptions&) {
  if (ranks < 2) return "weipipe sends weights round several ranks, not 1";
  if (microbatches % ranks != 0)
    return fmt::format("weipipe needs a multiple of {} microbatches, not {}: each rank takes as many", ranks, microbatches);
  if (2.0 * ranks * microbatches > kMaxActions)
    return fmt::format("{} stages and {} microbatches make more than {:g} million actions", ranks, microbatches,
                       kMaxActions / 1e6);
  return "";
}

Schedule make_weipipe(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = chained_schedule("weipipe", ranks, microbatches, ranks, ranks, [&](int stage) { return stage / ranks; });
  const int of_rank = microbatches / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int>& chain = schedule.chains[at(rank)];
    Row& row = schedule.order[at(rank)];
    for (const int stage : chain) row.push_back(pass(ActionKind::F, stage, 0));
    for (int m = 0; m < of_rank; ++m)
      for (int k = 0; k < ranks; ++k) {
        row.push_back(pass(ActionKind::B, chain[at(ranks - 1 - k)], m));
        if (m + 1 < of_rank) row.push_back(pass(ActionKind::F, chain[at(k)], m + 1));
      }
  }
  return schedule;
}

}  // namespace

ScheduleFamily weipipe_family() {
  return {"weipipe", "weights go round the ranks, activations stay", "WeiPipe, PPoPP 2025", {}, make_weipipe, no_weipipe, false};
}

}  // namespace panpipe
