#include "costmodel/prediction/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/index.hpp"
#include "costmodel/prediction/step_terms.hpp"
#include "costmodel/timeline/device_sums.hpp"
#include "costmodel/timeline/step_time.hpp"

namespace panpipe {
namespace {

constexpr double kTick = 0.5;  // times are whole ticks

struct PathTime {
  Sensitivity of{};  // ticks by cause
  double hidden_launches = 0;
};

double& part(Sensitivity& times, Direction direction) { return times[at(direction)]; }

Direction place_of(const CollectiveCost& cost) { return cost.crosses_nodes ? Direction::Network : Direction::Node; }

// The composition of a program's duration, and the host time that it hides. Ticks.
PathTime composition_of(const TaskGraph& graph, const Program& program, bool optimizer) {
  const Breakdown& parts = program.breakdown;
  const auto ticks = [](Duration time) { return to_ticks(time).base(); };
  PathTime made;
  const double duration = program.duration.base(), paced = std::min(duration, ticks(parts.host_paced));
  const double exposed = program.exposed_communication.base();
  const double moved = ticks(parts.memory) + (optimizer ? 0 : ticks(parts.operands));
  // An optimizer on the host reads and writes the host's memory; one of matrices multiplies them.
  const bool on_host = optimizer && parts.work == Flops(0);
  const double work = on_host ? 0 : ticks(parts.compute) - ticks(parts.attention) - ticks(parts.operands);
  const double copies = on_host ? ticks(parts.compute) : 0;
  const double gaps = std::max(0.0, duration - exposed - ticks(parts.compute) - ticks(parts.memory) - ticks(parts.host_paced));
  const double device = work + copies + ticks(parts.attention) + moved + exposed + gaps;
  const double share = device > 0 ? (duration - paced) / device : 0;
  part(made.of, Direction::Products) = work * share;
  part(made.of, Direction::Attention) = ticks(parts.attention) * share;
  part(made.of, Direction::MemoryTraffic) = moved * share;
  part(made.of, Direction::Host) = paced + gaps * share;
  part(made.of, Direction::Node) = copies * share;
  double inside = 0, across = 0;
  for (std::int32_t s = program.first_step; s < program.first_step + program.steps && exposed > 0; ++s)
    if (const ProgramStep& step = graph.steps[s]; step.collective)
      (graph.flows[step.flow].cost.crosses_nodes ? across : inside) += step.time.base();
  if (optimizer) part(made.of, Direction::Node) += exposed * share;  // exchanges of matrices, which are no flows
  if (inside + across > 0) {
    part(made.of, Direction::Node) += exposed * share * inside / (inside + across);
    part(made.of, Direction::Network) += exposed * share * across / (inside + across);
  }
  made.hidden_launches = optimizer ? 0 : std::max(0.0, ticks(parts.host) - std::max(0.0, duration - device));
  return made;
}

// Follows the step from its last end back to its start, and adds up what it passes.
class Walk {
 public:
  Walk(const TaskGraph& graph, const TaskTimes& times) : graph_(graph), times_(times), before_(graph.tasks.size(), -1) {
    std::array<std::int32_t, kLanes> last{};
    for (int rank = 0; rank < graph.ranks; ++rank) {
      last.fill(-1);
      for (auto t = graph.rank_begin[rank]; t < graph.rank_begin[at(rank) + 1]; ++t) {
        std::int32_t& of_lane = last[at(graph.tasks[t].lane)];
        before_[t] = of_lane;
        of_lane = t;
      }
    }
  }

  PathTime run() {
    double now = 0;
    std::int32_t task = -1;
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t)
      if (const double end = times_.task_end[t].base(); end > now) now = end, task = static_cast<std::int32_t>(t);
    // Each part is earlier than the one before, or of no length: the number of parts bounds those.
    for (std::size_t parts = graph_.tasks.size() + graph_.transfers.size(); task >= 0 && parts > 0; --parts) {
      now = pass(task, now);
      task = cause_of(task, now);
    }
    return path_;
  }

 private:
  double start_of(std::int32_t t) const { return times_.task_start[t].base(); }
  double end_of(std::int32_t t) const { return times_.task_end[t].base(); }

  // Adds the part of a task before `now`. Returns its start.
  double pass(std::int32_t t, double now) {
    const Task& task = graph_.tasks[t];
    const double start = std::min(now, start_of(t)), length = std::min(now, end_of(t)) - start;
    if (length <= 0) return start;
    if (task.program >= 0) {
      const Program& program = graph_.programs[task.program];
      const double whole = program.duration.base();
      if (whole <= 0) return start;
      const PathTime made = composition(task);
      for (std::size_t d = 0; d < kDirections; ++d) path_.of[d] += made.of[d] * length / whole;
      path_.hidden_launches += made.hidden_launches * length / whole;
    } else if (task.flow >= 0) {
      part(path_.of, place_of(graph_.flows[task.flow].cost)) += length;
    }
    return start;
  }

  PathTime composition(const Task& task) {
    if (task.kind == TaskKind::Offload || task.kind == TaskKind::Reload) {
      PathTime copied;
      part(copied.of, Direction::Node) = graph_.programs[task.program].duration.base();
      return copied;
    }
    if (known_.empty()) known_.resize(graph_.programs.size()), is_known_.assign(graph_.programs.size(), false);
    const auto p = at(task.program);
    if (!is_known_[p]) known_[p] = composition_of(graph_, graph_.programs[p], task.kind == TaskKind::Optimizer);
    is_known_[p] = true;
    return known_[p];
  }

  // The latest end that let the task start: of what runs before it on its lane, of an input, of a transfer that holds its sender.
  struct Cause {
    std::int32_t task = -1, transfer = -1;
    double end = -1;
    void consider(std::int32_t of_task, std::int32_t of_transfer, double at, double start) {
      if (at > start + kTick || at <= end) return;
      *this = {of_task, of_transfer, at};
    }
  };

  std::int32_t cause_of(std::int32_t t, double start) {
    if (start <= kTick) return -1;
    Cause cause;
    consider_causes(t, start, cause);
    // Collectives of several ranks start together: the one that came last is the cause of all.
    if (cause.end < start - kTick && graph_.tasks[t].flow >= 0)
      for (const auto& cross : graph_.cross_rank_flows)
        if (cross.flow == graph_.tasks[t].flow)
          for (std::size_t other = 0; other < graph_.tasks.size(); ++other)
            if (graph_.tasks[other].flow == cross.flow) consider_causes(static_cast<std::int32_t>(other), start, cause);
    if (cause.transfer >= 0) return before_transfer(cause.transfer);
    return cause.task;
  }

  void consider_causes(std::int32_t t, double start, Cause& cause) const {
    const Task& task = graph_.tasks[t];
    for (std::int32_t i = 0; i < task.inputs; ++i) {
      const Input& input = graph_.inputs[task.first_input + i];
      if (input.transfer >= 0)
        cause.consider(-1, input.transfer, times_.transfer_end[input.transfer].base(), start);
      else  // a point inside the producer may be it
        cause.consider(input.task, -1, input.point >= 0 ? std::min(start, end_of(input.task)) : end_of(input.task), start);
    }
    if (const std::int32_t p = before_[t]; p >= 0) cause.consider(p, -1, end_of(p), start);
  }

  std::int32_t before_transfer(std::int32_t t) {
    const Transfer& transfer = graph_.transfers[t];
    const TransferLink& link = graph_.links[transfer.link];
    const double start = times_.transfer_start[t].base();
    part(path_.of, link.cost.path == PathClass::Network ? Direction::Network : Direction::Node) +=
        times_.transfer_end[t].base() - start;
    const std::int32_t receiver = transfer.taken_after;
    return receiver >= 0 && std::abs(end_of(receiver) - start) <= kTick && end_of(transfer.producer) < start - kTick
               ? receiver
               : transfer.producer;
  }

  const TaskGraph& graph_;
  const TaskTimes& times_;
  std::vector<std::int32_t> before_;  // per task: the one before it on its lane
  std::vector<PathTime> known_;       // per program
  std::vector<bool> is_known_;
  PathTime path_;
};

// Time of the busiest rank's collectives, exposed or not. Ticks.
double collective_time(const TaskGraph& graph) {
  const int rank = busiest_rank(graph);
  double sum = 0;
  for (auto t = graph.rank_begin[rank]; t < graph.rank_begin[at(rank) + 1]; ++t)
    if (const Task& task = graph.tasks[t]; task.program < 0 && task.flow >= 0)
      sum += (graph.flows[task.flow].latency + graph.flows[task.flow].transfer).base();
  each_cell(graph, rank, [&](const Task&, const Program& program) {
    for (std::int32_t s = program.first_step; s < program.first_step + program.steps; ++s)
      if (graph.steps[s].collective) sum += graph.steps[s].time.base();
  });
  return sum;
}

}  // namespace

std::string_view name_of(Direction direction) {
  constexpr std::string_view kNames[] = {"everything",      "products", "memory traffic", "attention",      "host",
                                         "links in a node", "network",  "exposure",       "synchronisation"};
  return kNames[at(direction)];
}

Sensitivity sensitivity_of(const TaskGraph& graph, const TaskTimes& times) {
  const double step = step_time(graph, times).base(), steps = step > 0 ? step_end(times).base() / step : 1;  // in a row
  Sensitivity result{};
  if (!(step > 0)) return result;
  PathTime path = Walk(graph, times).run();
  double covered = 0;
  for (const double time : path.of) covered += time;
  // What a braid's members or a gap leave out is shared out in proportion.
  for (std::size_t d = 0; d < kDirections && covered > 0; ++d) result[d] = path.of[d] / covered;
  part(result, Direction::Everything) = 1;
  const double exposed = exposed_communication(graph, times, graph.device(busiest_rank(graph), 0, 0));
  const double hidden = std::max(0.0, collective_time(graph) / steps - to_ticks(Duration(exposed)).base());
  part(result, Direction::Exposure) = std::log1p(hidden / step);
  part(result, Direction::Synchronisation) = std::log1p(path.hidden_launches / (steps * step));
  return result;
}

}  // namespace panpipe
