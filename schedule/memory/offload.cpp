// Places offloads and reloads, planned on the times of the order without them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "schedule/cells.hpp"
#include "schedule/memory/copy_slots.hpp"
#include "schedule/memory/memory_actions.hpp"
#include "schedule/memory/parking.hpp"
#include "schedule/order_building.hpp"
#include "schedule/pass_costs.hpp"

namespace panpipe {
namespace {

// A tensor that may be parked: made in one cell, used in a later one.
struct Stay {
  Action pass;                     // stage and microbatch
  std::size_t made = 0, used = 0;  // cells
  double from = 0, until = 0;      // end of the cell that makes it, start of the one that uses it
  double away = 0, back = 0;       // how long the copies take
  std::size_t rank = 0;
  double life() const { return until - from; }
};

class RankOffloads {
 public:
  RankOffloads(const Row& row, const CellTimes& times, const PassCosts& costs, bool staggered, CopySlots& slots)
      : row_(row), cells_(cells_of(row, times)), costs_(costs), staggered_(staggered), slots_(slots) {}

  // Activations (for recomputed stages their inputs) between F and R or the backward; `waiting`: also the part from I to W.
  std::vector<Stay> stays(bool waiting) const {
    std::vector<Stay> all;
    std::map<std::tuple<int, int, int>, std::size_t> open, opened;  // into `all`, by place
    std::set<std::tuple<int, int, int>> recomputed;
    for (const Action& a : row_)
      if (a.kind == ActionKind::R) recomputed.emplace(a.stage, a.microbatch, a.split);
    const auto close = [&](std::size_t stay, std::size_t cell) {
      if (all[stay].used != all[stay].made) return;  // R has used it before
      all[stay].used = cell;
      all[stay].until = cells_[cell].start;
    };
    const double away = cost_of(ActionKind::Offload, costs_), back = cost_of(ActionKind::Reload, costs_);
    for (std::size_t c = 0; c < cells_.size(); ++c)
      for (std::size_t i = cells_[c].first; i < cells_[c].end; ++i) {
        const Action& a = row_[i];
        const std::tuple<int, int, int> place{a.stage, a.microbatch, a.split};
        const double over = cells_[c].over;
        if (a.kind == ActionKind::F) {
          const double share = recomputed.count(place) != 0 ? 0 : 1;
          open[place] = all.size();
          all.push_back({with_kind(a, ActionKind::F), c, c, over, over, share * away, share * back});
        } else if (starts_backward(a.kind) || a.kind == ActionKind::R) {
          close(open.at(place), c);
          if (!waiting || a.kind != ActionKind::I) continue;
          opened[place] = all.size();
          all.push_back({with_kind(a, ActionKind::I), c, c, over, over, costs_.waiting * away, costs_.waiting * back});
        } else if (a.kind == ActionKind::W && waiting) {
          close(opened.at(place), c);
        }
      }
    return all;
  }

  // The rank's stages whose activations live at least as long as the rank's mean.
  static std::set<int> long_lived_stages(const std::vector<Stay>& stays) {
    std::map<int, double> sum, count;
    double all = 0, number = 0;
    for (const Stay& stay : stays) {
      if (stay.pass.kind != ActionKind::F) continue;
      sum[stay.pass.stage] += stay.life();
      count[stay.pass.stage] += 1;
      all += stay.life();
      ++number;
    }
    std::set<int> stages;
    for (const auto& [stage, total] : sum)
      if (total / count[stage] >= all / number * (1 - 1e-9)) stages.insert(stage);
    return stages;
  }

  bool place_hidden(const Stay& stay) {
    const auto away = first_slot(stay);
    if (!away) return false;
    slots_.take(*away, stay.away);
    const auto back = last_slot(stay, *away + stay.away);
    if (!back) {
      slots_.give_back(*away);
      return false;
    }
    slots_.take(*back, stay.back);
    add(stay, cell_before(*away, stay.made, stay.used - 2), *away, cell_before(*back, stay.made, stay.used - 2), *back);
    return true;
  }

  void place_anyway(const Stay& stay) {
    std::size_t ahead = stay.used - 2;
    while (ahead > stay.made && stay.until - cells_[ahead].over < stay.back) --ahead;
    add(stay, stay.made, stay.from, ahead, std::max(cells_[ahead].over, stay.from + stay.away));
  }

  Row with_copies() const { return woven(row_, cells_, copies_); }

 private:
  // With staggering a copy starts when a cell of its own rank ends; otherwise it would start early, in the slot of another rank.
  std::optional<double> first_slot(const Stay& stay) const {
    const double until = stay.until - stay.back;
    if (!staggered_) return slots_.first(stay.away, stay.from, until);
    for (std::size_t c = stay.made; c + 2 <= stay.used && cells_[c].over + stay.away <= until; ++c)
      if (slots_.first(stay.away, cells_[c].over, cells_[c].over + stay.away)) return cells_[c].over;
    return std::nullopt;
  }

  // Ahead of the cell before the use, so that it runs while that cell does; else as late as it can be.
  std::optional<double> last_slot(const Stay& stay, double from) const {
    if (!staggered_) {
      const double latest = std::min(stay.until, std::max(cells_[stay.used - 2].over + stay.back, from + stay.back));
      const auto back = slots_.last(stay.back, from, latest);
      return back ? back : slots_.last(stay.back, from, stay.until);
    }
    for (std::size_t c = stay.used - 2; c + 1 > stay.made && cells_[c].over >= from; --c) {
      const double end = cells_[c].over + stay.back;
      if (end <= stay.until && slots_.first(stay.back, cells_[c].over, end)) return cells_[c].over;
      if (c == 0) break;
    }
    return std::nullopt;
  }

  // Cell after whose end a copy that starts at `start` is issued.
  std::size_t cell_before(double start, std::size_t least, std::size_t most) const {
    std::size_t cell = least;
    while (cell < most && cells_[cell + 1].over <= start + 1e-9 * std::max(1.0, start)) ++cell;
    return cell;
  }

  void add(const Stay& stay, std::size_t away_after, double away, std::size_t back_after, double back) {
    copies_.push_back({away_after + 1, away, with_kind(stay.pass, ActionKind::Offload)});
    copies_.push_back({back_after + 1, back, with_kind(stay.pass, ActionKind::Reload)});
  }

  const Row& row_;
  std::vector<Cell> cells_;
  const PassCosts& costs_;
  bool staggered_;
  CopySlots& slots_;  // of the way to the host
  std::vector<AddedAction> copies_;
};

}  // namespace

Schedule add_offload(const Schedule& schedule, const PassCosts& costs, const OffloadRequest& request) {
  if (const Action* own = find_action(schedule, [](ActionKind kind) { return kind == ActionKind::Offload; }))
    throw InputError(fmt::format("the order has memory actions of its own ({})", to_text(*own)));
  const ScheduleEvaluation evaluation = evaluate(schedule, costs);
  const auto together = static_cast<std::size_t>(std::max(1, request.stagger));
  const bool full = request.choice == OffloadRequest::Choice::Full;
  Schedule result = schedule;
  result.empty_cells.clear();
  for (std::size_t first = 0; first < schedule.order.size(); first += together) {
    const std::size_t end = std::min(schedule.order.size(), first + together);
    CopySlots slots;  // of the way to the host that these ranks share
    std::vector<RankOffloads> ranks;
    std::vector<Stay> candidates;
    for (std::size_t rank = first; rank < end; ++rank) {
      ranks.emplace_back(schedule.order[rank], evaluation.times[rank], costs, together > 1, slots);
      const std::vector<Stay> stays = ranks.back().stays(request.waiting);
      const std::set<int> stages = RankOffloads::long_lived_stages(stays);
      for (const Stay& stay : stays) {
        // A reload stands at least one cell ahead of its use.
        if (stay.life() < stay.away + stay.back || stay.used < stay.made + 2) continue;
        if (!full && stay.pass.kind == ActionKind::F && stages.count(stay.pass.stage) == 0) continue;
        candidates.push_back(stay);
        candidates.back().rank = rank - first;
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Stay& a, const Stay& b) { return a.life() > b.life(); });
    for (const Stay& stay : candidates)
      if (!ranks[stay.rank].place_hidden(stay) && full) ranks[stay.rank].place_anyway(stay);
    for (std::size_t rank = first; rank < end; ++rank) result.order[rank] = ranks[rank - first].with_copies();
  }
  return result;
}

}  // namespace panpipe
