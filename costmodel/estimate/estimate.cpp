#include "costmodel/estimate/estimate.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/index.hpp"
#include "costmodel/estimate/order_net.hpp"
#include "costmodel/lowering/pass_lanes.hpp"

namespace panpipe {
namespace {

// Cell after cell, each when everything that its members wait for is known.
class TaskReplay {
 public:
  // `notes_collectives`: per rank, whether each collective inside its passes is noted.
  TaskReplay(const TaskGraph& graph, std::vector<bool> notes_collectives)
      : graph_(graph), net_(graph), notes_collectives_(std::move(notes_collectives)), fixed_(fixed_cells(graph)) {
    const std::size_t tasks = graph.tasks.size();
    start_.assign(tasks, 0);
    end_.assign(tasks, 0);
    done_.assign(tasks, 0);
    output_.assign(tasks, 0);
    times_.task_waiting.assign(tasks, Ticks(0));
    times_.transfer_start.assign(graph.transfers.size(), Ticks(0));
    times_.transfer_end.assign(graph.transfers.size(), Ticks(0));
    units_.resize(at(graph.ranks));
    lane_free_.assign(net_.lane_tails().size(), 0);
    points_.resize(graph.programs.size());
    collectives_known_.assign(graph.programs.size(), false);
    std::size_t most = 0;  // collectives that are noted: their list is long, and grows slowly
    for (const Task& task : graph.tasks)
      if (task.program >= 0 && notes_collectives_[task.rank]) most += at(graph.programs[task.program].steps);
    times_.collectives.reserve(most);
    collectives_of_.resize(graph.programs.size());
    for (std::size_t p = 0; p < graph.points.size(); ++p)
      points_[graph.points[p].program].push_back(static_cast<std::int32_t>(p));
  }

  TaskTimes run() {
    for (const std::int32_t b : net_.levels()) {
      const TaskSet& set = net_.task_sets()[b];
      const std::int32_t first = net_.members()[set.first_member];
      hold_for_sends(net_.lane_before(first));
      if (graph_.tasks[first].kind == TaskKind::Pass)
        run_passes(set, first);
      else
        run_others(set);
    }
    for (std::size_t i = 0; i < graph_.transfers.size(); ++i) {
      times_.transfer_start[i] = Ticks(transfer_start(static_cast<std::int32_t>(i)));
      times_.transfer_end[i] = times_.transfer_start[i] + link_time(static_cast<std::int32_t>(i));
    }
    for (const double start : start_) times_.task_start.emplace_back(start);
    for (const double end : end_) times_.task_end.emplace_back(end);
    return std::move(times_);
  }

 private:
  Ticks link_time(std::int32_t transfer) const {
    const TransferLink& link = graph_.links[graph_.transfers[transfer].link];
    return link.latency + link.transfer;
  }

  double transfer_start(std::int32_t t) const {
    const Transfer& transfer = graph_.transfers[t];
    const std::int32_t receiver = net_.receiver_before(transfer);
    return std::max(output_[transfer.producer], receiver < 0 ? 0 : done_[receiver]);
  }

  double arrival(std::int32_t transfer) const { return transfer_start(transfer) + link_time(transfer).base(); }

  double inputs_there(std::int32_t t) const {
    const Task& task = graph_.tasks[t];
    double there = 0;
    for (std::int32_t i = 0; i < task.inputs; ++i) {
      const Input& input = graph_.inputs[task.first_input + i];
      if (input.transfer >= 0)
        there = std::max(there, arrival(input.transfer));
      else if (input.point >= 0)
        there = std::max(there, point_times_.at({input.task, input.point}));
      else if (net_.set_of(input.task) != net_.set_of(t))
        there = std::max(there, done_[input.task]);
    }
    return there;
  }

  // The lane of a task continues when the transfers of its set have arrived.
  void hold_for_sends(std::int32_t task) {
    net_.each_awaited_send(task, [&](std::int32_t t, std::int32_t send) {
      double& free = lane_free(graph_.tasks[t]);
      free = std::max(free, arrival(send));
    });
  }

  double& lane_free(const Task& task) {
    return task.lane == Lane::Compute ? units_[task.rank].compute : lane_free_[net_.lane_index(task)];
  }

  void run_passes(const TaskSet& set, std::int32_t first) {
    const Program& program = graph_.programs[graph_.tasks[first].program];
    const bool notes_collectives = notes_collectives_[graph_.tasks[first].rank];
    if (fixed_[first] && set.members == 1) {
      run_fixed(first, program);
      if (notes_collectives) note_collectives_of_fixed(first, program);
      return;
    }
    runs_.assign(at(set.members), {});
    for (std::int32_t k = 0; k < set.members; ++k) {
      runs_[k].input = inputs_there(first + k);
      runs_[k].output_steps = graph_.tasks[first + k].output_steps;
    }
    PassLanes& lanes = units_[graph_.tasks[first].rank];
    const std::vector<std::int32_t>& points = points_[graph_.tasks[first].program];
    const double end = run_cell(
        graph_, program, lanes, runs_.data(),
        [&](std::int32_t step, double start, double stop) {
          if (notes_collectives)
            times_.collectives.push_back({first + graph_.steps[step].member, step, Ticks(start), Ticks(stop)});
        },
        [&](std::int32_t steps, double time) {
          for (const std::int32_t p : points)
            if (graph_.points[p].steps == steps) point_times_[{first, p}] = time;
        });
    double begin = end, stop = 0, busy = 0;
    for (std::int32_t k = 0; k < set.members; ++k) {
      const MemberRun& run = runs_[k];
      const std::size_t t = at(first + k);
      start_[t] = run.start;
      end_[t] = graph_.collectives_run_on ? run.compute_end : run.end();
      done_[t] = end;
      output_[t] = run.output;
      begin = std::min(begin, run.start);
      stop = std::max(stop, end_[t]);
      busy += run.busy;
    }
    times_.task_waiting[first] = Ticks(std::max(0.0, stop - begin - busy));
  }

  // A pass of which only the duration counts.
  void run_fixed(std::int32_t pass, const Program& program) {
    double& lane = units_[graph_.tasks[pass].rank].compute;
    const double start = std::max(lane, inputs_there(pass));
    start_[pass] = start;
    end_[pass] = done_[pass] = output_[pass] = lane = start + program.duration.base();
    for (const std::int32_t p : points_[graph_.tasks[pass].program]) point_times_[{pass, p}] = start + graph_.points[p].at.base();
    times_.task_waiting[pass] = program.exposed_communication;
  }

  // A pass of which only the duration counts runs alike wherever it starts: its collectives are found once per program. Times are
  // whole picoseconds, so that adding the start changes no digit.
  void note_collectives_of_fixed(std::int32_t pass, const Program& program) {
    const auto p = at(graph_.tasks[pass].program);
    if (!collectives_known_[p]) {
      collectives_known_[p] = true;
      PassLanes idle;
      runs_.assign(1, {});
      run_cell(
          graph_, program, idle, runs_.data(),
          [&](std::int32_t step, double start, double stop) {
            collectives_of_[p].push_back({0, step, Ticks(start), Ticks(stop)});
          },
          [](std::int32_t, double) {});
    }
    const Ticks start(start_[pass]);
    for (const TaskTimes::PassCollective& c : collectives_of_[p])
      times_.collectives.push_back({pass, c.step, start + c.start, start + c.end});
  }

  // The optimizer waits for the tensor lane too; collectives of several ranks start together.
  void run_others(const TaskSet& set) {
    double start = 0;
    for (std::int32_t k = 0; k < set.members; ++k) {
      const std::int32_t t = net_.members()[set.first_member + k];
      const Task& task = graph_.tasks[t];
      if (k > 0) hold_for_sends(net_.lane_before(t));
      start = std::max({start, lane_free(task), inputs_there(t)});
      if (task.lane == Lane::Compute) start = std::max(start, units_[task.rank].tensor);
    }
    for (std::int32_t k = 0; k < set.members; ++k) {
      const std::int32_t t = net_.members()[set.first_member + k];
      const Task& task = graph_.tasks[t];
      double length = 0;
      if (task.program >= 0)
        length = graph_.programs[task.program].duration.base();
      else if (task.flow >= 0)
        length = (graph_.flows[task.flow].latency + graph_.flows[task.flow].transfer).base();
      start_[t] = start;
      end_[t] = done_[t] = output_[t] = lane_free(task) = start + length;
    }
  }

  const TaskGraph& graph_;
  const OrderNet net_;
  const std::vector<bool> notes_collectives_;
  const std::vector<bool> fixed_;  // per task: a number of its program's duration
  TaskTimes times_;
  std::vector<double> start_, end_, done_, output_;                      // per task; done: its cell has ended, collectives too
  std::vector<PassLanes> units_;                                         // per rank
  std::vector<double> lane_free_;                                        // of the other lanes
  std::vector<std::vector<std::int32_t>> points_;                        // per program
  std::map<std::pair<std::int32_t, std::int32_t>, double> point_times_;  // per task and point
  std::vector<bool> collectives_known_;                                  // per program that is run as a whole: whether found yet
  std::vector<std::vector<TaskTimes::PassCollective>> collectives_of_;   // their times from the start of the pass
  std::vector<MemberRun> runs_;                                          // of the cell under way
};

}  // namespace

TaskTimes estimate_times(const TaskGraph& graph, bool with_collectives) {
  return TaskReplay(graph, std::vector<bool>(at(graph.ranks), with_collectives)).run();
}

TaskTimes estimate_times_of(const TaskGraph& graph, std::int32_t device) {
  std::vector<bool> is_here;
  for (int rank = 0; rank < graph.ranks; ++rank) is_here.push_back(graph.device(rank, 0, 0) == device);
  return TaskReplay(graph, std::move(is_here)).run();
}

Timeline estimate(const TaskGraph& graph) { return make_timeline(graph, estimate_times(graph, true), TimelineKind::Estimated); }

}  // namespace panpipe
