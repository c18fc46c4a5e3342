#include "costmodel/lowering/part_gathers.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace panpipe {

PartGathers::PartGathers(Lowering& lowering, int rank, const RankReductions& reductions) : lowering_(lowering), rank_(rank) {
  int run = 0;  // of such passes, between groups
  for (const Action& action : lowering.plan.schedule.order[rank]) {
    in_parts_.push_back(is_in_parts(action));
    if (action.group_size > 1) ++run;
    if (!in_parts_.back()) continue;
    if (lowering.zero() < 3) gathered_first_.push_back(action.stage);
    bool first = true;  // of the pass
    for (const PartTraffic& at : traffic_of(lowering, action.stage, action.kind)) {
      const std::vector<std::int32_t>& flows = reductions.of_stage[action.stage].group_gathers;
      if (at.gather < 0 || flows[at.gather] < 0) continue;
      coming_.push_back({action, flows[at.gather], first, run});
      first = false;
    }
  }
}

bool PartGathers::wait_for_update(int stage) const {
  return std::find(gathered_first_.begin(), gathered_first_.end(), stage) != gathered_first_.end();
}

// A pass that is laid in parts runs alone; of those that read updated parameters (ZeRO 1 and 2) it is a stage's first.
bool PartGathers::is_in_parts(const Action& action) const {
  if (!action.is_compute() || action.group_size != 1) return false;
  if (lowering_.pass(action).parts.ends.empty() || lowering_.rolls()) return false;
  return lowering_.zero() >= 3 || !wait_for_update(action.stage);
}

// A gather starts when at most the allowed number of blocks is whole; after a group, whose members hold their own, when the pass
// before the last has ended.
std::int32_t PartGathers::gather_for_part(std::int32_t pass_before) {
  const std::size_t now = gathered_parts_.size(), most = in_flight();
  const bool updated = lowering_.zero() < 3;
  if (now == 0 || coming_[now].run != coming_[run_begin_].run) run_begin_ = now;
  for (std::size_t next = gathers_.size(); next < std::min(now + 1 + asked_ahead(), coming_.size()); ++next) {
    const Coming& coming = coming_[next];
    if (!updated && coming.run != coming_[now].run) break;
    const std::int32_t after = updated ? -1 : next >= run_begin_ + most ? gathered_parts_[next - most] : pass_before;
    gathers_.push_back(lowering_.add_collective(rank_, ActionKind::Unshard, coming.pass.stage, coming.flow, after));
    if (coming.first && !updated)
      lowering_.graph.tasks[gathers_.back()].take = lowering_.stage(coming.pass.stage).gathered.at_once;
  }
  return gathers_[now];
}

// All updated parameters are requested at the start of the step, because they have memory of their own.
std::size_t PartGathers::in_flight() const {
  return lowering_.zero() < 3 ? coming_.size()
                              : static_cast<std::size_t>(std::max(1, lowering_.scenario.framework.gathers_in_flight));
}

std::size_t PartGathers::asked_ahead() const {
  const std::size_t most = in_flight();
  if (lowering_.zero() < 3 || most == 0) return most;
  return std::min(most - 1, static_cast<std::size_t>(std::max(0, lowering_.scenario.framework.gather_prefetch)));
}

}  // namespace panpipe
