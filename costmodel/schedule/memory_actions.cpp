#include "costmodel/schedule/memory_actions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "costmodel/base/error.hpp"
#include "costmodel/schedule/copy_slots.hpp"
#include "costmodel/schedule/pass_costs.hpp"

namespace panpipe {
namespace {

using Row = std::vector<Action>;
using Times = std::vector<std::pair<double, double>>;

bool starts_backward(ActionKind kind) { return kind == ActionKind::B || kind == ActionKind::I; }

Action with_kind(const Action& like, ActionKind kind) {
  Action action;
  action.kind = kind;
  action.stage = like.stage;
  action.microbatch = like.microbatch;
  action.split = like.split;
  return action;
}

void refuse_other_copies(const Schedule& schedule, ActionKind kind) {
  for (const Row& row : schedule.order)
    for (const Action& action : row)
      if (action.kind == kind || action.kind == ActionKind::Offload ||
          (kind == ActionKind::Offload && action.kind == ActionKind::R))
        throw InputError(fmt::format("the order has memory actions of its own ({})", to_text(action)));
}

// A cell of a row: a lone action or a group.
struct Cell {
  std::size_t first = 0, end = 0;
  double start = 0, over = 0;  // time
};

std::vector<Cell> cells_of(const Row& row, const Times& times) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < row.size();) {
    const std::size_t end = i + std::max<std::size_t>(1, row[i].group_size);
    cells.push_back({i, end, times[i].first, times[end - 1].second});
    i = end;
  }
  return cells;
}

// --- recompute ---

Row with_recomputes(const Row& row) {
  Row result;
  for (std::size_t i = 0; i < row.size();) {
    const std::size_t end = i + std::max<std::size_t>(1, row[i].group_size);
    for (std::size_t member = i; member < end; ++member)
      if (starts_backward(row[member].kind)) result.push_back(with_kind(row[member], ActionKind::R));
    for (; i < end; ++i) result.push_back(row[i]);
  }
  return result;
}

// Where a backward waits for nothing but its R, and the rank waited before the cell ahead of R for as long as R takes, the two
// change places.
Row with_earlier_recomputes(const Row& row, const Times& times, double cost) {
  const std::vector<Cell> cells = cells_of(row, times);
  std::vector<Cell> order = cells;
  for (std::size_t k = 1; k + 1 < cells.size(); ++k) {
    const Cell &ahead = cells[k - 1], &own = cells[k], &backward = cells[k + 1];
    if (row[own.first].kind != ActionKind::R || !row[ahead.first].is_compute()) continue;
    const double before = k >= 2 ? cells[k - 2].over : 0;
    if (backward.start > own.over || ahead.start - before < cost) continue;
    const Action& recompute = row[own.first];
    bool bound = false;
    for (std::size_t i = ahead.first; i < ahead.end; ++i)
      bound |= row[i].kind == ActionKind::R ||
               (row[i].stage == recompute.stage && row[i].microbatch == recompute.microbatch && row[i].split == recompute.split);
    if (!bound) std::swap(order[k - 1], order[k]);
  }
  Row result;
  for (const Cell& cell : order)
    result.insert(result.end(), row.begin() + static_cast<std::ptrdiff_t>(cell.first),
                  row.begin() + static_cast<std::ptrdiff_t>(cell.end));
  return result;
}

// --- offload ---

// An activation on its rank: made in one cell, used in a later one.
struct Activation {
  Action forward;
  std::size_t made = 0, used = 0;  // cells
  double from = 0, until = 0;      // end of its forward, start of its backward
  double life() const { return until - from; }
};

class Offloads {
 public:
  Offloads(const Row& row, const Times& times, const PassCosts& costs)
      : row_(row),
        cells_(cells_of(row, times)),
        away_(cost_of(ActionKind::Offload, costs)),
        back_(cost_of(ActionKind::Reload, costs)) {
    find_activations();
  }

  Row run(OffloadChoice choice) {
    std::stable_sort(activations_.begin(), activations_.end(), [](const auto& a, const auto& b) { return a.life() > b.life(); });
    const std::set<int> stages = long_lived_stages();
    for (const Activation& a : activations_) {
      // A reload stands at least one cell ahead of its use.
      if (a.life() < away_ + back_ || a.used < a.made + 2) continue;
      if (choice == OffloadChoice::Selective && stages.count(a.forward.stage) == 0) continue;
      if (!place_hidden(a) && choice == OffloadChoice::Full) place_anyway(a);
    }
    return woven();
  }

 private:
  // A copy that starts after cell `after` is done; of those, the planned start orders them.
  struct Copy {
    std::size_t after = 0;
    double start = 0;
    Action action;
  };

  void find_activations() {
    std::map<std::tuple<int, int, int>, std::size_t> open;  // into activations_
    for (std::size_t c = 0; c < cells_.size(); ++c)
      for (std::size_t i = cells_[c].first; i < cells_[c].end; ++i) {
        const Action& a = row_[i];
        const std::tuple<int, int, int> place{a.stage, a.microbatch, a.split};
        if (a.kind == ActionKind::F) {
          open[place] = activations_.size();
          activations_.push_back({with_kind(a, ActionKind::F), c, c, cells_[c].over, cells_[c].over});
        } else if (starts_backward(a.kind)) {
          activations_[open.at(place)].used = c;
          activations_[open.at(place)].until = cells_[c].start;
        }
      }
  }

  // The rank's stages whose activations live at least as long as the rank's mean.
  std::set<int> long_lived_stages() const {
    std::map<int, double> sum, count;
    double all = 0;
    for (const Activation& a : activations_) {
      sum[a.forward.stage] += a.life();
      count[a.forward.stage] += 1;
      all += a.life();
    }
    std::set<int> stages;
    for (const auto& [stage, total] : sum)
      if (total / count[stage] >= all / static_cast<double>(activations_.size()) * (1 - 1e-9)) stages.insert(stage);
    return stages;
  }

  // Cell after whose end a copy that starts at `start` is issued.
  std::size_t cell_before(double start, std::size_t least, std::size_t most) const {
    std::size_t cell = least;
    while (cell < most && cells_[cell + 1].over <= start + 1e-9 * std::max(1.0, start)) ++cell;
    return cell;
  }

  bool place_hidden(const Activation& a) {
    const auto away = slots_.first(away_, a.from, a.until - back_);
    if (!away) return false;
    slots_.take(*away, away_);
    // Ahead of the cell before the backward, so that it runs while that cell does.
    const double latest = std::min(a.until, std::max(cells_[a.used - 2].over + back_, *away + away_ + back_));
    auto back = slots_.last(back_, *away + away_, latest);
    if (!back) back = slots_.last(back_, *away + away_, a.until);
    if (!back) {
      slots_.give_back(*away);
      return false;
    }
    slots_.take(*back, back_);
    copies_.push_back({cell_before(*away, a.made, a.used - 2), *away, with_kind(a.forward, ActionKind::Offload)});
    copies_.push_back({cell_before(*back, a.made, a.used - 2), *back, with_kind(a.forward, ActionKind::Reload)});
    return true;
  }

  void place_anyway(const Activation& a) {
    std::size_t ahead = a.used - 2;
    while (ahead > a.made && a.until - cells_[ahead].over < back_) --ahead;
    copies_.push_back({a.made, a.from, with_kind(a.forward, ActionKind::Offload)});
    copies_.push_back({ahead, std::max(cells_[ahead].over, a.from + away_), with_kind(a.forward, ActionKind::Reload)});
  }

  Row woven() {
    std::stable_sort(copies_.begin(), copies_.end(),
                     [](const Copy& a, const Copy& b) { return a.after != b.after ? a.after < b.after : a.start < b.start; });
    Row result;
    std::size_t next = 0;
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      for (std::size_t i = cells_[c].first; i < cells_[c].end; ++i) result.push_back(row_[i]);
      for (; next < copies_.size() && copies_[next].after == c; ++next) result.push_back(copies_[next].action);
    }
    return result;
  }

  const Row& row_;
  std::vector<Cell> cells_;
  double away_, back_;
  std::vector<Activation> activations_;
  CopySlots slots_;
  std::vector<Copy> copies_;
};

std::string taken(ScheduleOptions& options, const std::string& key, std::initializer_list<const char*> allowed) {
  const auto found = options.find(key);
  if (found == options.end()) return "none";
  const std::string value = found->second;
  options.erase(found);
  for (const char* known : allowed)
    if (value == known) return value;
  throw InputError(fmt::format("option '{}' of a schedule must be one of {}, not '{}'", key,
                               fmt::join(allowed.begin(), allowed.end(), ", "), value));
}

}  // namespace

const std::vector<std::pair<std::string_view, std::string_view>>& memory_options() {
  static const std::vector<std::pair<std::string_view, std::string_view>> options = {{"recompute", "none"}, {"offload", "none"}};
  return options;
}

Schedule apply_memory_options(Schedule schedule, ScheduleOptions& options, const PassCosts& costs) {
  const std::string recompute = taken(options, "recompute", {"none", "full"});
  const std::string offload = taken(options, "offload", {"none", "selective", "full"});
  if (recompute != "none" && offload != "none")
    throw InputError(
        "options 'recompute' and 'offload' exclude each other: what is recomputed is not kept, so nothing is offloaded");
  if (recompute == "none" && offload == "none") return schedule;
  if (!check_schedule(schedule).empty()) return schedule;  // whoever asked is told what is wrong with the order
  if (recompute == "full") return add_recompute(schedule, costs);
  return add_offload(schedule, costs, offload == "full" ? OffloadChoice::Full : OffloadChoice::Selective);
}

Schedule add_recompute(const Schedule& schedule, const PassCosts& costs) {
  refuse_other_copies(schedule, ActionKind::R);
  Schedule plain = schedule;
  plain.empty_cells.clear();
  for (Row& row : plain.order) row = with_recomputes(row);
  const ScheduleEvaluation evaluation = evaluate(plain, costs);
  Schedule early = plain;
  for (std::size_t rank = 0; rank < plain.order.size(); ++rank)
    early.order[rank] = with_earlier_recomputes(plain.order[rank], evaluation.times[rank], costs.F);
  if (early.order == plain.order || evaluate(early, costs).makespan >= evaluation.makespan) return plain;
  return early;
}

Schedule add_offload(const Schedule& schedule, const PassCosts& costs, OffloadChoice choice) {
  refuse_other_copies(schedule, ActionKind::Offload);
  const ScheduleEvaluation evaluation = evaluate(schedule, costs);
  Schedule result = schedule;
  result.empty_cells.clear();
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)
    result.order[rank] = Offloads(schedule.order[rank], evaluation.times[rank], costs).run(choice);
  return result;
}

}  // namespace panpipe
