#include "sim/step_runner.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace panpipe::sim {
namespace {

constexpr auto kLanesOfRank = static_cast<std::int32_t>(kLanes);

}  // namespace

StepRunner::StepRunner(const TaskGraph& graph, const Folding& folding, const FlowTable& flows, const std::vector<bool>& merged,
                       StepHost& host)
    : graph_(graph), folding_(folding), flows_(flows), merged_(merged), host_(host), classes_(folding.classes) {
  runs_.resize(at(graph.ranks) * kLanes * at(classes_));
  rings_.resize(at(graph.ranks) * kLanes * at(folding.tensor_groups));
  tensor_members_.resize(at(folding.tensor_groups));
  for (std::size_t c = 0; c < folding.tensor_group.size(); ++c)
    tensor_members_[at(folding.tensor_group[c])].push_back(static_cast<std::int32_t>(c));
  for (const Program& program : graph.programs) {
    const auto first = graph.steps.begin() + program.first_step;
    joins_.push_back(
        std::any_of(first, first + program.steps, [](const ProgramStep& step) { return step.collective && !step.overlapped; }));
  }
}

std::int32_t StepRunner::run_index(const Task& task, std::int32_t cls) const {
  return (task.rank * kLanesOfRank + static_cast<std::int32_t>(task.lane)) * classes_ + cls;
}

std::int32_t StepRunner::ring_index(const Task& task, std::int32_t cls) const {
  return (task.rank * kLanesOfRank + static_cast<std::int32_t>(task.lane)) * folding_.tensor_groups +
         folding_.tensor_group[at(cls)];
}

const std::vector<std::int32_t>& StepRunner::group_of(std::int32_t ring) const {
  return tensor_members_[at(ring % folding_.tensor_groups)];
}

void StepRunner::start(std::int32_t t, std::int32_t cls) {
  const Task& task = graph_.tasks[at(t)];
  if (merged_[at(task.rank)]) return start_merged(t, cls);
  const std::int32_t run = run_index(task, cls);
  runs_[at(run)] = {t, graph_.programs[at(task.program)].first_step};
  advance(run);
}

// --- as one timer ---

void StepRunner::start_merged(std::int32_t t, std::int32_t cls) {
  const Task& task = graph_.tasks[at(t)];
  const Ticks duration = graph_.programs[at(task.program)].duration;
  const std::int32_t index = ring_index(task, cls);
  const auto& group = group_of(index);
  if (group.size() == 1 || !joins_[at(task.program)]) {
    host_.pass_begun(t, cls);
    return host_.pass_timer(duration, t, cls);
  }
  // Blocking collectives let nobody finish earlier than `duration` after the last one's start.
  Ring& ring = rings_[at(index)];
  ring.step = t;
  if (++ring.arrived < static_cast<std::int32_t>(group.size())) return;
  ring.arrived = 0;
  for (const std::int32_t member : group) host_.pass_begun(t, member);
  host_.group_timer(duration, index);
}

void StepRunner::group_ended(std::int32_t index) {
  const std::int32_t task = rings_[at(index)].step;
  for (const std::int32_t cls : group_of(index)) host_.pass_ended(task, cls);
}

// --- step by step ---

void StepRunner::advance(std::int32_t index) {
  Run& run = runs_[at(index)];
  const std::int32_t cls = index % classes_;
  const Program& program = graph_.programs[at(graph_.tasks[at(run.task)].program)];
  for (;;) {
    if (!run.open) host_.steps_ended(run.task, cls, run.next - program.first_step);
    if (run.next == program.first_step + program.steps) {
      run.waiting = run.open;
      if (!run.open) host_.pass_ended(run.task, cls);
      return;
    }
    const ProgramStep& step = graph_.steps[at(run.next)];
    run.waiting = run.open && (step.collective || run.beside);
    if (run.waiting) return;
    const std::int32_t number = run.next++;
    if (!step.collective) {
      run.beside = run.open;
      if (step.time <= Ticks(0)) continue;
      return host_.compute_timer(step.time, index);
    }
    run.open = true;
    run.beside = false;
    run.waiting = !step.overlapped;
    join_ring(graph_.tasks[at(run.task)], number, cls);
    if (!step.overlapped) return;
  }
}

void StepRunner::join_ring(const Task& task, std::int32_t step, std::int32_t cls) {
  const std::int32_t index = ring_index(task, cls);
  Ring& ring = rings_[at(index)];
  ring.step = step;
  if (++ring.arrived < static_cast<std::int32_t>(group_of(index).size())) return;
  ring.arrived = 0;
  const std::int32_t flow = graph_.steps[at(step)].flow;
  host_.ring_timer(flow >= 0 ? graph_.flows[at(flow)].latency : graph_.steps[at(step)].time, index);
}

void StepRunner::ring_ready(std::int32_t index) {
  Ring& ring = rings_[at(index)];
  const auto& group = group_of(index);
  const std::int32_t rank = index / folding_.tensor_groups / kLanesOfRank;
  const std::int32_t flow = graph_.steps[at(ring.step)].flow;
  ring.sending = static_cast<std::int32_t>(group.size());
  if (flow < 0) return close_ring(index);
  for (const std::int32_t cls : group) host_.ring_flow(flows_.tensor_member(rank, flow, cls), index);
}

void StepRunner::ring_member_ended(std::int32_t index) {
  if (--rings_[at(index)].sending == 0) close_ring(index);
}

void StepRunner::close_ring(std::int32_t index) {
  const std::int32_t lane = index / folding_.tensor_groups;
  for (const std::int32_t cls : group_of(index)) {
    Run& run = runs_[at(lane * classes_ + cls)];
    run.open = false;
    if (run.waiting) resume_.push_back(lane * classes_ + cls);
    run.waiting = false;
  }
}

bool StepRunner::resume() {
  if (resume_.empty()) return false;
  const std::int32_t run = resume_.back();
  resume_.pop_back();
  advance(run);
  return true;
}

}  // namespace panpipe::sim
