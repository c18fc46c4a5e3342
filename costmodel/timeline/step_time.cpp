#include "costmodel/timeline/step_time.hpp"

#include <algorithm>
#include <map>

#include "base/index.hpp"
#include "schedule/rolling.hpp"

namespace panpipe {
namespace {

using UpdateEnds = std::map<std::int32_t, std::vector<double>>;

// The window leaves out the transient from idle ranks and the last steps, which drain.
std::optional<RolledSteps> windows_of(const UpdateEnds& ends) {
  constexpr int kOutside = kStepsBefore + kStepsAfter;
  RolledSteps result;
  for (const auto& [rank, of_rank] : ends) {
    if (std::ssize(of_rank) <= kOutside) return std::nullopt;
    result.steps = static_cast<int>(of_rank.size()) - kOutside;
    const std::size_t last = of_rank.size() - 1 - kStepsAfter;
    result.windows[rank] = {of_rank[last - at(result.steps)], of_rank[last]};
    result.first_step = std::max(result.first_step, of_rank.front());
  }
  if (result.windows.empty()) return std::nullopt;
  return result;
}

}  // namespace

double RolledSteps::period() const {
  double longest = 0;
  for (const auto& [rank, window] : windows) longest = std::max(longest, (window.end - window.start) / steps);
  return longest;
}

std::optional<RolledSteps> rolled_steps(const TaskGraph& graph, const TaskTimes& times) {
  UpdateEnds ends;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (graph.tasks[t].kind == TaskKind::Optimizer) ends[graph.tasks[t].rank].push_back(times.task_end[t].base());
  return windows_of(ends);
}

std::optional<RolledSteps> rolled_steps(const Timeline& timeline) {
  UpdateEnds ends;
  for (const Span& span : timeline.spans)
    if (span.lane == Lane::Compute && span.action.kind == ActionKind::Opt) ends[span.device].push_back(span.end.base());
  return windows_of(ends);
}

Ticks step_time(const TaskGraph& graph, const TaskTimes& times) {
  const std::optional<RolledSteps> rolled = rolled_steps(graph, times);
  return rolled ? Ticks(rolled->period()) : step_end(times);
}

Ticks step_end(const TaskTimes& times) {
  Ticks last{0};
  for (const Ticks end : times.task_end) last = std::max(last, end);
  return last;
}

double step_period(const std::vector<Interval>& of_ranks) {
  double longest = 0;
  for (const Interval& span : of_ranks) longest = std::max(longest, span.end - span.start);
  return longest;
}

double step_period(const TaskGraph& graph, const TaskTimes& times) {
  if (const auto rolled = rolled_steps(graph, times)) return rolled->period();
  std::map<std::int32_t, Interval> of_rank;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    if (graph.tasks[t].lane != Lane::Compute) continue;
    const Interval own{times.task_start[t].base(), times.task_end[t].base()};
    Interval& whole = of_rank.try_emplace(graph.tasks[t].rank, own).first->second;
    whole = {std::min(whole.start, own.start), std::max(whole.end, own.end)};
  }
  std::vector<Interval> spans;
  for (const auto& [rank, span] : of_rank) spans.push_back(span);
  return step_period(spans);
}

}  // namespace panpipe
