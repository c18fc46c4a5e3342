// The programs of the stages' passes and of the groups of the schedule. docs/models/lowering.md has the equations.
#include <algorithm>

#include "costmodel/lowering/pass_draft.hpp"

namespace panpipe {

namespace {

// By train of the stage: how many steps of the pass come before its gradients are whole; -1 = all.
std::vector<std::int32_t> steps_of_trains(const std::vector<std::pair<int, std::int32_t>>& found, std::size_t trains,
                                          std::int32_t steps) {
  std::vector<std::int32_t> result(trains, -1);
  for (const auto& [train, before] : found)
    if (before < steps) result[train] = before;
  // One that the pass could not stop for is ready with the next one.
  for (std::size_t k = trains; k-- > 1;)
    if (result[k - 1] < 0) result[k - 1] = result[k];
  return result;
}

Ticks time_of_steps(const TaskGraph& graph, std::int32_t program, std::int32_t steps) {
  Program part = graph.programs[program];
  part.steps = steps;
  measure_alone(graph, part);
  return part.duration;
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
  for (const StageInfo& info : lowering.stages)
    for (const LengthSite& length : info.lengths) {
      const auto first = static_cast<std::int32_t>(lowering.graph.flows.size());
      if (!lowering.flow_of_collective.try_emplace(length.site, first).second) continue;
      add_collective_flows(lowering, length.cost->collectives);
    }
}

// Seconds that a stage's end of its messages takes from a pass.
double message_work(const Lowering& lowering, std::size_t stage, ActionKind kind, int slice) {
  double sum = 0;
  for (const auto* edges : {&lowering.edges_in[stage], &lowering.edges_out[stage]})
    for (const int e : *edges) {
      const StageEdge& edge = lowering.edges[e];
      for (const bool backward : {false, true}) {
        if (!has_messages(kind, backward) || (backward ? edge.backward_link : edge.forward_link) < 0) continue;
        const StageLink& sent = edge.lengths[at(lowering.length_of_slice(slice))];
        const std::int64_t bytes = backward ? sent.gradient_bytes : sent.bytes;
        sum += lowering.costs.message_work(Bytes(bytes / lowering.plan.schedule.splits)).base();
      }
    }
  return sum;
}

// It comes first, and neither the host nor jitter makes it longer.
void add_message_work(const Lowering& lowering, std::size_t stage, ActionKind kind, int slice, PassDraft& draft) {
  UnitPiece piece;
  piece.time = message_work(lowering, stage, kind, slice);
  piece.given = true;
  if (piece.time <= 0) return;
  draft.pieces.insert(draft.pieces.begin(), piece);
  for (std::size_t& end : draft.part_ends) ++end;
}

void make_stage_programs(Lowering& lowering, std::size_t stage, int slice) {
  StageInfo& info = lowering.stages[stage];
  const StageUnits made = stage_of_slice(lowering, info, slice);
  const bool all_in_weight = lowering.backward_all_in_weight(static_cast<int>(stage));
  for (const ActionKind kind : {ActionKind::F, ActionKind::B, ActionKind::R, ActionKind::I, ActionKind::W}) {
    StagePass& pass = info.passes[slice][index_of(kind)];
    if (!pass.used) continue;
    PassDraft draft;
    draft.site = made.site;
    if (const auto work = work_of_pass(kind, all_in_weight))
      draft = draft_pass(lowering, made, *work, slice % lowering.plan.schedule.splits);
    add_message_work(lowering, stage, kind, slice, draft);
    DraftProgram steps = steps_alone(lowering, draft);
    const std::int32_t program = add_program(lowering, steps, draft);
    lowering.drafts.resize(lowering.graph.programs.size());
    lowering.drafts.back() = std::move(draft);
    pass.program = program;
    pass.parts.ends = steps.part_ends;
    if (!steps.trains.empty())
      pass.train_points = add_points(lowering.graph, program,
                                     steps_of_trains(steps.trains, info.trains.size(), lowering.graph.programs[program].steps));
  }
}

}  // namespace

void add_collective_flows(Lowering& lowering, const std::vector<CollectiveCost>& collectives) {
  const double share = 1.0 / lowering.plan.schedule.splits;
  for (CollectiveCost cost : collectives) {
    const Duration wire = (cost.time - cost.latency) * share;
    cost.time = cost.latency + wire;
    cost.bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(cost.bytes.base()) * share));
    cost.wire_bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(cost.wire_bytes.base()) * share));
    lowering.add_flow(cost);
  }
}

std::int32_t Lowering::add(Program program) {
  measure_alone(graph, program);
  graph.programs.push_back(program);
  member_ends.resize(graph.programs.size());
  return static_cast<std::int32_t>(graph.programs.size()) - 1;
}

std::int32_t Lowering::add_plain_program(Duration time, const Breakdown& breakdown) {
  Program program;
  program.first_step = static_cast<std::int32_t>(graph.steps.size());
  program.steps = 1;
  program.breakdown = breakdown;
  graph.steps.emplace_back().time = to_ticks(time);
  return add(program);
}

void make_programs(Lowering& lowering) {
  make_flows(lowering);
  for (const auto& row : lowering.plan.schedule.order)
    for (const Action& action : row)
      if (action.is_compute()) lowering.pass(action).used = true;
  for (std::size_t s = 0; s < lowering.stages.size(); ++s)
    for (std::size_t slice = 0; slice < lowering.stages[s].passes.size(); ++slice)
      make_stage_programs(lowering, s, static_cast<int>(slice));
  for (const auto& row : lowering.plan.schedule.order)
    for (std::size_t i = 0; i < row.size(); i += std::max<std::size_t>(1, row[i].group_size)) {
      if (row[i].group_size <= 1) continue;
      const std::vector<std::int32_t> members = lowering.programs_of_cell(row, i);
      if (members.size() > 1) add_group_program(lowering, members);
    }
}

}  // namespace panpipe
