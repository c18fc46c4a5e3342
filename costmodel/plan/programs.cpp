// What each pass of a stage does: the costs of its units put one behind another, host effects and jitter worked in, rounded
// to whole picoseconds. docs/models/lowering.md has the equations.
#include <algorithm>
#include <cmath>

#include "costmodel/base/error.hpp"
#include "costmodel/plan/lowering.hpp"

namespace panpipe {

namespace {

// A step in seconds, before scaling and rounding.
struct Draft {
  bool collective = false;
  bool overlapped = false;
  bool synchronous = false;  // behind a meeting of host and device: outside the norm
  bool closed = false;       // compute: nothing may be merged into it any more
  double time = 0;
  std::int32_t flow = -1;
};

struct PassDraft {
  std::vector<Draft> steps;
  Breakdown breakdown;
  int launches = 0;
};

// Time of the steps on idle links as a function of a factor on the scaled compute steps, with its derivative.
struct Slope {
  double value = 0, derivative = 0;
};
Slope later(Slope a, Slope b) { return a.value < b.value ? b : a; }

template <class Steps, class TimeOf>
Slope idle_duration(const Steps& steps, TimeOf time_of) {
  Slope now, communicated;
  bool pending = false, covered = false;
  for (const auto& step : steps) {
    const Slope time = time_of(step);
    if (step.collective) {
      const Slope begin = later(now, communicated);
      communicated = {begin.value + time.value, begin.derivative + time.derivative};
      pending = step.overlapped;
      covered = false;
      if (!step.overlapped) now = communicated;
      continue;
    }
    if (pending && covered) {
      now = later(now, communicated);
      pending = false;
    }
    covered = true;
    now = {now.value + time.value, now.derivative + time.derivative};
  }
  return later(now, communicated);
}

Slope duration_at(const std::vector<Draft>& steps, double factor, bool also_synchronous) {
  return idle_duration(steps, [&](const Draft& step) {
    if (step.collective || (step.synchronous && !also_synchronous)) return Slope{step.time, 0};
    return Slope{step.time * factor, step.time};
  });
}

// Scales the compute steps so that the pass takes `target` on idle links. Newton's method: the duration is convex and
// piecewise linear in the factor, so it ends after a few rounds.
void stretch(std::vector<Draft>& steps, double target, bool also_synchronous) {
  double factor = 1;
  Slope at = duration_at(steps, factor, also_synchronous);
  constexpr double kTolerance = 1e-13;  // far below the picosecond that times are rounded to
  for (int round = 0; round < 50 && std::abs(target - at.value) > kTolerance * target; ++round) {
    const double slope = at.derivative > 0 ? at.derivative : duration_at(steps, factor * 2, also_synchronous).derivative;
    if (slope <= 0) break;
    factor = std::max(0.0, factor + (target - at.value) / slope);
    at = duration_at(steps, factor, also_synchronous);
  }
  for (Draft& step : steps)
    if (!step.collective && (also_synchronous || !step.synchronous)) step.time *= factor;
  if (target - at.value > kTolerance * target) {  // nothing to scale: the host's time stands in front
    Draft host;
    host.time = target - at.value;
    steps.insert(steps.begin(), host);
  }
}

class PassBuilder {
 public:
  PassBuilder(const Lowering& lowering, const StageInfo& info) : lowering_(lowering) {
    const auto type = static_cast<std::size_t>(info.device_type);
    first_flow_ = lowering.flow_of_collective[type];
    share_ = 1.0 / lowering.plan.schedule.splits;
  }

  // Appends a unit's pass. An input gradient's collective hides behind the weight gradient only in a full backward.
  void add(const PassCost& pass, bool may_hide) {
    for (const Piece& piece : pass.pieces) {
      if (piece.collective) {
        add_collective(piece, may_hide && piece.hidden_behind_next);
      } else {
        add_compute(piece.time.base() * share_, pass.synchronises);
      }
    }
    draft_.breakdown = draft_.breakdown + pass.breakdown;
    draft_.launches += pass.launches;
  }
  // What follows starts a compute step of its own: it may not hide the collective that the step before hides.
  void close() {
    if (!draft_.steps.empty()) draft_.steps.back().closed = true;
  }
  PassDraft take() {
    add_overlap_slowdown();
    return std::move(draft_);
  }

 private:
  // Concurrent communication slows compute: each overlapped collective adds to the step it hides behind, for as long as both
  // run.
  void add_overlap_slowdown() {
    auto& steps = draft_.steps;
    for (std::size_t k = 0; k + 1 < steps.size(); ++k) {
      if (!steps[k].overlapped || steps[k + 1].collective) continue;
      const Duration together(std::min(steps[k].time, steps[k + 1].time));
      const Duration lost = lowering_.costs.overlap_slowdown(together);
      steps[k + 1].time += lost.base();
      draft_.breakdown.compute += lost;
    }
  }

  void add_compute(double time, bool synchronous) {
    if (time == 0) return;
    if (!draft_.steps.empty()) {
      Draft& last = draft_.steps.back();
      if (!last.collective && !last.closed && last.synchronous == synchronous) {
        last.time += time;
        return;
      }
    }
    Draft step;
    step.time = time;
    step.synchronous = synchronous;
    draft_.steps.push_back(step);
  }

  void add_collective(const Piece& piece, bool hidden) {
    Draft step;
    step.collective = true;
    step.overlapped = hidden;
    step.flow = first_flow_ + piece.collective_id;
    const CollectiveFlow& flow = lowering_.graph.flows[static_cast<std::size_t>(step.flow)];
    step.time = to_duration(flow.latency + flow.transfer).base();
    draft_.steps.push_back(step);
  }

  const Lowering& lowering_;
  std::int32_t first_flow_ = 0;
  double share_ = 1;
  PassDraft draft_;
};

const PassCost* recompute_cost(const UnitCost& unit, Recompute mode) {
  if (unit.block.empty() || mode == Recompute::None) return nullptr;
  return mode == Recompute::Full ? &unit.recompute_full : &unit.recompute_selective;
}

// Calls visit(first, end) for the stage's blocks from the last to the first; a unit without block is one by itself.
template <class Visit>
void blocks_backwards(const Lowering& lowering, const StageInfo& info, Visit visit) {
  int end = info.end_unit;
  while (end > info.first_unit) {
    const std::string& block = lowering.unit(info, end - 1).block;
    int first = end - 1;
    while (!block.empty() && first > info.first_unit && lowering.unit(info, first - 1).block == block) --first;
    visit(first, end);
    end = first;
  }
}

PassDraft draft_forward(const Lowering& lowering, const StageInfo& info) {
  PassBuilder builder(lowering, info);
  for (int u = info.first_unit; u < info.end_unit; ++u) builder.add(lowering.unit(info, u).forward, true);
  return builder.take();
}

PassDraft draft_weight(const Lowering& lowering, const StageInfo& info) {
  PassBuilder builder(lowering, info);
  for (int u = info.end_unit - 1; u >= info.first_unit; --u) builder.add(lowering.unit(info, u).weight_gradient, true);
  return builder.take();
}

PassDraft draft_recompute(const Lowering& lowering, const StageInfo& info, Recompute mode) {
  PassBuilder builder(lowering, info);
  for (int u = info.first_unit; u < info.end_unit; ++u)
    if (const PassCost* again = recompute_cost(lowering.unit(info, u), mode)) builder.add(*again, true);
  return builder.take();
}

// Block by block from the last: its forward again where the plan says so, then its units' gradients.
PassDraft draft_backward(const Lowering& lowering, const StageInfo& info, bool with_weight) {
  PassBuilder builder(lowering, info);
  const Recompute mode = info.recompute_apart ? Recompute::None : info.recompute;
  blocks_backwards(lowering, info, [&](int first, int end) {
    for (int u = first; u < end; ++u)
      if (const PassCost* again = recompute_cost(lowering.unit(info, u), mode)) builder.add(*again, true);
    for (int u = end - 1; u >= first; --u) {
      const UnitCost& unit = lowering.unit(info, u);
      if (with_weight && unit.backward) {
        builder.add(*unit.backward, true);
        continue;
      }
      builder.add(unit.input_gradient, with_weight);
      if (!with_weight) continue;
      builder.add(unit.weight_gradient, true);
      const auto& pieces = unit.input_gradient.pieces;
      if (std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.hidden_behind_next; })) builder.close();
    }
  });
  return builder.take();
}

double device_time(const PassDraft& draft, bool synchronous_part) {
  double synchronous = 0;
  for (const Draft& step : draft.steps)
    if (step.synchronous) synchronous += step.time;
  return synchronous_part ? synchronous : duration_at(draft.steps, 1, true).value - synchronous;
}

// Device time without the synchronous part after the host-device norm, as a factor: backward passes that are run apart share
// the factor of the two together, because the host launches both.
double host_factor(const Lowering& lowering, const StageInfo& info, double device, int launches) {
  if (device <= 0) return 1;
  launches = launches / lowering.plan.schedule.splits;
  return lowering.costs.host_bound(Duration(device), launches, info.device_type).base() / device;
}

void apply_host_and_jitter(const Lowering& lowering, PassDraft& draft, double factor) {
  const double synchronous = device_time(draft, true), device = device_time(draft, false);
  if (factor != 1) stretch(draft.steps, device * factor + synchronous, false);
  draft.breakdown.launch += Duration(device * (factor - 1));
  const double jitter = lowering.costs.stage_jitter(lowering.plan.pipeline);
  if (jitter != 1) {
    stretch(draft.steps, (device * factor + synchronous) * jitter, true);
    draft.breakdown.compute = draft.breakdown.compute * jitter;
    draft.breakdown.memory = draft.breakdown.memory * jitter;
    draft.breakdown.launch = draft.breakdown.launch * jitter;
  }
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
  const auto first = graph.steps.begin() + program.first_step;
  const std::vector<ProgramStep> steps(first, graph.steps.end());
  program.duration = Ticks(idle_duration(steps, [](const ProgramStep& step) { return Slope{step.time.base(), 0}; }).value);
  program.exposed_communication = Ticks(program.duration.base() - compute);
  program.breakdown = draft.breakdown;
  program.breakdown.work = program.breakdown.work * share;
  program.breakdown.traffic = Bytes(static_cast<std::int64_t>(static_cast<double>(program.breakdown.traffic.base()) * share));
  for (Duration* part : {&program.breakdown.compute, &program.breakdown.memory, &program.breakdown.launch}) *part = *part * share;
  program.breakdown.communication = to_duration(program.exposed_communication);
  program.breakdown.total = to_duration(program.duration);
  graph.programs.push_back(program);
  return static_cast<std::int32_t>(graph.programs.size()) - 1;
}

// Tensor-parallel collectives become flows, one range per device type in use. Under sequence splits each carries its share.
void make_flows(Lowering& lowering) {
  const double share = 1.0 / lowering.plan.schedule.splits;
  lowering.flow_of_collective.assign(std::max<std::size_t>(1, lowering.scenario.cluster.types.size()), -1);
  for (const StageInfo& info : lowering.stages) {
    std::int32_t& first = lowering.flow_of_collective[static_cast<std::size_t>(info.device_type)];
    if (first >= 0) continue;
    first = static_cast<std::int32_t>(lowering.graph.flows.size());
    for (CollectiveCost cost : lowering.workload(info).collectives) {
      const Duration wire = (cost.time - cost.latency) * share;
      cost.time = cost.latency + wire;
      cost.bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(cost.bytes.base()) * share));
      cost.wire_bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(cost.wire_bytes.base()) * share));
      lowering.graph.flows.push_back({cost, to_ticks(cost.latency), to_ticks(cost.time) - to_ticks(cost.latency)});
    }
  }
}

void make_stage_programs(Lowering& lowering, StageInfo& info, const std::array<bool, 5>& used) {
  const auto finish = [&](ActionKind kind, PassDraft draft, double factor) {
    apply_host_and_jitter(lowering, draft, factor);
    info.program[index_of(kind)] = add_program(lowering.graph, draft, 1.0 / lowering.plan.schedule.splits);
  };
  const auto own_factor = [&](const PassDraft& draft) {
    return host_factor(lowering, info, device_time(draft, false), draft.launches);
  };
  if (used[index_of(ActionKind::F)]) {
    PassDraft draft = draft_forward(lowering, info);
    const double factor = own_factor(draft);
    finish(ActionKind::F, std::move(draft), factor);
  }
  if (used[index_of(ActionKind::B)]) {
    PassDraft draft = draft_backward(lowering, info, true);
    const double factor = own_factor(draft);
    finish(ActionKind::B, std::move(draft), factor);
  }
  if (used[index_of(ActionKind::R)]) {
    PassDraft draft = draft_recompute(lowering, info, info.recompute);
    const double factor = own_factor(draft);
    finish(ActionKind::R, std::move(draft), factor);
  }
  if (!used[index_of(ActionKind::I)] && !used[index_of(ActionKind::W)]) return;
  const bool all_in_weight = lowering.backward_all_in_weight(static_cast<int>(&info - lowering.stages.data()));
  PassDraft input, weight;
  if (all_in_weight) {
    weight = draft_backward(lowering, info, true);
  } else {
    input = draft_backward(lowering, info, false);
    weight = draft_weight(lowering, info);
  }
  const double factor =
      host_factor(lowering, info, device_time(input, false) + device_time(weight, false), input.launches + weight.launches);
  if (used[index_of(ActionKind::I)]) finish(ActionKind::I, std::move(input), factor);
  if (used[index_of(ActionKind::W)]) finish(ActionKind::W, std::move(weight), factor);
}

}  // namespace

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
  for (std::size_t s = 0; s < lowering.stages.size(); ++s) make_stage_programs(lowering, lowering.stages[s], used[s]);
}

}  // namespace panpipe
