// Memory of one device of a rank: the static parts, and the bytes that each pass takes, gives back and needs temporarily.
// docs/models/memory.md has the equations.
#include <algorithm>
#include <cmath>

#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/lowering/ring_traffic.hpp"
#include "costmodel/plan/stage_activations.hpp"
#include "costmodel/plan/streamed_weights.hpp"
#include "schedule/rolling.hpp"
#include "schedule/walk.hpp"

namespace panpipe {

namespace {

// Bytes that one slice of the sequence saves: an even share, except for attention scores, which are its own, and for autocast's
// copies of weights, which each slice makes again.
class SliceBytes {
 public:
  SliceBytes(const Lowering& lowering, int slice)
      : lowering_(lowering), slice_(slice), copies_(MemoryModel(lowering.scenario).copies_weights(lowering.plan)) {}
  std::int64_t even(Bytes whole) const { return whole.base() / lowering_.plan.schedule.splits; }
  std::int64_t saved(const UnitCost& unit) const { return activations(unit) + weight_copies(unit, Recompute::None); }
  std::int64_t saved_under(const UnitCost& unit, Recompute mode) const {
    const std::int64_t copies = weight_copies(unit, mode);
    if (unit.block.empty() || mode == Recompute::None) return activations(unit) + copies;
    return even(mode == Recompute::Full ? unit.saved_full : unit.saved_selective) + copies;
  }
  std::int64_t weight_copies(const UnitCost& unit, Recompute mode) const {
    return copies_ ? weight_copies_under(unit, mode).base() : 0;
  }

 private:
  std::int64_t activations(const UnitCost& unit) const {
    if (lowering_.plan.schedule.splits == 1) return unit.saved.base();
    const Bytes core = is_fused(lowering_.scenario.framework.attention) ? Bytes(0) : unit.attention_core;
    return even(unit.saved - core) +
           static_cast<std::int64_t>(static_cast<double>(core.base()) * score_share(lowering_, unit, slice_));
  }

  const Lowering& lowering_;
  int slice_;
  bool copies_;
};

// The activations of a microbatch live from the start of its F to the end of its backward. `kept` is left by F. `live` is found
// by the backward; it is larger if the schedule recomputes activations in a separate pass. A separate I leaves the inputs of the
// weight gradients, and takes only their excess over the live bytes.
void fill_passes(const StageInfo& info, const StageActivations& kept, const StageActivations& live, bool all_in_weight,
                 std::array<StagePass, 5>& passes) {
  const auto bytes = [](std::int64_t value) { return Bytes(std::max<std::int64_t>(value, 0)); };
  const auto set = [&](ActionKind kind, std::int64_t change, std::int64_t rise) {
    passes[index_of(kind)].memory = {bytes(change), bytes(-change), bytes(rise - std::max<std::int64_t>(change, 0))};
  };
  set(ActionKind::F, kept.kept, kept.forward_peak);
  if (info.recompute_apart) set(ActionKind::R, live.kept - kept.kept, live.forward_peak - kept.kept);
  set(ActionKind::B, -live.kept, live.backward_peak);
  if (!info.weight_apart) {
    set(ActionKind::I, -live.kept, live.backward_peak);
  } else if (all_in_weight) {
    set(ActionKind::I, 0, 0);
    set(ActionKind::W, -live.kept, live.backward_peak);
  } else {
    set(ActionKind::I, live.left_by_input(), live.input_rise());
    set(ActionKind::W, -live.kept_for_weight, 0);
  }
}

// The gradients of a slice's keys and values come from the slices behind it too: all of them begin with the last slice, and wait
// until each slice takes its own.
void add_key_gradients(const Lowering& lowering, const StageInfo& info, int slice, PassMemory& backward) {
  if (lowering.attention.units.empty()) return;
  std::int64_t keys = 0, largest = 0;
  for (int u = info.first_unit; u < info.end_unit; ++u) {
    const std::int64_t unit = lowering.attention.units[at(u)].keys.base();
    keys += unit;
    largest = std::max(largest, unit);
  }
  const int last = lowering.plan.schedule.splits - 1;
  const std::int64_t change = (backward.take - backward.give).base() + (slice == last ? last * keys : -keys);
  const std::int64_t rise = (backward.take + backward.temporary).base() + (slice + 1) * largest;  // of one attention at a time
  backward.take = Bytes(std::max<std::int64_t>(change, 0));
  backward.give = Bytes(std::max<std::int64_t>(-change, 0));
  backward.temporary = Bytes(std::max<std::int64_t>(rise - backward.take.base(), 0));
}

// A W that makes a parameter's gradient before it adds it to the sum.
std::int64_t weight_rise(const Lowering& lowering, const StageUnits& info) {
  std::int64_t freed = 0, rise = 0;
  for (int u = info.end_unit - 1; u >= info.first_unit; --u) {
    const UnitCost& unit = info.unit(u);
    std::int64_t largest = 0;
    for (const ParameterUse& use : unit.parameters) largest = std::max(largest, use.elements);
    const double bytes = static_cast<double>(largest) * lowering.costs.gradient_bytes();
    rise = std::max(rise, static_cast<std::int64_t>(bytes) - freed);
    freed += unit.kept_for_weight.base() / lowering.plan.schedule.splits;
  }
  return rise;
}

Bytes whole(double bytes) { return Bytes(static_cast<std::int64_t>(std::ceil(bytes))); }

// The results of a microbatch that its stage keeps to the end of the step.
Bytes joined_outputs(const Lowering& lowering, const StageInfo& info) {
  Bytes outputs(0);
  if (!lowering.scenario.framework.joins_pipeline_outputs || lowering.plan.pipeline == 1) return outputs;
  if (!ways_of_stages(lowering.plan.schedule).empty()) return outputs;  // PyTorch's pipelines have no such stages
  for (int u = info.first_unit; u < info.end_unit; ++u) outputs += info.unit(u).logits;
  return outputs;
}

// The joined results next to what they were joined from; or the optimizer's own next to the latter, which stay to the next step.
Bytes end_of_step(const Lowering& lowering, const MemoryModel& model, int rank, const HeldParameters& held, Bytes of_matrices) {
  std::int64_t largest = 0;  // of those that are stepped element by element
  Bytes outputs(0);
  for (const int s : lowering.stages_of_rank(rank)) {
    const StageInfo& info = lowering.stage(s);
    outputs += joined_outputs(lowering, info) * lowering.microbatches_of_step();
    for (int u = info.first_unit; u < info.end_unit; ++u)
      for (const ParameterUse& use : info.unit(u).parameters)
        if (use.matrices.count == 0) largest = std::max(largest, use.elements);
  }
  const Bytes temporary = whole(model.optimizer_temporary(lowering.costs, lowering.plan, held, largest));
  return outputs + std::max({outputs, temporary, of_matrices});
}

// The bytes that cross the boundaries of a rank's stages, in the rank's order of stages.
std::vector<BoundaryBytes> rank_boundaries(const Lowering& lowering, int rank) {
  std::vector<BoundaryBytes> boundaries;
  for (const int s : lowering.stages_of_rank(rank)) {
    BoundaryBytes& at = boundaries.emplace_back();
    for (const int e : lowering.edges_in[s]) {
      const StageEdge& edge = lowering.edges[e];
      if (edge.forward_link >= 0 || edge.backward_link >= 0) at.in += edge.bytes, at.gradients_out += edge.gradient_bytes;
    }
    for (const int e : lowering.edges_out[s]) {
      const StageEdge& edge = lowering.edges[e];
      if (edge.forward_link >= 0 || edge.backward_link >= 0) at.out += edge.bytes, at.gradients_in += edge.gradient_bytes;
    }
  }
  return boundaries;
}

std::vector<BoundaryBytes> boundaries_by_edge(const Lowering& lowering, int rank) {
  std::vector<BoundaryBytes> boundaries;
  for (const int s : lowering.stages_of_rank(rank)) {
    const StageInfo& info = lowering.stage(s);
    BoundaryBytes& at = boundaries.emplace_back();
    const auto inside = [&](int unit) { return unit >= info.first_unit && unit < info.end_unit; };
    for (const UnitEdge& edge : info.cost->edges) {
      if (inside(edge.to) && !inside(edge.from)) at.in += edge.bytes.base();
      if (inside(edge.from) && !inside(edge.to)) at.out += edge.bytes.base();
    }
    for (int u = info.first_unit; u < info.end_unit; ++u) at.inputs += info.unit(u).graph_inputs.base();
  }
  return boundaries;
}

// Of gradients that several ranks sum.
Bytes bucket_bytes(const Lowering& lowering, const MemoryModel& model, int rank) {
  if (streams_weights(lowering.scenario, lowering.plan)) return Bytes(0);  // the host sums them
  if (!model.copies_to_buckets(lowering.plan))
    return model.buffers_every_edge() ? Bytes(0) : whole(reduction_buckets(lowering.scenario, lowering.plan));
  const HeldParameters summed = summed_parameters(lowering, rank);
  return gradient_size(lowering, summed);
}

RankMemory rank_memory(const Lowering& lowering, const MemoryModel& model, int rank) {
  const bool round = weights_go_round(lowering.scenario, lowering.plan);
  const HeldParameters held = round ? home_stage(lowering) : held_parameters(lowering, lowering.stages_of_rank(rank));
  const StateBytes state = model.state(lowering.costs, lowering.plan);
  const Schedule& schedule = lowering.plan.schedule;
  const Bytes buffers = model.hand_over_buffers(
      model.buffers_every_edge() ? boundaries_by_edge(lowering, rank) : rank_boundaries(lowering, rank), schedule.splits);
  RankMemory memory;
  const int more = weight_versions(schedule) - 1;  // of the weights that are trained
  memory.parts.push_back({MemoryUse::Parameters, whole(state.parameters(held) + more * state.parameters(held.trained()))});
  if (round) memory.parts.back().bytes += travelling_buffers(lowering);
  // Gradients of streamed weights are the passes' own.
  const bool streams = weights_on_host(lowering.scenario, lowering.plan);
  memory.parts.push_back({MemoryUse::Gradients, streams ? Bytes(0) : whole(state.gradients(held))});
  if (const Bytes buckets = bucket_bytes(lowering, model, rank); buckets > Bytes(0))
    memory.parts.push_back({MemoryUse::GradientBuckets, buckets});
  // Whole matrices cannot be divided evenly: the replica that holds most counts.
  const MatrixStep matrices = held.matrix_elements() > 0 && model.counts_recompute() ? matrix_step(lowering, rank) : MatrixStep{};
  memory.parts.push_back({MemoryUse::Optimizer,
                          whole(state.optimizer(held) + state.of_whole_matrices(matrices.elements, matrices.expert_elements))});
  memory.parts.push_back({MemoryUse::BoundaryBuffers, buffers * model.buffered_microbatches(lowering.microbatches_of_step())});
  memory.parts.push_back({MemoryUse::Context, model.context(lowering.costs)});
  memory.allocator_factor = model.allocator_factor(lowering.costs);
  memory.end_of_step = end_of_step(lowering, model, rank, held, matrices.temporary);
  return memory;
}

// Over the devices of a rank; 0 if none states a limit.
Bytes least_limit(const Lowering& lowering, int rank) {
  Bytes least(0);
  for (int t = 0; t < lowering.plan.tensor; ++t) {
    const int device = lowering.plan.device(rank, lowering.replica, t);
    const Bytes limit = memory_limit(lowering.scenario, lowering.scenario.cluster.type_of(device));
    if (limit > Bytes(0) && (least == Bytes(0) || limit < least)) least = limit;
  }
  return least;
}

// The gradients that each stage of a rank allocates; of a parameter that several stages use, the first.
void find_late_gradients(Lowering& lowering, const MemoryModel& model, int rank) {
  if (!model.gradients_come_late(lowering.plan) || streams_weights(lowering.scenario, lowering.plan)) return;
  const StateBytes state = model.state(lowering.costs, lowering.plan);
  std::vector<int> stages;
  double before = 0;
  for (const int s : lowering.stages_of_rank(rank)) {
    stages.push_back(s);
    const double all = std::ceil(state.gradients(held_parameters(lowering, stages)));
    lowering.stage(s).late_gradients = Bytes(static_cast<std::int64_t>(all - before));
    before = all;
  }
}

}  // namespace

Lowering lowered_memory(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  Lowering lowering{scenario, plan, costs};
  make_stages(lowering);
  make_stage_edges(lowering);
  make_memory(lowering);
  return lowering;
}

// A stage's gradients are allocated by the first backward of a step, and freed at its end. Results that a stage keeps are joined,
// and then freed, behind its last backward.
RankPasses::Memory RankPasses::next(const Action& action) {
  const StageInfo& info = lowering_.stage(action.stage);
  Memory memory{lowering_.pass(action).memory};
  if (action.kind == ActionKind::F) memory.take += info.outputs;
  if (info.outputs > Bytes(0) && starts_backward(action.kind) && ++with_outputs_ % lowering_.slices_of_step() == 0)
    memory.give += info.outputs * lowering_.slices_of_step();
  if (info.late_gradients > Bytes(0) && ends_gradient(lowering_, action) && !with_gradients_[action.stage]) {
    with_gradients_[action.stage] = true;
    memory.gradients = info.late_gradients;
  }
  return memory;
}

void make_memory(Lowering& lowering) {
  const MemoryModel model(lowering.scenario);
  for (std::size_t stage = 0; stage < lowering.stages.size(); ++stage) {
    StageInfo& info = lowering.stages[stage];
    const bool all_in_weight = lowering.backward_all_in_weight(static_cast<int>(stage));
    for (std::size_t slice = 0; slice < info.passes.size(); ++slice) {
      const auto memory = [&](ActionKind kind) -> PassMemory& { return info.passes[slice][index_of(kind)].memory; };
      const StageUnits made = stage_of_slice(lowering, info, static_cast<int>(slice));
      const SliceBytes bytes(lowering, static_cast<int>(slice) % lowering.plan.schedule.splits);
      const auto sums = [&](Recompute mode) {
        return model.activations(*made.cost, info.first_unit, info.end_unit, mode, info.recompute_first,
                                 lowering.costs.temporary_over_before(), bytes);
      };
      const StageActivations kept = sums(info.recompute);
      fill_passes(info, kept, info.recompute_apart ? sums(Recompute::None) : kept, all_in_weight, info.passes[slice]);
      const int splits = lowering.plan.schedule.splits, split = static_cast<int>(slice) % splits;
      for (const ActionKind kind : {ActionKind::B, all_in_weight ? ActionKind::W : ActionKind::I})
        if (splits > 1) add_key_gradients(lowering, info, split, memory(kind));
      if (lowering.attention.any() && static_cast<int>(slice) >= splits)
        for (const ActionKind kind : {ActionKind::F, ActionKind::B, ActionKind::I})
          memory(kind).temporary += exchange_memory(lowering, static_cast<int>(stage), split, kind != ActionKind::F);
      if (model.autograd_gradients() && info.weight_apart && !all_in_weight)
        memory(ActionKind::W).temporary = Bytes(weight_rise(lowering, made));
    }
    info.outputs = joined_outputs(lowering, info) / lowering.plan.schedule.splits;
  }
  for (int rank = 0; rank < lowering.plan.pipeline; ++rank) {
    find_late_gradients(lowering, model, rank);
    RankMemory memory = rank_memory(lowering, model, rank);
    memory.limit = least_limit(lowering, rank);
    lowering.graph.memory.push_back(std::move(memory));
  }
}

}  // namespace panpipe
