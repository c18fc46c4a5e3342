#include "costmodel/timeline/step_time.hpp"

#include <algorithm>
#include <map>

#include "base/index.hpp"
#include "schedule/rolling.hpp"

namespace panpipe {
namespace {

// From each rank's, or device's, first start to its last end.
class RankSpans {
 public:
  void add(std::int32_t rank, const Interval& entry) {
    Interval& whole = of_rank_.try_emplace(rank, entry).first->second;
    whole.start = std::min(whole.start, entry.start);
    whole.end = std::max(whole.end, entry.end);
  }
  std::vector<Interval> spans() const {
    std::vector<Interval> spans;
    for (const auto& [rank, span] : of_rank_) spans.push_back(span);
    return spans;
  }

 private:
  std::map<std::int32_t, Interval> of_rank_;
};

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

double step_period(const std::vector<Interval>& compute_spans) {
  double longest = 0;
  for (const Interval& span : compute_spans) longest = std::max(longest, span.end - span.start);
  return longest;
}

double step_period(const Timeline& timeline) {
  if (const auto rolled = rolled_steps(timeline)) return rolled->period();
  RankSpans ranks;
  for (const Span& span : timeline.spans)
    if (span.lane == Lane::Compute) ranks.add(span.device, {span.start.base(), span.end.base()});
  return step_period(ranks.spans());
}

double step_period(const TaskGraph& graph, const TaskTimes& times) {
  if (const auto rolled = rolled_steps(graph, times)) return rolled->period();
  RankSpans ranks;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (graph.tasks[t].lane == Lane::Compute)
      ranks.add(graph.tasks[t].rank, {times.task_start[t].base(), times.task_end[t].base()});
  return step_period(ranks.spans());
}

}  // namespace panpipe
