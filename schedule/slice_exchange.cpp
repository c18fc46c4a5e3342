#include "schedule/slice_exchange.hpp"

#include <algorithm>

#include "schedule/cells.hpp"

namespace panpipe {
namespace {

// Each rank's passes of one direction, in order.
std::vector<std::vector<Action>> passes_of(const Schedule& schedule, bool backward) {
  std::vector<std::vector<Action>> passes;
  for (const std::vector<Action>& row : schedule.order) {
    std::vector<Action>& of_rank = passes.emplace_back();
    for (const Action& action : row)
      if (backward ? starts_backward(action.kind) : action.kind == ActionKind::F) of_rank.push_back(action);
  }
  return passes;
}

}  // namespace

SliceExchange::SliceExchange(const Schedule& schedule)
    : stages_(schedule.stages), microbatches_(schedule.microbatches), splits_(schedule.splits) {
  const std::size_t places =
      static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_) * static_cast<std::size_t>(splits_);
  passes_.resize(2 * places);
  const int ranks = schedule.ranks;
  for (const bool backward : {false, true}) {
    const std::vector<std::vector<Action>> passes = passes_of(schedule, backward);
    const int total = static_cast<int>(passes.front().size());
    // A forward reaches each rank one pass after the rank before it, a gradient each rank one after the rank behind it. All ranks
    // have a pass from the time at which the last of them begins to that at which the first ends.
    for (int time = ranks - 1; time < total; ++time) {
      std::vector<Action> now;
      for (int rank = 0; rank < ranks; ++rank) now.push_back(passes[rank][time - (backward ? ranks - 1 - rank : rank)]);
      std::vector<int> by_slice(now.size());
      for (int rank = 0; rank < ranks; ++rank) by_slice[rank] = rank;
      std::sort(by_slice.begin(), by_slice.end(), [&](int a, int b) { return now[a].split < now[b].split; });
      for (int k = 0; k < ranks / 2; ++k) {
        const int few = by_slice[k], many = by_slice[ranks - 1 - k];
        const int moved = (now[many].split - now[few].split) / 2;
        if (moved == 0) continue;
        passes_[place(now[few])] = {many, now[many], moved};
        passes_[place(now[many])] = {few, now[few], -moved};
      }
    }
  }
}

std::size_t SliceExchange::place(const Action& pass) const {
  const std::size_t stage =
      static_cast<std::size_t>(pass.stage) + (starts_backward(pass.kind) ? static_cast<std::size_t>(stages_) : 0);
  return (stage * static_cast<std::size_t>(microbatches_) + static_cast<std::size_t>(pass.microbatch)) *
             static_cast<std::size_t>(splits_) +
         static_cast<std::size_t>(std::max<int>(pass.split, 0));
}

const SharedAttention* SliceExchange::of(const Action& pass) const {
  if (passes_.empty() || (pass.kind != ActionKind::F && !starts_backward(pass.kind))) return nullptr;
  const SharedAttention& shared = passes_[place(pass)];
  return shared.rank < 0 ? nullptr : &shared;
}

bool exchanges_attention(std::string_view family, const ScheduleOptions& options) {
  const auto stated = options.find("exchange");
  return family == "slimpipe" && (stated == options.end() || stated->second == "on");
}

SliceExchange exchange_of(const Schedule& schedule, const ScheduleOptions& options) {
  const bool on = exchanges_attention(schedule.name, options);
  return on && schedule.ranks > 1 && schedule.splits > 1 ? SliceExchange(schedule) : SliceExchange();
}

}  // namespace panpipe
