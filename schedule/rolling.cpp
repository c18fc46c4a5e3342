#include "schedule/rolling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

constexpr std::string_view kStaleFamily = "pipedream-2bw";

void append(Row& row, const Row& part, int microbatches) {
  for (Action action : part) {
    if (action.microbatch >= 0) action.microbatch += microbatches;
    row.push_back(action);
  }
}

Action update() {
  Action action;
  action.kind = ActionKind::Opt;
  return action;
}

// A row of whole backwards: the forwards ahead of the first backward but one, each with what follows it; what one forward and one
// backward fill in turn; and the backwards that no forward follows, each with what comes before it.
struct RowParts {
  std::vector<Row> head, tail;
  Row steady;
};

RowParts parts_of(const Row& row) {
  const auto is = [&](ActionKind kind) { return [kind](const Action& action) { return action.kind == kind; }; };
  const auto first_backward = std::find_if(row.begin(), row.end(), is(ActionKind::B));
  const auto ahead = std::count_if(row.begin(), first_backward, is(ActionKind::F)) - 1;
  RowParts parts;
  auto next = row.begin();
  for (std::ptrdiff_t forwards = 0; next != first_backward; ++next) {
    const bool forward = next->kind == ActionKind::F;
    if (forward && forwards == ahead) break;
    if (parts.head.empty() || (forward && forwards > 0)) parts.head.emplace_back();
    forwards += forward;
    parts.head.back().push_back(*next);
  }
  // From the end: so many backwards as forwards are ahead.
  auto end = row.end();
  for (std::ptrdiff_t taken = 0; taken < ahead; ++taken) {
    auto begin = end - 1;
    while (begin->kind != ActionKind::B) --begin;
    while (begin != next && (begin - 1)->kind != ActionKind::B) --begin;
    parts.tail.insert(parts.tail.begin(), Row(begin, end));
    end = begin;
  }
  parts.steady = Row(next, end);
  return parts;
}

Row stale_row(const Row& row, int microbatches, bool from_idle, bool drains) {
  const RowParts parts = parts_of(row);
  Row all;
  for (std::size_t k = 0; from_idle && k < parts.head.size(); ++k) append(all, parts.head[k], 0);
  append(all, parts.steady, 0);
  for (std::size_t k = 0; k < parts.tail.size(); ++k) {
    if (!drains) append(all, parts.head[k], microbatches);
    append(all, parts.tail[k], 0);
  }
  return all;
}

// With more than two versions: the row of all steps is 1F1B's, with an update behind the backwards of each step. R stays before
// its backward.
Row row_of_steps(const Schedule& schedule, int rank, int steps) {
  const Row& one = schedule.order[static_cast<std::size_t>(rank)];
  const bool recomputes = std::any_of(one.begin(), one.end(), [](const Action& a) { return a.kind == ActionKind::R; });
  if (std::any_of(one.begin(), one.end(), [](const Action& a) { return a.kind == ActionKind::Offload; }))
    throw InputError(
        fmt::format("{} has no place for copies to the host with fewer microbatches in a step than ranks: {}, not {}",
                    schedule.name, schedule.ranks, schedule.microbatches),
        "leave the option offload out, or take more microbatches");
  const int all = schedule.microbatches * steps;
  Row row;
  take_turns(all, schedule.ranks - 1 - rank, AddsPass<ActionKind::F>{row, rank}, [&](int m) {
    if (recomputes) row.push_back(pass(ActionKind::R, rank, m));
    row.push_back(pass(ActionKind::B, rank, m));
    if ((m + 1) % schedule.microbatches == 0) row.push_back(update());
  });
  return row;
}

}  // namespace

bool is_stale_family(std::string_view name) { return name == kStaleFamily; }

Rolling rolling_of(const Schedule& schedule) {
  if (is_stale_family(schedule.name)) return Rolling::Stale;
  const bool updates = std::any_of(schedule.order.begin(), schedule.order.end(),
                                   [](const Row& row) { return !row.empty() && row.back().kind == ActionKind::Opt; });
  return updates ? Rolling::Validated : Rolling::None;
}

int versions_needed(int ranks, int microbatches) {
  return microbatches >= ranks ? 2 : 1 + (ranks - 2 + microbatches) / microbatches;
}

int weight_versions(const Schedule& schedule) {
  if (rolling_of(schedule) != Rolling::Stale) return 1;
  const Row& row = schedule.order.front();
  const auto updates = std::count_if(row.begin(), row.end(), [](const Action& a) { return a.kind == ActionKind::Opt; });
  return versions_needed(schedule.ranks, schedule.microbatches / std::max(1, static_cast<int>(updates)));
}

int staleness(const Schedule& schedule) { return weight_versions(schedule) - 1; }

std::vector<Action> step_row(const Schedule& schedule, int rank, bool from_idle, bool drains) {
  Row row = schedule.order[static_cast<std::size_t>(rank)];
  while (!row.empty() && row.back().kind == ActionKind::Opt) row.pop_back();
  if (rolling_of(schedule) != Rolling::Stale) return row;
  return stale_row(row, microbatches_of_chain(schedule), from_idle, drains);
}

Schedule rolled(const Schedule& schedule, int steps) {
  PANPIPE_CHECK(rolling_of(schedule) != Rolling::None && steps >= 1, "a schedule that rolls");
  Schedule all = schedule;
  all.microbatches = schedule.microbatches * steps;
  all.empty_cells.clear();
  all.lower_bound.reset();
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    Row& row = all.order[static_cast<std::size_t>(rank)];
    if (schedule.microbatches < schedule.ranks && rolling_of(schedule) == Rolling::Stale) {
      row = row_of_steps(schedule, rank, steps);
      continue;
    }
    row.clear();
    for (int step = 0; step < steps; ++step) {
      append(row, step_row(schedule, rank, step == 0, step + 1 == steps), step * microbatches_of_chain(schedule));
      row.push_back(update());
    }
  }
  return all;
}

// From a rank to the last one and back, k microbatches are under way: the pattern of such a ring repeats after so many steps as
// make k divide their microbatches. The long rings count first where all together would take too many steps.
int steps_in_window(const Schedule& schedule) {
  constexpr int kMost = 12;
  int window = 1;
  for (int ring = schedule.ranks; ring > 1 && rolling_of(schedule) == Rolling::Stale; --ring) {
    const int both = std::lcm(window, ring / std::gcd(ring, schedule.microbatches));
    if (both <= kMost) window = both;
  }
  return window;
}

int steps_to_roll(const Schedule& schedule) { return kStepsBefore + steps_in_window(schedule) + kStepsAfter; }

std::optional<double> rolling_period(const Schedule& schedule, const PassCosts& costs, bool split_groups) {
  if (rolling_of(schedule) == Rolling::None) return std::nullopt;
  // More versions: as many more steps begin from idle ranks and drain.
  const int versions = weight_versions(schedule), more = std::max(0, versions - 2);
  const int window = more > 0 ? std::max(schedule.ranks, steps_in_window(schedule)) : steps_in_window(schedule);
  const int after = kStepsAfter + more, steps = kStepsBefore + more + window + after;
  const Schedule all = rolled(schedule, steps);
  const std::optional<ScheduleEvaluation> evaluation = evaluate_if_it_ends(all, costs, split_groups);
  if (!evaluation) return std::nullopt;
  double period = 0;
  for (std::size_t rank = 0; rank < all.order.size(); ++rank) {
    std::vector<double> ends;  // of the steps
    double end = 0;
    for (std::size_t i = 0; i < all.order[rank].size(); ++i) {
      if (all.order[rank][i].is_compute()) end = evaluation->times[rank][i].second;
      if (all.order[rank][i].kind == ActionKind::Opt) ends.push_back(end);
    }
    const auto last = static_cast<std::size_t>(steps - after - 1);
    period = std::max(period, (ends[last] - ends[last - static_cast<std::size_t>(window)]) / window);
  }
  return period;
}

}  // namespace panpipe
