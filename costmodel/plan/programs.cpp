// The programs of a stage's passes: drafts rounded to whole picoseconds. docs/models/lowering.md has the equations.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "costmodel/plan/pass_draft.hpp"
#include "costmodel/plan/unit_lanes.hpp"

namespace panpipe {

namespace {

Breakdown shared_out(Breakdown breakdown, double share) {
  breakdown.work = breakdown.work * share;
  breakdown.traffic = Bytes(static_cast<std::int64_t>(static_cast<double>(breakdown.traffic.base()) * share));
  for (Duration* part : {&breakdown.compute, &breakdown.memory, &breakdown.launch}) *part = *part * share;
  return breakdown;
}

std::int32_t add_program(TaskGraph& graph, const PassDraft& draft, double share) {
  Program program;
  program.first_step = static_cast<std::int32_t>(graph.steps.size());
  program.steps = static_cast<std::int32_t>(draft.steps.size());
  double compute = 0;
  for (const Draft& draft_step : draft.steps) {
    ProgramStep step;
    step.collective = draft_step.collective;
    step.overlapped = draft_step.overlapped;
    step.flow = draft_step.flow;
    step.time = to_ticks(Duration(draft_step.time));
    if (!step.collective) compute += step.time.base();
    graph.steps.push_back(step);
  }
  const ProgramStep* const first = graph.steps.data() + program.first_step;
  program.duration = idle_duration(first, first + program.steps);
  program.exposed_communication = Ticks(program.duration.base() - compute);
  program.breakdown = shared_out(draft.breakdown, share);
  program.breakdown.communication = to_duration(program.exposed_communication);
  program.breakdown.total = to_duration(program.duration);
  graph.programs.push_back(program);
  return static_cast<std::int32_t>(graph.programs.size()) - 1;
}

// `trains`: the trains of gradients that the pass makes whole, and how many of its steps come before.
std::int32_t add_pass_program(Lowering& lowering, PassDraft draft, double share, int site,
                              std::vector<std::pair<int, std::int32_t>>& trains) {
  if (!lowering.graph.by_units) {
    for (std::size_t s = 0; s < draft.steps.size(); ++s)
      if (draft.steps[s].train >= 0) trains.emplace_back(draft.steps[s].train, static_cast<std::int32_t>(s) + 1);
    return add_program(lowering.graph, draft, share);
  }
  const WovenProgram woven = weave(lowering.graph, {&draft.pieces}, false);
  trains = woven.trains;
  const std::int32_t program = add_unit_program(lowering, woven, 1, false, shared_out(draft.breakdown, share));
  lowering.unit_passes[static_cast<std::size_t>(program)] = {std::move(draft.pieces), std::move(draft.bare), draft.launches,
                                                             site};
  return program;
}

Ticks time_of_steps(const TaskGraph& graph, std::int32_t program, std::int32_t steps) {
  Program part = graph.programs[static_cast<std::size_t>(program)];
  if (!graph.by_units) {
    const ProgramStep* const first = graph.steps.data() + part.first_step;
    return idle_duration(first, first + steps);
  }
  part.steps = steps;
  UnitLanes lanes;
  std::vector<MemberRun> runs(part.members);
  return Ticks(run_cell(graph, part, lanes, runs.data(), [](std::int32_t, double, double) {}));
}

// Where in a pass the trains of its stage are ready.
std::vector<std::int32_t> add_points(TaskGraph& graph, std::int32_t program, const std::vector<std::int32_t>& steps) {
  std::vector<std::int32_t> points;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    if (steps[k] < 0) {
      points.push_back(-1);
    } else if (k > 0 && steps[k] == steps[k - 1]) {
      points.push_back(points.back());
    } else {
      points.push_back(static_cast<std::int32_t>(graph.points.size()));
      graph.points.push_back({program, steps[k], time_of_steps(graph, program, steps[k])});
    }
  }
  return points;
}

void make_flows(Lowering& lowering) {
  for (const StageInfo& info : lowering.stages) {
    const auto first = static_cast<std::int32_t>(lowering.graph.flows.size());
    if (!lowering.flow_of_collective.try_emplace(info.site, first).second) continue;
    add_collective_flows(lowering, lowering.workload(info).collectives);
  }
}

// What a stage's end of its messages takes from a pass: seconds.
double message_work(const Lowering& lowering, std::size_t stage, ActionKind kind) {
  double sum = 0;
  for (const auto* edges : {&lowering.edges_in[stage], &lowering.edges_out[stage]})
    for (const int e : *edges) {
      const StageEdge& edge = lowering.edges[static_cast<std::size_t>(e)];
      for (const bool backward : {false, true}) {
        if (!has_messages(kind, backward) || (backward ? edge.backward_link : edge.forward_link) < 0) continue;
        const std::int64_t bytes = backward ? edge.gradient_bytes : edge.bytes;
        sum += lowering.costs.message_work(Bytes(bytes / lowering.plan.schedule.splits)).base();
      }
    }
  return sum;
}

void add_message_work(const Lowering& lowering, std::size_t stage, ActionKind kind, PassDraft& draft) {
  const double work = message_work(lowering, stage, kind);
  if (work <= 0) return;
  draft.breakdown.launch += Duration(work);
  Draft step;
  step.time = work;
  draft.steps.insert(draft.steps.begin(), step);
  UnitPiece piece;
  piece.time = work;
  piece.given = true;
  draft.pieces.insert(draft.pieces.begin(), piece);
  draft.bare.insert(draft.bare.begin(), piece);
}

void make_stage_programs(Lowering& lowering, std::size_t stage, const std::array<bool, 5>& used, int slice) {
  StageInfo& info = lowering.stages[stage];
  const auto finish = [&](ActionKind kind, PassDraft draft) {
    apply_host_and_jitter(lowering, draft, host_factor(lowering.costs, device_time(draft, false), draft.launches, info.site));
    add_message_work(lowering, stage, kind, draft);
    std::vector<std::pair<int, std::int32_t>> trains;
    const std::int32_t program =
        add_pass_program(lowering, std::move(draft), 1.0 / lowering.plan.schedule.splits, info.site, trains);
    info.programs[static_cast<std::size_t>(slice)][index_of(kind)] = program;
    if (trains.empty()) return;
    const std::int32_t steps = lowering.graph.programs[static_cast<std::size_t>(program)].steps;
    info.train_points[static_cast<std::size_t>(slice)][index_of(kind)] =
        add_points(lowering.graph, program, steps_of_trains(trains, info.trains.size(), steps));
  };
  const auto is_used = [&](ActionKind kind) { return used[index_of(kind)]; };
  // Where nobody waits for the input gradient, W is the whole backward.
  const bool all_in_weight = lowering.backward_all_in_weight(static_cast<int>(stage));
  if (is_used(ActionKind::F)) finish(ActionKind::F, draft_forward(lowering, info, slice));
  if (is_used(ActionKind::B)) finish(ActionKind::B, draft_backward(lowering, info, true, slice));
  if (is_used(ActionKind::R)) finish(ActionKind::R, draft_recompute(lowering, info, info.recompute, slice));
  if (is_used(ActionKind::I)) finish(ActionKind::I, all_in_weight ? PassDraft{} : draft_backward(lowering, info, false, slice));
  if (is_used(ActionKind::W))
    finish(ActionKind::W, all_in_weight ? draft_backward(lowering, info, true, slice) : draft_weight(lowering, info, slice));
}

}  // namespace

void add_collective_flows(Lowering& lowering, const std::vector<CollectiveCost>& collectives) {
  const double share = 1.0 / lowering.plan.schedule.splits;
  for (CollectiveCost cost : collectives) {
    const Duration wire = (cost.time - cost.latency) * share;
    cost.time = cost.latency + wire;
    cost.bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(cost.bytes.base()) * share));
    cost.wire_bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(cost.wire_bytes.base()) * share));
    lowering.graph.flows.push_back({cost, to_ticks(cost.latency), to_ticks(cost.time) - to_ticks(cost.latency)});
  }
}

std::int32_t add_plain_program(TaskGraph& graph, Duration time, const Breakdown& breakdown) {
  PassDraft draft;
  Draft step;
  step.time = time.base();
  draft.steps.push_back(step);
  draft.breakdown = breakdown;
  return add_program(graph, draft, 1);
}

void make_programs(Lowering& lowering) {
  make_flows(lowering);
  std::vector<std::array<bool, 5>> used(lowering.stages.size(), std::array<bool, 5>{});
  for (const auto& row : lowering.plan.schedule.order)
    for (const Action& action : row)
      if (action.is_compute()) used[static_cast<std::size_t>(action.stage)][index_of(action.kind)] = true;
  for (std::size_t s = 0; s < lowering.stages.size(); ++s)
    for (int slice = 0; slice < lowering.plan.schedule.splits; ++slice) make_stage_programs(lowering, s, used[s], slice);
}

}  // namespace panpipe
