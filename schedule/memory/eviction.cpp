#include "schedule/memory/eviction.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "schedule/cells.hpp"
#include "schedule/memory/copy_slots.hpp"
#include "schedule/memory/parking.hpp"
#include "schedule/order_building.hpp"
#include "schedule/pass_costs.hpp"

namespace panpipe {
namespace {

// An activation's way through its rank: the cells of its passes, and the times between which it can be away.
struct Life {
  Action like;
  std::size_t made = 0, used = 0, freed = 0;  // cells of F, of R or the backward, and of W or the whole backward
  double from = 0, until = 0;                 // end of F, start of the first use
  bool away = false;                          // in that time
};

// What happens to the level of a rank: one more at the start of F, R and RELOAD, one less at the end of F before an R, of
// OFFLOAD, and of the last backward.
struct Change {
  double at = 0;
  int by = 0;
  std::size_t life = 0;
  bool operator>(const Change& other) const { return at != other.at ? at > other.at : by > other.by; }
};

class RankEviction {
 public:
  RankEviction(Row& row, const CellTimes& times, const PassCosts& costs, const MemoryLimit& limit, int most)
      : row_(row), cells_(cells_of(row, times)), costs_(costs), limit_(limit), most_(most) {
    for (std::size_t c = 0; c < cells_.size(); ++c)
      for (std::size_t i = cells_[c].first; i < cells_[c].end; ++i) note(row_[i], c);
  }

  // True if the row has changed.
  bool run() {
    int level = 0;
    while (!changes_.empty()) {
      const Change change = changes_.top();
      changes_.pop();
      if (change.by > 0 && level + change.by > most_) {
        if (const auto leaving = last_used(change.at)) {
          leave(*leaving, change.at);
          --level;
        } else {
          return added_.empty() ? reorder(change) : weave();
        }
      }
      level += change.by;
    }
    return !added_.empty() && weave();
  }

 private:
  std::size_t life_of(const Action& a) { return by_place_.at({a.stage, a.microbatch, a.split}); }

  void note(const Action& a, std::size_t c) {
    const Cell& cell = cells_[c];
    if (a.kind == ActionKind::F) {
      by_place_[{a.stage, a.microbatch, a.split}] = lives_.size();
      lives_.push_back({with_kind(a, ActionKind::F), c, c, c, cell.over, cell.over, false});
      changes_.push({cell.start, +1, lives_.size() - 1});
    } else if (a.kind == ActionKind::R || starts_backward(a.kind)) {
      Life& life = lives_[life_of(a)];
      if (a.kind == ActionKind::R) {
        life.away = true;
        changes_.push({life.from, -1, life_of(a)});
        changes_.push({cell.start, +1, life_of(a)});
      }
      if (life.used == life.made) {
        life.used = c;
        life.until = cell.start;
      }
      if (a.kind == ActionKind::B) end(life_of(a), c);
    } else if (a.kind == ActionKind::W) {
      end(life_of(a), c);
    } else if (is_copy(a.kind)) {
      const bool out = a.kind == ActionKind::Offload;
      lives_[life_of(a)].away = true;
      changes_.push({out ? cell.over : cell.start, out ? -1 : +1, life_of(a)});
      slots_.take(cell.start, cell.over - cell.start);
    }
  }

  void end(std::size_t life, std::size_t c) {
    lives_[life].freed = c;
    changes_.push({cells_[c].over, -1, life});
  }

  // Of the activations that wait at `now` for their backward, the one whose backward comes last.
  std::optional<std::size_t> last_used(double now) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const Life& life = lives_[i];
      if (life.away || life.from > now || life.until <= now) continue;
      if (!limit_.recompute && !slots_for(life, now)) continue;
      if (!best || life.until > lives_[*best].until) best = i;
    }
    return best;
  }

  struct Slots {
    double away = 0, back = 0;
  };
  // The first copy must be done at `now`; the second at the use, and it is issued a cell before it.
  std::optional<Slots> slots_for(const Life& life, double now) {
    if (!limit_.offload || life.used < life.made + 2) return std::nullopt;
    const double out = cost_of(ActionKind::Offload, costs_), in = cost_of(ActionKind::Reload, costs_);
    const auto away = slots_.first(out, life.from, now);
    if (!away) return std::nullopt;
    slots_.take(*away, out);
    const auto back = slots_.last(in, std::max(now, *away + out), life.until);
    slots_.give_back(*away);
    if (!back) return std::nullopt;
    return Slots{*away, *back};
  }

  void leave(std::size_t index, double now) {
    Life& life = lives_[index];
    life.away = true;
    if (const auto slots = slots_for(life, now)) {
      slots_.take(slots->away, cost_of(ActionKind::Offload, costs_));
      slots_.take(slots->back, cost_of(ActionKind::Reload, costs_));
      added_.push_back(
          {cell_at(slots->away, life.made + 1, life.used - 1), slots->away, with_kind(life.like, ActionKind::Offload)});
      added_.push_back(
          {cell_at(slots->back, life.made + 1, life.used - 1), slots->back, with_kind(life.like, ActionKind::Reload)});
      changes_.push({slots->back, +1, index});
      return;
    }
    added_.push_back({life.used, life.until, with_kind(life.like, ActionKind::R)});
    changes_.push({std::max(now, life.until - cost_of(with_kind(life.like, ActionKind::R), costs_)), +1, index});
  }

  // The cell in front of which an action that starts at `start` stands.
  std::size_t cell_at(double start, std::size_t least, std::size_t most) const {
    std::size_t cell = least;
    while (cell < most && cells_[cell].over <= start) ++cell;
    return cell;
  }

  bool weave() {
    row_ = woven(row_, cells_, std::move(added_));
    return true;
  }

  // The change would exceed the limit, and nothing can leave: an activation that waits for its W then ends sooner, else the last
  // forward comes after the next activation that ends.
  bool reorder(const Change& change) {
    const Life& life = lives_[change.life];
    const std::size_t now = change.at < life.from ? life.made : life.used;
    for (std::size_t c = 0; c < now; ++c) {
      const Action& a = row_[cells_[c].first];
      if (a.kind != ActionKind::I || cells_[c].end - cells_[c].first > 1) continue;
      const std::size_t freed = lives_[life_of(a)].freed;
      if (freed > now && cells_[freed].end - cells_[freed].first == 1) return move_cell(freed, c + 1);
    }
    for (std::size_t at = now + 1; at-- > 0;)
      if (row_[cells_[at].first].kind == ActionKind::F)
        for (std::size_t c = at + 1; c < cells_.size() && !same_activation(at, c); ++c)
          if (const ActionKind kind = row_[cells_[c].first].kind; kind == ActionKind::B || kind == ActionKind::W)
            return move_cell(at, c);
    return false;
  }

  bool same_activation(std::size_t one, std::size_t other) const {
    const Action& forward = row_[cells_[one].first];
    for (std::size_t i = cells_[other].first; i < cells_[other].end; ++i)
      if (row_[i].microbatch == forward.microbatch && row_[i].stage == forward.stage) return true;
    return false;
  }

  bool move_cell(std::size_t from, std::size_t to) {
    const auto place = [&](std::size_t c) { return row_.begin() + static_cast<std::ptrdiff_t>(c); };
    if (from > to) std::rotate(place(cells_[to].first), place(cells_[from].first), place(cells_[from].end));
    if (from < to) std::rotate(place(cells_[from].first), place(cells_[from].end), place(cells_[to].end));
    return from != to;
  }

  Row& row_;
  std::vector<Cell> cells_;
  const PassCosts& costs_;
  const MemoryLimit& limit_;
  int most_;  // activations that the rank may hold
  std::map<std::tuple<int, int, int>, std::size_t> by_place_;
  std::vector<Life> lives_;
  std::priority_queue<Change, std::vector<Change>, std::greater<>> changes_;
  std::vector<AddedAction> added_;
  CopySlots slots_;
};

}  // namespace

bool evict(Schedule& schedule, const ScheduleEvaluation& evaluation, const PassCosts& costs, const MemoryLimit& limit) {
  bool changed = false;
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)
    if (const int most = limit.activations[rank]; evaluation.peak_activations[rank] > most)
      changed |= RankEviction(schedule.order[rank], evaluation.times[rank], costs, limit, most).run();
  return changed;
}

}  // namespace panpipe
