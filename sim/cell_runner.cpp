#include "sim/cell_runner.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe::sim {
namespace {

Among among_of(const TaskGraph& graph, const ProgramStep& step) {
  return step.flow >= 0 ? graph.flows[step.flow].cost.among : Among::Tensor;
}

// By kind, whether a program has such collectives.
std::array<bool, kAmongPasses> kinds_of(const TaskGraph& graph, const Program& program) {
  std::array<bool, kAmongPasses> kinds{};
  for (const ProgramStep& step : steps_of(graph, program))
    if (step.collective) kinds[index_of(among_of(graph, step))] = true;
  return kinds;
}

// Which kind of groups a program brings together; -1 = none.
int company_of(const TaskGraph& graph, const Program& program) {
  const auto kinds = kinds_of(graph, program);
  if (std::count(kinds.begin(), kinds.end(), true) > 1) return static_cast<int>(kAmongPasses);
  const auto only = std::find(kinds.begin(), kinds.end(), true);
  return only == kinds.end() ? -1 : static_cast<int>(only - kinds.begin());
}

// Whether those of a group who start a program at different times are together behind one of its collectives: one for which all
// wait leaves nothing of what came before.
bool brings_together(const TaskGraph& graph, const Program& program, Among among) {
  const auto steps = steps_of(graph, program);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (!steps[s].collective || among_of(graph, steps[s]) != among) continue;
    if (s + 1 == steps.size()) return true;
    const ProgramStep& next = steps[s + 1];
    if (!next.collective && !next.free && !next.chunk && (program.atomic || next.member == steps[s].member)) return true;
  }
  return false;
}

// Groups of two kinds that cross: what made one member late makes its company of the first kind late, and each of them its
// company of the other.
bool ends_together(const TaskGraph& graph, const Program& program) {
  const auto kinds = kinds_of(graph, program);
  return std::all_of(std::begin(kAmongInPasses), std::end(kAmongInPasses),
                     [&](Among among) { return !kinds[index_of(among)] || brings_together(graph, program, among); });
}

}  // namespace

std::vector<bool> cells_as_timers(const TaskGraph& graph, const Folding& folding, const std::vector<bool>& merged) {
  std::vector<bool> timers = fixed_cells(graph), together;
  for (const Program& program : graph.programs) {
    const int company = company_of(graph, program);
    const auto groups = company < 0 ? at(folding.classes)
                                    : (at(company) < kAmongPasses ? folding.groups[company] : folding.pass_groups).members.size();
    together.push_back(groups == at(folding.classes) || ends_together(graph, program));  // one class a group, or all end together
  }
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    timers[t] = timers[t] && task.lane == Lane::Compute && task.program >= 0 && merged[task.rank] && together[task.program];
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
  rings_.resize(at(graph.ranks) * kCompanies * at(classes_));
  leader_.resize(graph.tasks.size());
  watched_.assign(graph.tasks.size(), false);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    leader_[t] = graph.tasks[t].group_size == 0 && t > 0 ? leader_[t - 1] : static_cast<std::int32_t>(t);
    if (graph.tasks[t].output_steps >= 0 || !net.points[static_cast<std::int32_t>(t)].empty()) watched_[leader_[t]] = true;
  }
  for (const Program& program : graph.programs) company_.push_back(company_of(graph, program));
  for (int rank = 0; rank < graph.ranks; ++rank)
    for (std::int32_t t = graph.rank_begin[rank + 1]; t-- > graph.rank_begin[rank];)
      if (graph.tasks[t].lane == panpipe::Lane::Compute)
        for (std::int32_t cls = 0; cls < classes_; ++cls) lanes_[rank * classes_ + cls].cell = leader_[t];
}

const Program* CellRunner::program_of(std::int32_t task) const {
  const std::int32_t program = graph_.tasks[task].program;
  return program < 0 ? nullptr : &graph_.programs[program];
}

std::int32_t CellRunner::members_of(std::int32_t cell) const { return std::max<std::int32_t>(1, graph_.tasks[cell].group_size); }

void CellRunner::begin() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) list(static_cast<std::int32_t>(lane));
}

void CellRunner::list(std::int32_t lane) {
  if (lanes_[lane].listed) return;
  lanes_[lane].listed = true;
  list_.push_back(lane);
}

bool CellRunner::drain() {
  if (list_.empty()) return false;
  while (!list_.empty()) {
    const std::int32_t lane = list_.back();
    list_.pop_back();
    lanes_[lane].listed = false;
    advance(lane);
  }
  return true;
}

void CellRunner::inputs_there(std::int32_t task, std::int32_t cls) {
  members_[pair(task, cls)].ready = true;
  list(graph_.tasks[task].rank * classes_ + cls);
}

void CellRunner::sends_arrived(std::int32_t task, std::int32_t cls) { list(graph_.tasks[task].rank * classes_ + cls); }

bool CellRunner::may_go_on(const Lane& lane, const Program& program, const ProgramStep& step, std::int32_t cls) const {
  const std::int32_t task = lane.cell + step.member;
  for (std::int32_t m = 0; m < members_of(lane.cell); ++m)
    if ((program.all_inputs || lane.cell + m == task) && !members_[pair(lane.cell + m, cls)].ready) return false;
  if (graph_.tasks[lane.cell].kind != TaskKind::Pass && !lane.issued.empty()) return false;
  if (step.collective || step.free) return true;
  return (program.atomic ? lane.in_cell : members_[pair(task, cls)].outstanding) <= (step.chunk ? 1 : 0);
}

void CellRunner::advance(std::int32_t index) {
  Lane& lane = lanes_[index];
  const std::int32_t cls = index % classes_;
  while (lane.cell >= 0 && !lane.computing) {
    const Program* const program = program_of(lane.cell);
    if (program == nullptr || lane.next == program->steps) {
      if (!leave_cell(index)) return;
      continue;
    }
    if (timers_[lane.cell]) {
      start_timer(index, *program);
      if (!lane.computing && lane.next == 0) return;
      continue;
    }
    const std::int32_t number = program->first_step + lane.next;
    const ProgramStep& step = graph_.steps[number];
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
  Lane& lane = lanes_[index];
  const std::int32_t cls = index % classes_, cell = lane.cell;
  for (std::int32_t m = 0; m < members_of(cell); ++m)
    if (!members_[pair(cell + m, cls)].ready) return;
  for (std::int32_t m = 0; m < members_of(cell); ++m) mark_start(cell + m, cls);
  lane.computing = true;
  ++lane.version;
  const int company = company_[graph_.tasks[cell].program];
  const std::int64_t number = company < 0 ? 0 : ring_of(index / classes_, company, cls);
  if (company < 0 || members_of_ring(number).size() == 1) {
    host_.cell_begun(cell, cls);
    return host_.wait(program.duration, EventKind::StepEnd, timer_token(index));
  }
  const auto& group = members_of_ring(number);
  if (++rings_[number].arrived < static_cast<std::int32_t>(group.size())) return;
  rings_[number].arrived = 0;
  for (const std::int32_t member : group) host_.cell_begun(cell, member);
  host_.wait(program.duration, EventKind::GroupEnd, number);
}

void CellRunner::ended(EventKind kind, std::int64_t number) {
  switch (kind) {
    case EventKind::StepEnd:
      return step_ended(number);
    case EventKind::GroupEnd:
      for (const std::int32_t cls : members_of_ring(number)) end_timer(rank_of_ring(number) * classes_ + cls);
      return;
    case EventKind::RingReady:
      return ring_ready(number);
    case EventKind::RingMemberEnd:
      if (--rings_[number].sending == 0) end_ring(number);
      return;
    default:
      PANPIPE_CHECK(false, "an event of no known kind");
  }
}

void CellRunner::end_timer(std::int32_t index) {
  Lane& lane = lanes_[index];
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
      start[pair(cell + m, cls)] = runs_[m].start;
      end[pair(cell + m, cls)] = runs_[m].end();
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
  Lane& lane = lanes_[index];
  lane.computing = true;
  lane.step_start = host_.now();
  lane.work = step.time.base();
  lane.slowed = !lane.issued.empty() && program_of(lane.cell)->overlap_loss > 0;
  ++lane.version;
  // As if the concurrent collectives lasted as long; when they end, the rest is timed again.
  const double forever = lane.slowed ? lane.work * 1e6 : 0;
  const double length = std::nearbyint(overlapped_time(lane.work, forever, program_of(lane.cell)->overlap_loss));
  host_.wait(Ticks(length), EventKind::StepEnd, timer_token(index));
}

void CellRunner::step_ended(std::int64_t token) {
  const auto index = static_cast<std::int32_t>(token % static_cast<std::int64_t>(lanes_.size()));
  Lane& lane = lanes_[index];
  if (!lane.computing || lane.version != static_cast<std::uint32_t>(token / static_cast<std::int64_t>(lanes_.size()))) return;
  if (timers_[lane.cell]) return end_timer(index);
  const std::int32_t cls = index % classes_;
  const ProgramStep& step = graph_.steps[program_of(lane.cell)->first_step + lane.next];
  const std::int32_t task = lane.cell + step.member;
  lane.computing = false;
  ++lane.next;
  end[pair(task, cls)] = host_.now();
  lane.busy += host_.now() - lane.step_start;
  settle(lane.cell, cls);
  list(index);
}

void CellRunner::issue(std::int32_t index, std::int32_t step, std::int32_t task) {
  Lane& lane = lanes_[index];
  ++lane.in_cell;
  ++members_[pair(task, index % classes_)].outstanding;
  lane.issued.push_back({task, step});
  if (lane.issued.size() == 1) arrive(index);
}

// The lane is at its next collective, which starts when all members of its group are: they issue their collectives in one order.
void CellRunner::arrive(std::int32_t index) {
  const Issued& front = lanes_[index].issued.front();
  const ProgramStep& step = graph_.steps[front.step];
  const auto kind = static_cast<int>(index_of(among_of(graph_, step)));
  const std::int64_t number = ring_of(index / classes_, kind, index % classes_);
  Ring& ring = rings_[number];
  if (++ring.arrived < static_cast<std::int32_t>(members_of_ring(number).size())) return;
  ring.arrived = 0;
  ring.now = front;
  ring.start = host_.now();
  host_.wait(step.flow >= 0 ? graph_.flows[step.flow].latency : step.time, EventKind::RingReady, number);
}

void CellRunner::ring_ready(std::int64_t number) {
  Ring& ring = rings_[number];
  const auto& group = members_of_ring(number);
  const std::int32_t rank = rank_of_ring(number);
  const std::int32_t flow = graph_.steps[ring.now.step].flow;
  ring.sending = static_cast<std::int32_t>(group.size());
  if (flow < 0) return end_ring(number);
  for (const std::int32_t cls : group) {
    FlowSpec spec = flows_.pass_member(rank, flow, cls);
    if (merged_[rank]) spec.route = -1;  // nobody else uses its links
    host_.send(spec, EventKind::RingMemberEnd, number);
  }
}

void CellRunner::end_ring(std::int64_t number) {
  const Issued ended = rings_[number].now;
  const double now = host_.now(), begun = rings_[number].start;
  const std::int32_t rank = rank_of_ring(number);
  for (const std::int32_t cls : members_of_ring(number)) lanes_[rank * classes_ + cls].issued.pop_front();
  // Waiting work starts before the lane is checked for being idle.
  for (const std::int32_t cls : members_of_ring(number))
    if (const std::int32_t index = rank * classes_ + cls; !lanes_[index].issued.empty()) arrive(index);
  for (const std::int32_t cls : members_of_ring(number)) {
    const std::int32_t index = rank * classes_ + cls;
    Lane& lane = lanes_[index];
    collectives.push_back({cls, ended.task, ended.step, begun, now});
    const std::int32_t cell = leader_[ended.task];
    if (lane.cell == cell) --lane.in_cell;
    --members_[pair(ended.task, cls)].outstanding;
    if (!graph_.collectives_run_on) end[pair(ended.task, cls)] = std::max(end[pair(ended.task, cls)], now);
    if (lane.computing && lane.slowed && lane.issued.empty()) {
      lane.slowed = false;
      ++lane.version;
      const double length =
          std::nearbyint(overlapped_time(lane.work, now - lane.step_start, program_of(lane.cell)->overlap_loss));
      host_.wait(Ticks(std::max(0.0, lane.step_start + length - now)), EventKind::StepEnd, timer_token(index));
    }
    settle(cell, cls);
    list(index);
  }
}

// Sends what has become ready of a cell, and ends it when nothing of it is under way.
void CellRunner::settle(std::int32_t cell, std::int32_t cls) {
  const Lane& lane = lanes_[graph_.tasks[cell].rank * classes_ + cls];
  const Program* const program = program_of(cell);
  const std::int32_t steps = program ? program->steps : 0;
  const std::int32_t done = lane.cell == cell ? lane.next : steps;
  if (done < steps && !watched_[cell]) return;
  const std::int32_t count = members_of(cell);
  bool ended = done == steps;
  for (std::int32_t m = 0; m < count; ++m) {
    Member& member = members_[pair(cell + m, cls)];
    ended = ended && member.outstanding == 0 && member.ready;
    if (count == 1 && member.outstanding == 0) host_.steps_reached(cell, cls, done);
    const std::int32_t output = graph_.tasks[cell + m].output_steps;
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
  Lane& lane = lanes_[index];
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
  lane.cell = net_.next_on_lane[cell];
  lane.next = lane.in_cell = 0;
  return true;
}

}  // namespace panpipe::sim
