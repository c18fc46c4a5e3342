#include "schedule/activations.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>

namespace panpipe {
namespace {

struct Change {
  double at = 0, by = 0;
};

using Times = std::vector<std::pair<double, double>>;

// Changes made by passes, in row order (which is time order), and by copies, likewise.
class Changes {
 public:
  Changes(const std::vector<Action>& row, const Times& times, const std::vector<double>& sizes)
      : row_(row), times_(times), sizes_(sizes) {
    for (const Action& action : row) {
      if (action.kind == ActionKind::R) recomputed_.emplace(action.stage, action.microbatch, action.split);
      if (ends_activation(action.kind)) with_backwards_.insert(action.stage);
    }
    passes_.reserve(row.size());
    for (std::size_t i = 0; i < row.size();) i = add_unit(i);
  }

  ActivationCurve curve() const {
    ActivationCurve result;
    result.levels.emplace_back(0, 0);
    double live = 0;
    const auto apply = [&](const Change& change) {
      live += change.by;
      result.peak = std::max(result.peak, live);
      if (result.levels.back().first == change.at) {
        result.levels.back().second = live;
      } else {
        result.levels.emplace_back(change.at, live);
      }
    };
    std::size_t p = 0, c = 0;
    while (p < passes_.size() || c < copies_.size()) {
      // At one instant what goes comes first: memory handed from one lane to the other is not counted twice.
      const bool copy = p == passes_.size() || (c < copies_.size() && before(copies_[c], passes_[p]));
      apply(copy ? copies_[c++] : passes_[p++]);
    }
    return result;
  }

 private:
  static bool before(const Change& a, const Change& b) { return a.at != b.at ? a.at < b.at : a.by < b.by; }

  // A lone action, or the members of a group that run at once.
  std::size_t add_unit(std::size_t first) {
    std::size_t end = first + 1;
    while (end < row_.size() && row_[end].group_size == 0 && times_[end] == times_[first]) ++end;
    for (std::size_t i = first; i < end; ++i) {
      const ActionKind kind = row_[i].kind;
      if (kind == ActionKind::F || kind == ActionKind::R) passes_.push_back({times_[i].first, size(row_[i])});
      if (kind == ActionKind::Reload && counts(row_[i])) copies_.push_back({times_[i].first, size(row_[i])});
    }
    for (std::size_t i = first; i < end; ++i) {
      const ActionKind kind = row_[i].kind;
      if (ends_activation(kind) || (kind == ActionKind::F && leaves_nothing(row_[i])))
        passes_.push_back({times_[i].second, -size(row_[i])});
      if (kind == ActionKind::Offload && counts(row_[i])) copies_.push_back({times_[i].second, -size(row_[i])});
      if (kind == ActionKind::I && is_recomputed(row_[i])) waiting_.emplace(row_[i].stage, row_[i].microbatch, row_[i].split);
    }
    return end;
  }

  double size(const Action& a) const { return sizes_.empty() ? 1 : sizes_[static_cast<std::size_t>(a.stage)]; }

  static bool ends_activation(ActionKind kind) { return kind == ActionKind::B || kind == ActionKind::W; }

  // Another stage, or R, makes the activation again.
  bool leaves_nothing(const Action& forward) const { return is_recomputed(forward) || with_backwards_.count(forward.stage) == 0; }

  bool is_recomputed(const Action& a) const {
    return !recomputed_.empty() && recomputed_.count({a.stage, a.microbatch, a.split}) != 0;
  }

  // Stage inputs parked before R do not count, but the part that waits for W after I does.
  bool counts(const Action& copy) const {
    return !is_recomputed(copy) || waiting_.count({copy.stage, copy.microbatch, copy.split}) != 0;
  }

  const std::vector<Action>& row_;
  const Times& times_;
  const std::vector<double>& sizes_;
  std::set<std::tuple<std::int32_t, std::int32_t, std::int8_t>> recomputed_, waiting_;
  std::set<std::int32_t> with_backwards_;
  std::vector<Change> passes_, copies_;
};

}  // namespace

std::vector<ActivationCurve> activation_curves(const Schedule& schedule, const ScheduleEvaluation& evaluation,
                                               const std::vector<double>& sizes) {
  std::vector<ActivationCurve> curves;
  curves.reserve(schedule.order.size());
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)
    curves.push_back(Changes(schedule.order[rank], evaluation.times[rank], sizes).curve());
  return curves;
}

}  // namespace panpipe
