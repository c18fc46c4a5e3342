#include "sim/unit_runner.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "costmodel/plan/unit_lanes.hpp"

namespace panpipe::sim {
UnitRunner::UnitRunner(const TaskGraph& graph, const TaskNet& net, const Folding& folding, const FlowTable& flows,
                       const std::vector<bool>& merged, UnitHost& host)
    : graph_(graph), net_(net), folding_(folding), flows_(flows), merged_(merged), host_(host), classes_(folding.classes) {
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
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    leader_[t] = graph.tasks[t].group_size == 0 && t > 0 ? leader_[t - 1] : static_cast<std::int32_t>(t);
  for (int rank = 0; rank < graph.ranks; ++rank)
    for (std::int32_t t = graph.rank_begin[at(rank + 1)]; t-- > graph.rank_begin[at(rank)];)
      if (graph.tasks[at(t)].lane == panpipe::Lane::Compute)
        for (std::int32_t cls = 0; cls < classes_; ++cls) lanes_[at(rank * classes_ + cls)].cell = leader_[at(t)];
}

const Program* UnitRunner::program_of(std::int32_t task) const {
  const std::int32_t program = graph_.tasks[at(task)].program;
  return program < 0 ? nullptr : &graph_.programs[at(program)];
}

std::int32_t UnitRunner::members_of(std::int32_t cell) const {
  return std::max<std::int32_t>(1, graph_.tasks[at(cell)].group_size);
}

void UnitRunner::begin() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) list(static_cast<std::int32_t>(lane));
}

void UnitRunner::list(std::int32_t lane) {
  if (lanes_[at(lane)].listed) return;
  lanes_[at(lane)].listed = true;
  list_.push_back(lane);
}

bool UnitRunner::drain() {
  if (list_.empty()) return false;
  while (!list_.empty()) {
    const std::int32_t lane = list_.back();
    list_.pop_back();
    lanes_[at(lane)].listed = false;
    advance(lane);
  }
  return true;
}

void UnitRunner::inputs_there(std::int32_t task, std::int32_t cls) {
  members_[pair(task, cls)].ready = true;
  list(graph_.tasks[at(task)].rank * classes_ + cls);
}

void UnitRunner::sends_arrived(std::int32_t task, std::int32_t cls) { list(graph_.tasks[at(task)].rank * classes_ + cls); }

bool UnitRunner::may_go_on(const Lane& lane, const Program& program, const ProgramStep& step, std::int32_t cls) const {
  const std::int32_t task = lane.cell + step.member;
  for (std::int32_t m = 0; m < members_of(lane.cell); ++m)
    if ((program.all_inputs || lane.cell + m == task) && !members_[pair(lane.cell + m, cls)].ready) return false;
  if (graph_.tasks[at(lane.cell)].kind != TaskKind::Pass && lane.pending > 0) return false;
  if (step.collective || step.free) return true;
  return program.atomic ? lane.in_cell == 0 : members_[pair(task, cls)].outstanding == 0;
}

void UnitRunner::advance(std::int32_t index) {
  Lane& lane = lanes_[at(index)];
  const std::int32_t cls = index % classes_;
  while (lane.cell >= 0 && !lane.computing) {
    const Program* const program = program_of(lane.cell);
    if (program == nullptr || lane.next == program->steps) {
      if (!leave_cell(index)) return;
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

void UnitRunner::mark_start(std::int32_t task, std::int32_t cls) {
  Member& member = members_[pair(task, cls)];
  if (!member.started) start[pair(task, cls)] = host_.now();
  member.started = true;
}

void UnitRunner::start_compute(std::int32_t index, const ProgramStep& step) {
  Lane& lane = lanes_[at(index)];
  lane.computing = true;
  lane.step_start = host_.now();
  lane.work = step.time.base();
  lane.slowed = lane.pending > 0 && graph_.overlap_loss > 0;
  ++lane.version;
  // As if the collectives beside it lasted as long; when they end, the rest is timed again.
  const double forever = lane.slowed ? lane.work * 1e6 : 0;
  const double length = std::nearbyint(time_beside(lane.work, forever, graph_.overlap_loss));
  host_.unit_timer(length, static_cast<std::int64_t>(lane.version) * static_cast<std::int64_t>(lanes_.size()) + index);
}

void UnitRunner::unit_ended(std::int64_t token) {
  const auto index = static_cast<std::int32_t>(token % static_cast<std::int64_t>(lanes_.size()));
  Lane& lane = lanes_[at(index)];
  if (!lane.computing || lane.version != static_cast<std::uint32_t>(token / static_cast<std::int64_t>(lanes_.size()))) return;
  const std::int32_t cls = index % classes_;
  const ProgramStep& step = graph_.steps[at(program_of(lane.cell)->first_step + lane.next)];
  const std::int32_t task = lane.cell + step.member;
  lane.computing = false;
  ++lane.next;
  end[pair(task, cls)] = host_.now();
  waiting[pair(lane.cell, cls)] -= host_.now() - lane.step_start;  // the time computed; leave_cell adds the whole
  settle(lane.cell, cls);
  list(index);
}

void UnitRunner::issue(std::int32_t index, std::int32_t step, std::int32_t task) {
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

void UnitRunner::start_ring(std::int32_t number) {
  Ring& ring = rings_[at(number)];
  if (ring.queue.empty()) return;
  const Issued& front = ring.queue.front();
  if (front.arrived < static_cast<std::int32_t>(group_[at(number % folding_.tensor_groups)].size())) return;
  ring.under_way = true;
  ring.start = host_.now();
  const std::int32_t flow = graph_.steps[at(front.step)].flow;
  host_.latency_timer(flow >= 0 ? graph_.flows[at(flow)].latency : graph_.steps[at(front.step)].time, number);
}

void UnitRunner::ring_ready(std::int64_t number) {
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

void UnitRunner::ring_member_ended(std::int64_t number) {
  if (--rings_[at(number)].sending == 0) end_ring(static_cast<std::int32_t>(number));
}

void UnitRunner::end_ring(std::int32_t number) {
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
      const double length = std::nearbyint(time_beside(lane.work, now - lane.step_start, graph_.overlap_loss));
      host_.unit_timer(std::max(0.0, lane.step_start + length - now),
                       static_cast<std::int64_t>(lane.version) * static_cast<std::int64_t>(lanes_.size()) + index);
    }
    settle(cell, cls);
    list(index);
  }
}

// Sends what has become ready of a cell, and ends it when nothing of it is under way.
void UnitRunner::settle(std::int32_t cell, std::int32_t cls) {
  const Lane& lane = lanes_[at(graph_.tasks[at(cell)].rank * classes_ + cls)];
  const Program* const program = program_of(cell);
  const std::int32_t steps = program ? program->steps : 0;
  const std::int32_t done = lane.cell == cell ? lane.next : steps;
  const std::int32_t count = members_of(cell);
  bool ended = done == steps;
  for (std::int32_t m = 0; m < count; ++m) {
    Member& member = members_[pair(cell + m, cls)];
    ended = ended && member.outstanding == 0 && member.ready;
    if (count == 1 && member.outstanding == 0) host_.unit_steps_ended(cell, cls, done);
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
bool UnitRunner::leave_cell(std::int32_t index) {
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
  waiting[pair(cell, cls)] = std::max(0.0, waiting[pair(cell, cls)] + last - first);
  lane.cell = net_.next_on_lane[at(cell)];
  lane.next = lane.in_cell = 0;
  return true;
}

}  // namespace panpipe::sim
