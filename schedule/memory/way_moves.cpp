#include "schedule/memory/way_moves.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/cells.hpp"
#include "schedule/memory/parking.hpp"

namespace panpipe {
namespace {

constexpr int kFurthest = 12;

bool is_way(ActionKind kind) { return kind == ActionKind::R || is_copy(kind); }

class RowChange {
 public:
  RowChange(Row& row, const CellTimes& times, const MemoryLimit& limit, search::Random& random)
      : row_(row), times_(times), limit_(limit), random_(random) {}

  bool run() {
    const int choice = random_.below(10);
    if (choice < 5) return move_critical();
    if (choice < 6) return move(any());
    if (choice < 7) return stay();
    if (choice < 9) return stay() && leave();
    return leave();
  }

 private:
  int any() { return random_.below(static_cast<int>(row_.size())); }

  // A pass that starts when the one ahead of it ends: it moves ahead, or that one moves back.
  bool move_critical() {
    for (int tries = 0; tries < 8; ++tries) {
      const int at = any();
      if (at == 0 || !row_[index(at)].is_compute() || times_[index(at)].first > times_[index(at - 1)].second) continue;
      return random_.below(2) == 0 ? shift(at, -distance()) : shift(at - 1, distance());
    }
    return false;
  }

  bool move(int at) { return shift(at, random_.below(2) == 0 ? distance() : -distance()); }
  int distance() { return 1 + (random_.below(2) == 0 ? 0 : random_.below(kFurthest)); }

  // Stops at the actions of its own activation; takes an R along.
  bool shift(int at, int by) {
    int first = at, count = 1;
    if (starts_backward(row_[index(at)].kind) && at > 0 && row_[index(at - 1)].kind == ActionKind::R &&
        same_activation(row_[index(at)], row_[index(at - 1)]) && random_.below(2) == 0) {
      --first;
      ++count;
    }
    if (row_[index(at)].group_size != 1) return false;
    const auto free = [&](int other) {
      return other >= 0 && other < static_cast<int>(row_.size()) && row_[index(other)].group_size == 1 &&
             !same_activation(row_[index(other)], row_[index(at)]);
    };
    int moved = 0;
    while (moved < std::abs(by) && free(by < 0 ? first - 1 - moved : first + count + moved)) ++moved;
    if (moved == 0) return false;
    const auto place = [&](int i) { return row_.begin() + i; };
    if (by < 0)
      std::rotate(place(first - moved), place(first), place(first + count));
    else
      std::rotate(place(first), place(first + count), place(first + count + moved));
    return true;
  }

  // An activation that leaves stays instead.
  bool stay() {
    for (int tries = 0; tries < 16; ++tries) {
      const Action a = row_[index(any())];
      if (!is_way(a.kind)) continue;
      std::erase_if(row_, [&](const Action& other) { return is_way(other.kind) && same_activation(other, a); });
      return true;
    }
    return false;
  }

  // An activation that stays leaves, by R or to the host.
  bool leave() {
    for (int tries = 0; tries < 8; ++tries) {
      const Action a = row_[index(any())];
      if (!starts_backward(a.kind) || a.group_size != 1) continue;
      if (std::any_of(row_.begin(), row_.end(), [&](const Action& b) { return is_way(b.kind) && same_activation(a, b); }))
        continue;
      const bool copies = limit_.offload && (!limit_.recompute || random_.below(2) == 0);
      return copies ? add_copies(a) : limit_.recompute && add_recompute(a);
    }
    return false;
  }

  int find(const Action& like, bool backward) const {
    const auto it = std::find_if(row_.begin(), row_.end(), [&](const Action& b) {
      return same_activation(like, b) && (backward ? starts_backward(b.kind) : b.kind == ActionKind::F);
    });
    return static_cast<int>(it - row_.begin());
  }

  bool add_recompute(const Action& a) {
    int at = find(a, true);
    const int least = find(a, false) + 1;
    for (int back = random_.below(4); back > 0 && at > least && row_[index(at - 1)].group_size == 1; --back) --at;
    row_.insert(row_.begin() + at, with_kind(a, ActionKind::R));
    return true;
  }

  bool add_copies(const Action& a) {
    const int made = find(a, false), used = find(a, true);
    if (used < made + 3 || row_[index(made)].group_size != 1) return false;
    const int out = made + 1 + random_.below(std::min(4, used - made - 2));
    const int in = used - 1 - random_.below(std::min(4, used - 1 - out));
    for (const int at : {out, in})
      if (row_[index(at)].group_size == 0) return false;
    row_.insert(row_.begin() + in, with_kind(a, ActionKind::Reload));
    row_.insert(row_.begin() + out, with_kind(a, ActionKind::Offload));
    return true;
  }

  static std::size_t index(int at) { return static_cast<std::size_t>(at); }

  Row& row_;
  const CellTimes& times_;
  const MemoryLimit& limit_;
  search::Random& random_;
};

}  // namespace

bool change_row(Schedule& schedule, std::size_t rank, const ScheduleEvaluation& evaluation, const MemoryLimit& limit,
                search::Random& random) {
  if (schedule.order[rank].empty()) return false;
  return RowChange(schedule.order[rank], evaluation.times[rank], limit, random).run();
}

}  // namespace panpipe
