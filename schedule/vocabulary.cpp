// The passes of a cut vocabulary in the order of a family that was published without them.
#include "schedule/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

constexpr const char* kVocabulary = "vocabulary";
constexpr const char* kBarriers = "vocabulary_barriers";

// Families of which the paper, or its code, says where the passes go: 1f1b and the V; a loop runs the same period per stage.
constexpr std::string_view kFamiliesOfShares[] = {"1f1b", "interleaved-1f1b", "1f1b-v", "v-half", "v-min"};

struct PlacedShare {
  double at = 0;
  Action action;
};

bool share_is_before(const PlacedShare& a, const PlacedShare& b) {
  return std::tuple(a.at, a.action.microbatch, a.action.kind) < std::tuple(b.at, b.action.microbatch, b.action.kind);
}

// Every forward of a row takes the place of the one `by` before it, so that a backward waits for the exchanges and the row does
// not. The rows must run their forwards in one order.
void run_forwards_ahead(Row& row, int by) {
  std::vector<Action> forwards;
  for (const Action& action : row)
    if (action.kind == ActionKind::F) forwards.push_back(action);
  const std::size_t first = std::min(forwards.size(), static_cast<std::size_t>(by));
  Row moved(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(first));
  std::size_t next = first;
  for (const Action& action : row) {
    if (action.kind != ActionKind::F)
      moved.push_back(action);
    else if (next < forwards.size())
      moved.push_back(forwards[next++]);
  }
  row = std::move(moved);
}

// When the passes of the first and the last stage run, by microbatch: start, end.
struct EndTimes {
  std::vector<std::pair<double, double>> first_forward, first_backward, last_forward, last_backward;

  EndTimes(const Schedule& schedule, const ScheduleEvaluation& evaluation) {
    using Of = VocabularyEnd::Of;
    const auto times = [&](ActionKind kind, Of of) { return VocabularyEnd{kind, of}.times(schedule, evaluation); };
    first_forward = times(ActionKind::F, Of::First);
    first_backward = times(ActionKind::B, Of::First);
    last_forward = times(ActionKind::F, Of::Last);
    last_backward = times(ActionKind::B, Of::Last);
  }
};

std::vector<std::size_t> in_order_of(const std::vector<std::pair<double, double>>& times,
                                     double std::pair<double, double>::*which) {
  std::vector<std::size_t> order(times.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return times[a].*which < times[b].*which; });
  return order;
}

// At times at which all that a pass needs has ended and nothing that needs it has begun: S follows the last stage's forward,
// and T goes with the next S; with two barriers both divide what lies before the backward, so that the exchanges are hidden. The
// embedding runs two microbatches ahead of its forward and its gradient two behind its backward, as in the paper.
std::vector<PlacedShare> share_places(const EndTimes& ends, int rank, double end, int barriers) {
  constexpr std::size_t kLead = 2;
  std::vector<PlacedShare> placed;
  const std::size_t count = ends.first_forward.size();
  const auto between = [&](std::size_t m, int part) {
    const double from = ends.last_forward[m].second;
    return from + (ends.last_backward[m].first - from) * part / (barriers + 1);
  };
  const auto add = [&](ActionKind kind, std::size_t m, double at) {
    placed.push_back({at, pass(kind, rank, static_cast<int>(m))});
  };
  // Searched orders need not run microbatches by their number.
  using Times = std::pair<double, double>;
  const std::vector<std::size_t> forwards = in_order_of(ends.first_forward, &Times::first),
                                 backwards = in_order_of(ends.first_backward, &Times::second),
                                 shares = in_order_of(ends.last_forward, &Times::second);
  for (std::size_t k = 0; k < count; ++k) {
    add(ActionKind::E, forwards[k], k < kLead ? -1 : ends.first_forward[forwards[k - kLead]].first);
    const std::size_t m = shares[k];
    add(ActionKind::S, m, between(m, barriers - 1));
    add(ActionKind::T, m, barriers == 2 ? between(m, 2) : k + 1 < count ? between(shares[k + 1], 0) : end);
    add(ActionKind::G, backwards[k], k + kLead < count ? ends.first_backward[backwards[k + kLead]].second : end);
  }
  std::sort(placed.begin(), placed.end(), share_is_before);
  return placed;
}

void insert_shares(Row& row, const std::vector<std::pair<double, double>>& times, const std::vector<PlacedShare>& placed) {
  Row merged;
  std::size_t next = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    while (row[i].group_size != 0 && next < placed.size() && placed[next].at <= times[i].first)
      merged.push_back(placed[next++].action);
    merged.push_back(row[i]);
  }
  for (; next < placed.size(); ++next) merged.push_back(placed[next].action);
  row = std::move(merged);
}

bool lies_in_loop(const Schedule& schedule) {
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.stage_to_rank[static_cast<std::size_t>(stage)] != stage % schedule.ranks) return false;
  return true;
}

}  // namespace

std::span<const std::string_view> vocabulary_families() { return kFamiliesOfShares; }

const std::vector<std::pair<std::string_view, std::string_view>>& vocabulary_options() {
  static const std::vector<std::pair<std::string_view, std::string_view>> options = {{kVocabulary, "whole"}, {kBarriers, "1"}};
  return options;
}

bool cuts_vocabulary(const ScheduleOptions& options) {
  const bool cut = word_option(options, kVocabulary, {"whole", "stages"}) == "stages";
  if (!cut && options.count(kBarriers) != 0)
    throw InputError(fmt::format("option '{}' is for a vocabulary that is cut", kBarriers), "add the option vocabulary: stages");
  return cut;
}

Schedule with_vocabulary_passes(Schedule base, std::string_view family, const ScheduleOptions& options) {
  if (std::find(std::begin(kFamiliesOfShares), std::end(kFamiliesOfShares), family) == std::end(kFamiliesOfShares))
    throw InputError(fmt::format("schedule {} has no place for the passes of a vocabulary that is cut over the stages: they are "
                                 "known for 1f1b, interleaved-1f1b, 1f1b-v, v-half and v-min",
                                 family),
                     "choose one of these, or leave the option vocabulary out");
  const int barriers = integer_option(options, kBarriers, 1, 1);
  if (barriers > 2) throw InputError(fmt::format("option '{}' must be 1 or 2, not {}", kBarriers, barriers));
  if (base.ranks == 1)
    throw InputError("a vocabulary is cut over the ranks of a pipeline, and there is one rank",
                     "leave the option vocabulary out");
  if (family == "1f1b") return vocabulary_1f1b(base.ranks, base.microbatches, barriers);
  if (lies_in_loop(base))
    for (Row& row : base.order) run_forwards_ahead(row, barriers);
  const ScheduleEvaluation evaluation = evaluate(base, {});
  const EndTimes ends(base, evaluation);
  for (int rank = 0; rank < base.ranks; ++rank)
    insert_shares(base.order[static_cast<std::size_t>(rank)], evaluation.times[static_cast<std::size_t>(rank)],
                  share_places(ends, rank, evaluation.makespan, barriers));
  base.vocabulary_barriers = barriers;
  return base;
}

}  // namespace panpipe
