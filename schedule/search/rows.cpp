#include "schedule/search/rows.hpp"

#include <algorithm>

#include "schedule/order_building.hpp"

namespace panpipe::search {

RowTimer::RowTimer(const OrderProblem& problem)
    : problem_(problem),
      stages_(static_cast<std::size_t>(problem.stages())),
      microbatches_(static_cast<std::size_t>(problem.microbatches)),
      end_(3 * stages_ * microbatches_),
      position_(static_cast<std::size_t>(problem.ranks)),
      free_at_(position_.size()),
      first_start_(position_.size()) {
  for (int rank = 0; rank < problem.ranks; ++rank)
    for (int chunk = 0; chunk < problem.chunks; ++chunk)
      for (const Kind kind : {Kind::F, Kind::I, Kind::W}) timings_.push_back(timing(kind, problem.stage_on(rank, chunk)));
}

RowTimer::Timing RowTimer::timing(Kind kind, int stage) const {
  const int from = problem_.input_stage(kind, stage);
  if (from < 0) return {problem_.length(kind, stage), 0, place(kind, stage, 0), 0, false};
  return {problem_.length(kind, stage), problem_.delay(kind, stage), place(kind, stage, 0), place(kind, from, 0), true};
}

// Runs a rank as far as its inputs are known; true when it got on.
bool RowTimer::advance(int rank, const std::vector<Op>& row) {
  const auto r = static_cast<std::size_t>(rank);
  const Timing* const timings = timings_.data() + 3 * static_cast<std::size_t>(problem_.chunks) * r;
  const std::size_t from = position_[r];
  std::size_t at = from;
  double free_at = free_at_[r];
  for (; at < row.size(); ++at) {
    const Op op = row[at];
    const Timing& timing = timings[static_cast<std::size_t>(op.kind) + 3 * static_cast<std::size_t>(op.chunk)];
    const auto microbatch = static_cast<std::size_t>(op.microbatch);
    double start = free_at;
    if (timing.has_input) {
      const double input = end_[timing.input + microbatch];
      if (input < 0) break;
      start = std::max(start, input + timing.delay);
    }
    if (at == 0) first_start_[r] = start;
    free_at = start + timing.length;
    end_[timing.end + microbatch] = free_at;
  }
  free_at_[r] = free_at;
  position_[r] = at;
  return at != from;
}

bool RowTimer::run(const Rows& rows, Score& score) {
  std::fill(end_.begin(), end_.end(), -1);
  std::fill(position_.begin(), position_.end(), 0);
  std::fill(free_at_.begin(), free_at_.end(), 0);
  std::fill(first_start_.begin(), first_start_.end(), -1);
  for (bool progress = true; progress;) {
    progress = false;
    for (int r = 0; r < problem_.ranks; ++r) progress |= advance(r, rows[r]);
    for (int r = problem_.ranks; r-- > 0;) progress |= advance(r, rows[r]);
  }
  score = {-1, -1};
  mean_end_ = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (position_[r] != rows[r].size()) return false;
    if (free_at_[r] > score.makespan) {
      score.makespan = free_at_[r];
      last_ = static_cast<int>(r);
    }
    if (free_at_[r] - first_start_[r] > score.span) {
      score.span = free_at_[r] - first_start_[r];
      longest_ = static_cast<int>(r);
    }
    mean_end_ += free_at_[r];
  }
  mean_end_ /= problem_.ranks;
  return true;
}

int peak_activations(const std::vector<Op>& row) {
  int held = 0, peak = 0;
  for (const Op& op : row) {
    if (op.kind == Kind::F) peak = std::max(peak, ++held);
    if (op.kind == Kind::W) --held;
  }
  return peak;
}

bool fits_memory(const OrderProblem& problem, const Rows& rows) {
  return std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return peak_activations(row) <= problem.memory; });
}

Rows rows_of(const OrderProblem& problem, const Schedule& schedule) {
  Rows rows;
  for (const auto& order : schedule.order) {
    auto& row = rows.emplace_back();
    for (const Action& action : order) {
      if (action.kind > ActionKind::B) return {};
      const Op op = {Kind::F, static_cast<std::uint8_t>(action.stage / problem.ranks), action.microbatch};
      const auto add = [&](Kind kind) { row.push_back({kind, op.chunk, op.microbatch}); };
      if (action.kind == ActionKind::F) add(Kind::F);
      if (starts_backward(action.kind)) add(Kind::I);
      if (action.kind == ActionKind::W || action.kind == ActionKind::B) add(Kind::W);
    }
  }
  return rows;
}

Schedule schedule_of(const OrderProblem& problem, const Rows& rows, std::string name) {
  Schedule schedule = problem.chunks == 1 ? linear_schedule(std::move(name), problem.ranks, problem.microbatches)
                      : problem.loop      ? looped_schedule(std::move(name), problem.ranks, problem.microbatches, problem.chunks)
                                          : v_schedule(std::move(name), problem.ranks, problem.microbatches, problem.chunks);
  constexpr ActionKind kKinds[] = {ActionKind::F, ActionKind::I, ActionKind::W};
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (const Op& op : rows[r])
      schedule.order[r].push_back(
          pass(kKinds[static_cast<int>(op.kind)], problem.stage_on(static_cast<int>(r), op.chunk), op.microbatch));
  return schedule;
}

}  // namespace panpipe::search
