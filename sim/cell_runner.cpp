#include "sim/cell_runner.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"

namespace panpipe::sim {
namespace {

bool has_collectives(const TaskGraph& graph, const Program& program) {
  const auto first = graph.steps.begin() + program.first_step;
  return std::any_of(first, first + program.steps, [](const ProgramStep& step) { return step.collective; });
}

// Whether those who start a program at different times end it together: behind a collective for which all wait there is nothing
// left of what came before.
bool ends_together(const TaskGraph& graph, const Program& program) {
  if (!has_collectives(graph, program)) return true;
  for (std::int32_t s = program.first_step; s < program.first_step + program.steps; ++s) {
    if (!graph.steps[at(s)].collective) continue;
    if (s + 1 == program.first_step + program.steps) return true;
    const ProgramStep& next = graph.steps[at(s + 1)];
    if (!next.collective && !next.free && !next.chunk && (program.atomic || next.member == graph.steps[at(s)].member))
      return true;
  }
  return false;
}

}  // namespace

std::vector<bool> cells_as_timers(const TaskGraph& graph, const Folding& folding, const std::vector<bool>& merged) {
  const bool one_each = folding.tensor_groups == folding.classes;  // every tensor group is one class
  std::vector<bool> timers = fixed_cells(graph), together;
  for (const Program& program : graph.programs) together.push_back(one_each || ends_together(graph, program));
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    timers[t] =
        timers[t] && task.lane == Lane::Compute && task.program >= 0 && merged[at(task.rank)] && together[at(task.program)];
  }
  return timers;
}

CellRunner::CellRunner(const TaskGraph& graph, const TaskNet& net, const Folding& folding, const FlowTable& flows,
                       const std::vector<bool>& merged, const std::vector<bool>& timers, CellHost& host)
    : graph_(graph),
      net_(net),
      folding_(folding),
      flows_(flows),
      merged_(merged),
      timers_(timers),
      host_(host),
      classes_(folding.classes) {
  const std::size_t pairs = graph.tasks.size() * at(classes_);
  start.assign(pairs, 0);
  end.assign(pairs, 0);
  waiting.assign(pairs, 0);
  members_.resize(pairs);
  lanes_.resize(at(graph.ranks) * at(classes_));
  rings_.resize(at(graph.ranks) * at(folding.tensor_groups));
  group_.resize(at(folding.tensor_groups));
  place_.resize(at(classes_));
  for (std::int32_t cls = 0; cls < classes_; ++cls) {
    auto& group = group_[at(folding.tensor_group[at(cls)])];
    place_[at(cls)] = static_cast<std::int32_t>(group.size());
    group.push_back(cls);
  }
  for (std::size_t r = 0; r < rings_.size(); ++r) rings_[r].issued.assign(group_[r % group_.size()].size(), 0);
  leader_.resize(graph.tasks.size());
  watched_.assign(graph.tasks.size(), false);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    leader_[t] = graph.tasks[t].group_size == 0 && t > 0 ? leader_[t - 1] : static_cast<std::int32_t>(t);
    if (graph.tasks[t].output_steps >= 0 || !net.points[static_cast<std::int32_t>(t)].empty()) watched_[at(leader_[t])] = true;
  }
  for (const Program& program : graph.programs) communicates_.push_back(has_collectives(graph, program));
  for (int rank = 0; rank < graph.ranks; ++rank)
    for (std::int32_t t = graph.rank_begin[at(rank + 1)]; t-- > graph.rank_begin[at(rank)];)
      if (graph.tasks[at(t)].lane == panpipe::Lane::Compute)
        for (std::int32_t cls = 0; cls < classes_; ++cls) lanes_[at(rank * classes_ + cls)].cell = leader_[at(t)];
}

const Program* CellRunner::program_of(std::int32_t task) const {
  const std::int32_t program = graph_.tasks[at(task)].program;
  return program < 0 ? nullptr : &graph_.programs[at(program)];
}

std::int32_t CellRunner::members_of(std::int32_t cell) const {
  return std::max<std::int32_t>(1, graph_.tasks[at(cell)].group_size);
}

void CellRunner::begin() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) list(static_cast<std::int32_t>(lane));
}

void CellRunner::list(std::int32_t lane) {
  if (lanes_[at(lane)].listed) return;
  lanes_[at(lane)].listed = true;
  list_.push_back(lane);
}

bool CellRunner::drain() {
  if (list_.empty()) return false;
  while (!list_.empty()) {
    const std::int32_t lane = list_.back();
    list_.pop_back();
    lanes_[at(lane)].listed = false;
    advance(lane);
  }
  return true;
}

void CellRunner::inputs_there(std::int32_t task, std::int32_t cls) {
  members_[pair(task, cls)].ready = true;
  list(graph_.tasks[at(task)].rank * classes_ + cls);
}

void CellRunner::sends_arrived(std::int32_t task, std::int32_t cls) { list(graph_.tasks[at(task)].rank * classes_ + cls); }

bool CellRunner::may_go_on(const Lane& lane, const Program& program, const ProgramStep& step, std::int32_t cls) const {
  const std::int32_t task = lane.cell + step.member;
  for (std::int32_t m = 0; m < members_of(lane.cell); ++m)
    if ((program.all_inputs || lane.cell + m == task) && !members_[pair(lane.cell + m, cls)].ready) return false;
  if (graph_.tasks[at(lane.cell)].kind != TaskKind::Pass && lane.pending > 0) return false;
  if (step.collective || step.free) return true;
  return (program.atomic ? lane.in_cell : members_[pair(task, cls)].outstanding) <= (step.chunk ? 1 : 0);
}

void CellRunner::advance(std::int32_t index) {
  Lane& lane = lanes_[at(index)];
  const std::int32_t cls = index % classes_;
  while (lane.cell >= 0 && !lane.computing) {
    const Program* const program = program_of(lane.cell);
    if (program == nullptr || lane.next == program->steps) {
      if (!leave_cell(index)) return;
      continue;
    }
    if (timers_[at(lane.cell)]) {
      start_timer(index, *program);
      if (!lane.computing && lane.next == 0) return;
      continue;
    }
    const std::int32_t number = program->first_step + lane.next;
    const ProgramStep& step = graph_.steps[at(number)];
    if (!may_go_on(lane, *program, step, cls)) return;
    const std::int32_t task = lane.cell + step.member;
    mark_start(task, cls);
    if (step.collective) {
      ++lane.next;
      issue(index, number, task);
    } else {
      start_compute(index, step);
    }
  }
}

// The whole cell as one timer: of one class, or where its collectives bring the members of a group together, of all of them from
// the last one's start.
void CellRunner::start_timer(std::int32_t index, const Program& program) {
  Lane& lane = lanes_[at(index)];
  const std::int32_t cls = index % classes_, cell = lane.cell;
  for (std::int32_t m = 0; m < members_of(cell); ++m)
    if (!members_[pair(cell + m, cls)].ready) return;
  for (std::int32_t m = 0; m < members_of(cell); ++m) mark_start(cell + m, cls);
  lane.computing = true;
  ++lane.version;
  const std::int32_t number = index / classes_ * folding_.tensor_groups + folding_.tensor_group[at(cls)];
  const auto& group = group_[at(folding_.tensor_group[at(cls)])];
  if (group.size() == 1 || !communicates_[at(graph_.tasks[at(cell)].program)]) {
    host_.cell_begun(cell, cls);
    return host_.step_timer(program.duration.base(), timer_token(index));
  }
  if (++rings_[at(number)].arrived < static_cast<std::int32_t>(group.size())) return;
  rings_[at(number)].arrived = 0;
  for (const std::int32_t member : group) host_.cell_begun(cell, member);
  host_.group_timer(program.duration, number);
}

void CellRunner::group_ended(std::int64_t number) {
  for (const std::int32_t cls : group_[at(number % folding_.tensor_groups)])
    end_timer(static_cast<std::int32_t>(number / folding_.tensor_groups) * classes_ + cls);
}

void CellRunner::end_timer(std::int32_t index) {
  Lane& lane = lanes_[at(index)];
  const std::int32_t cls = index % classes_, cell = lane.cell, count = members_of(cell);
  const Program& program = *program_of(cell);
  lane.computing = false;
  lane.next = program.steps;
  end[pair(cell, cls)] = host_.now();
  if (count > 1) {  // where in it each member began and ended
    const double begun = host_.now() - program.duration.base();
    PassLanes lanes{begun, begun};
    runs_.assign(at(count), {});
    run_cell(graph_, program, lanes, runs_.data());
    for (std::int32_t m = 0; m < count; ++m) {
      start[pair(cell + m, cls)] = runs_[at(m)].start;
      end[pair(cell + m, cls)] = runs_[at(m)].end();
    }
  }
  lane.busy = (program.duration - program.exposed_communication).base();
  settle(cell, cls);
  list(index);
}

void CellRunner::mark_start(std::int32_t task, std::int32_t cls) {
  Member& member = members_[pair(task, cls)];
  if (!member.started) start[pair(task, cls)] = host_.now();
  member.started = true;
}

void CellRunner::start_compute(std::int32_t index, const ProgramStep& step) {
  Lane& lane = lanes_[at(index)];
  lane.computing = true;
  lane.step_start = host_.now();
  lane.work = step.time.base();
  lane.slowed = lane.pending > 0 && program_of(lane.cell)->overlap_loss > 0;
  ++lane.version;
  // As if the collectives beside it lasted as long; when they end, the rest is timed again.
  const double forever = lane.slowed ? lane.work * 1e6 : 0;
  const double length = std::nearbyint(time_beside(lane.work, forever, program_of(lane.cell)->overlap_loss));
  host_.step_timer(length, timer_token(index));
}

void CellRunner::step_ended(std::int64_t token) {
  const auto index = static_cast<std::int32_t>(token % static_cast<std::int64_t>(lanes_.size()));
  Lane& lane = lanes_[at(index)];
  if (!lane.computing || lane.version != static_cast<std::uint32_t>(token / static_cast<std::int64_t>(lanes_.size()))) return;
  if (timers_[at(lane.cell)]) return end_timer(index);
  const std::int32_t cls = index % classes_;
  const ProgramStep& step = graph_.steps[at(program_of(lane.cell)->first_step + lane.next)];
  const std::int32_t task = lane.cell + step.member;
  lane.computing = false;
  ++lane.next;
  end[pair(task, cls)] = host_.now();
  lane.busy += host_.now() - lane.step_start;
  settle(lane.cell, cls);
  list(index);
}

void CellRunner::issue(std::int32_t index, std::int32_t step, std::int32_t task) {
  Lane& lane = lanes_[at(index)];
  const std::int32_t cls = index % classes_, rank = index / classes_;
  ++lane.pending;
  ++lane.in_cell;
  ++members_[pair(task, cls)].outstanding;
  const std::int32_t group = folding_.tensor_group[at(cls)];
  const std::int32_t number = rank * folding_.tensor_groups + group;
  Ring& ring = rings_[at(number)];
  const std::size_t place = at(ring.issued[at(place_[at(cls)])]++ - ring.ended);
  if (place == ring.queue.size()) ring.queue.push_back({task, step, 0});
  ++ring.queue[place].arrived;
  if (place == 0 && !ring.under_way) start_ring(number);
}

void CellRunner::start_ring(std::int32_t number) {
  Ring& ring = rings_[at(number)];
  if (ring.queue.empty()) return;
  const Issued& front = ring.queue.front();
  if (front.arrived < static_cast<std::int32_t>(group_[at(number % folding_.tensor_groups)].size())) return;
  ring.under_way = true;
  ring.start = host_.now();
  const std::int32_t flow = graph_.steps[at(front.step)].flow;
  host_.latency_timer(flow >= 0 ? graph_.flows[at(flow)].latency : graph_.steps[at(front.step)].time, number);
}

void CellRunner::ring_ready(std::int64_t number) {
  Ring& ring = rings_[at(number)];
  const auto& group = group_[at(number % folding_.tensor_groups)];
  const auto rank = static_cast<std::int32_t>(number / folding_.tensor_groups);
  const std::int32_t flow = graph_.steps[at(ring.queue.front().step)].flow;
  ring.sending = static_cast<std::int32_t>(group.size());
  if (flow < 0) return end_ring(static_cast<std::int32_t>(number));
  for (const std::int32_t cls : group) {
    FlowSpec spec = flows_.tensor_member(rank, flow, cls);
    if (merged_[at(rank)]) spec.route = -1;  // nobody else uses its links
    host_.collective_flow(spec, number);
  }
}

void CellRunner::ring_member_ended(std::int64_t number) {
  if (--rings_[at(number)].sending == 0) end_ring(static_cast<std::int32_t>(number));
}

void CellRunner::end_ring(std::int32_t number) {
  Ring& ring = rings_[at(number)];
  const Issued ended = ring.queue.front();
  ring.queue.pop_front();
  ++ring.ended;
  ring.under_way = false;
  const double now = host_.now(), begun = ring.start;
  const std::int32_t rank = number / folding_.tensor_groups;
  start_ring(number);  // before anybody asks whether the lane is idle
  for (const std::int32_t cls : group_[at(number % folding_.tensor_groups)]) {
    const std::int32_t index = rank * classes_ + cls;
    Lane& lane = lanes_[at(index)];
    collectives.push_back({cls, ended.task, ended.step, begun, now});
    const std::int32_t cell = leader_[at(ended.task)];
    --lane.pending;
    if (lane.cell == cell) --lane.in_cell;
    --members_[pair(ended.task, cls)].outstanding;
    if (!graph_.collectives_run_on) end[pair(ended.task, cls)] = std::max(end[pair(ended.task, cls)], now);
    if (lane.computing && lane.slowed && lane.pending == 0) {
      lane.slowed = false;
      ++lane.version;
      const double length = std::nearbyint(time_beside(lane.work, now - lane.step_start, program_of(lane.cell)->overlap_loss));
      host_.step_timer(std::max(0.0, lane.step_start + length - now), timer_token(index));
    }
    settle(cell, cls);
    list(index);
  }
}

// Sends what has become ready of a cell, and ends it when nothing of it is under way.
void CellRunner::settle(std::int32_t cell, std::int32_t cls) {
  const Lane& lane = lanes_[at(graph_.tasks[at(cell)].rank * classes_ + cls)];
  const Program* const program = program_of(cell);
  const std::int32_t steps = program ? program->steps : 0;
  const std::int32_t done = lane.cell == cell ? lane.next : steps;
  if (done < steps && !watched_[at(cell)]) return;
  const std::int32_t count = members_of(cell);
  bool ended = done == steps;
  for (std::int32_t m = 0; m < count; ++m) {
    Member& member = members_[pair(cell + m, cls)];
    ended = ended && member.outstanding == 0 && member.ready;
    if (count == 1 && member.outstanding == 0) host_.steps_reached(cell, cls, done);
    const std::int32_t output = graph_.tasks[at(cell + m)].output_steps;
    if (member.sent || output < 0 || done < output || member.outstanding > 0) continue;
    member.sent = true;
    host_.output_made(cell + m, cls);
  }
  if (!ended || members_[pair(cell, cls)].finished) return;
  for (std::int32_t m = 0; m < count; ++m) {
    Member& member = members_[pair(cell + m, cls)];
    if (!member.started) mark_start(cell + m, cls), end[pair(cell + m, cls)] = host_.now();
    member.finished = true;
    if (!member.sent) host_.output_made(cell + m, cls);
    member.sent = true;
  }
  for (std::int32_t m = 0; m < count; ++m) host_.cell_ended(cell + m, cls);
}

// All steps of the cell are done: the lane goes on unless its collectives or its sends hold it.
bool CellRunner::leave_cell(std::int32_t index) {
  Lane& lane = lanes_[at(index)];
  const std::int32_t cls = index % classes_, cell = lane.cell;
  settle(cell, cls);  // passes without steps
  for (std::int32_t m = 0; m < members_of(cell); ++m)
    if (!members_[pair(cell + m, cls)].ready) return false;
  if (!graph_.collectives_run_on && lane.in_cell > 0) return false;
  if (!host_.sends_are_through(cell, cls)) return false;
  double first = start[pair(cell, cls)], last = 0;
  for (std::int32_t m = 0; m < members_of(cell); ++m) {
    first = std::min(first, start[pair(cell + m, cls)]);
    last = std::max(last, end[pair(cell + m, cls)]);
  }
  waiting[pair(cell, cls)] = std::max(0.0, last - first - lane.busy);
  lane.busy = 0;
  lane.cell = net_.next_on_lane[at(cell)];
  lane.next = lane.in_cell = 0;
  return true;
}

}  // namespace panpipe::sim
