#include "costmodel/timeline/step_time.hpp"

#include <algorithm>
#include <map>

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

}  // namespace

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
  RankSpans ranks;
  for (const Span& span : timeline.spans)
    if (span.lane == Lane::Compute) ranks.add(span.device, {span.start.base(), span.end.base()});
  return step_period(ranks.spans());
}

double step_period(const TaskGraph& graph, const TaskTimes& times) {
  RankSpans ranks;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (graph.tasks[t].lane == Lane::Compute)
      ranks.add(graph.tasks[t].rank, {times.task_start[t].base(), times.task_end[t].base()});
  return step_period(ranks.spans());
}

}  // namespace panpipe
