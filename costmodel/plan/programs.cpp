// The programs of a stage's passes: drafts rounded to whole picoseconds. docs/models/lowering.md has the equations.
#include <algorithm>
#include <cmath>

#include "costmodel/base/error.hpp"
#include "costmodel/plan/pass_draft.hpp"

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

std::int32_t add_pass_program(Lowering& lowering, PassDraft draft, double share) {
  if (!lowering.graph.by_units) return add_program(lowering.graph, draft, share);
  const WovenProgram woven = weave(lowering.graph, {&draft.pieces}, false);
  const std::int32_t program = add_unit_program(lowering, woven, 1, false, shared_out(draft.breakdown, share));
  lowering.unit_pieces[static_cast<std::size_t>(program)] = std::move(draft.pieces);
  return program;
}

void make_flows(Lowering& lowering) {
  lowering.flow_of_collective.assign(std::max<std::size_t>(1, lowering.scenario.cluster.types.size()), -1);
  for (const StageInfo& info : lowering.stages) {
    std::int32_t& first = lowering.flow_of_collective[static_cast<std::size_t>(info.device_type)];
    if (first >= 0) continue;
    first = static_cast<std::int32_t>(lowering.graph.flows.size());
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
  draft.pieces.insert(draft.pieces.begin(), piece);
}

void make_stage_programs(Lowering& lowering, std::size_t stage, const std::array<bool, 5>& used, int slice) {
  StageInfo& info = lowering.stages[stage];
  const auto finish = [&](ActionKind kind, PassDraft draft, double factor) {
    apply_host_and_jitter(lowering, draft, factor);
    add_message_work(lowering, stage, kind, draft);
    info.programs[static_cast<std::size_t>(slice)][index_of(kind)] =
        add_pass_program(lowering, std::move(draft), 1.0 / lowering.plan.schedule.splits);
  };
  const auto own_factor = [&](const PassDraft& draft) {
    return host_factor(lowering.costs, device_time(draft, false), draft.launches, info.device_type);
  };
  if (used[index_of(ActionKind::F)]) {
    PassDraft draft = draft_forward(lowering, info, slice);
    const double factor = own_factor(draft);
    finish(ActionKind::F, std::move(draft), factor);
  }
  if (used[index_of(ActionKind::B)]) {
    PassDraft draft = draft_backward(lowering, info, true, slice);
    const double factor = own_factor(draft);
    finish(ActionKind::B, std::move(draft), factor);
  }
  if (used[index_of(ActionKind::R)]) {
    PassDraft draft = draft_recompute(lowering, info, info.recompute, slice);
    const double factor = own_factor(draft);
    finish(ActionKind::R, std::move(draft), factor);
  }
  if (!used[index_of(ActionKind::I)] && !used[index_of(ActionKind::W)]) return;
  const bool all_in_weight = lowering.backward_all_in_weight(static_cast<int>(stage));
  PassDraft input, weight;
  if (all_in_weight) {
    weight = draft_backward(lowering, info, true, slice);
  } else {
    input = draft_backward(lowering, info, false, slice);
    weight = draft_weight(lowering, info, slice);
  }
  // Backward passes that are run apart share the factor of the two together, because the host launches both.
  const double factor = host_factor(lowering.costs, device_time(input, false) + device_time(weight, false),
                                    input.launches + weight.launches, info.device_type);
  if (used[index_of(ActionKind::I)]) finish(ActionKind::I, std::move(input), factor);
  if (used[index_of(ActionKind::W)]) finish(ActionKind::W, std::move(weight), factor);
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
