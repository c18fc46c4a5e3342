// Memory of one device of a rank: the static parts, and the bytes that each pass takes, gives back and needs temporarily.
// docs/models/memory.md has the equations.
#include <algorithm>
#include <cmath>
#include <string>

#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/plan/stage_activations.hpp"

namespace panpipe {

namespace {

// Bytes that one slice of the sequence saves: an even share, except for attention scores, which are its own.
class SliceBytes {
 public:
  SliceBytes(const Lowering& lowering, int slice) : lowering_(lowering), slice_(slice) {}
  std::int64_t even(Bytes whole) const { return whole.base() / lowering_.plan.schedule.splits; }
  std::int64_t saved(const UnitCost& unit) const {
    if (lowering_.plan.schedule.splits == 1) return unit.saved.base();
    const Bytes core = is_fused(lowering_.scenario.framework.attention) ? Bytes(0) : unit.attention_core;
    return even(unit.saved - core) +
           static_cast<std::int64_t>(static_cast<double>(core.base()) * score_share(lowering_, unit, slice_));
  }
  std::int64_t saved_under(const UnitCost& unit, Recompute mode) const {
    if (unit.block.empty() || mode == Recompute::None) return saved(unit);
    return even(mode == Recompute::Full ? unit.saved_full : unit.saved_selective);
  }

 private:
  const Lowering& lowering_;
  int slice_;
};

// The activations of a microbatch live from the start of its F to the end of its backward. `kept` is left by F. `live` is found
// by the backward; it is larger if the schedule recomputes activations in a separate pass. A separate I leaves the inputs of the
// weight gradients, and takes only their excess over the live bytes.
void fill_passes(const StageInfo& info, const StageActivations& kept, const StageActivations& live, bool all_in_weight,
                 std::array<PassMemory, 5>& memory) {
  const auto bytes = [](std::int64_t value) { return Bytes(std::max<std::int64_t>(value, 0)); };
  const auto set = [&](ActionKind kind, std::int64_t change, std::int64_t rise) {
    memory[index_of(kind)] = {bytes(change), bytes(-change), bytes(rise - std::max<std::int64_t>(change, 0))};
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

// A W that makes a parameter's gradient before it adds it to the sum.
std::int64_t weight_rise(const Lowering& lowering, const StageInfo& info) {
  std::int64_t freed = 0, rise = 0;
  for (int u = info.end_unit - 1; u >= info.first_unit; --u) {
    const UnitCost& unit = lowering.unit(info, u);
    std::int64_t largest = 0;
    for (const ParameterUse& use : unit.parameters) largest = std::max(largest, use.elements);
    const double bytes = static_cast<double>(largest) * lowering.costs.gradient_bytes();
    rise = std::max(rise, static_cast<std::int64_t>(bytes) - freed);
    freed += unit.kept_for_weight.base() / lowering.plan.schedule.splits;
  }
  return rise;
}

// As in Pfeife's planner (ICML 2025, github MerHS/pfeife): the temporary of a stage is the largest of (activations up to and
// including an operator, plus that operator's own temporary), for F and B alike, and I frees nothing.
void fill_pfeife_passes(const Lowering& lowering, StageInfo& info) {
  std::int64_t kept = 0, peak = 0;
  for (int u = info.first_unit; u < info.end_unit; ++u) {
    kept += lowering.unit(info, u).saved.base();
    peak = std::max(peak, kept + lowering.unit(info, u).temporary.base());
  }
  const Bytes temporary(peak - kept);
  std::array<PassMemory, 5> memory{};
  memory[index_of(ActionKind::F)] = {Bytes(kept), Bytes(0), temporary};
  memory[index_of(ActionKind::B)] = {Bytes(0), Bytes(kept), temporary};
  memory[index_of(ActionKind::I)] = {Bytes(0), info.weight_apart ? Bytes(0) : Bytes(kept), temporary};
  memory[index_of(ActionKind::W)] = {Bytes(0), Bytes(kept), Bytes(0)};
  info.memory.assign(info.memory.size(), memory);
}

Bytes whole(double bytes) { return Bytes(static_cast<std::int64_t>(std::ceil(bytes))); }

// One message waits for the pass that reads it: in all of the executor's transports a posted receive takes no memory before its
// message arrives. A pass sends its own result, which is soon received.
Bytes waiting_message(const Lowering& lowering, int rank) {
  Bytes most(0);
  for (const int s : lowering.stages_of_rank(rank)) {
    Bytes forward(0), backward(0);
    for (const int e : lowering.edges_in[static_cast<std::size_t>(s)])
      if (lowering.edges[static_cast<std::size_t>(e)].forward_link >= 0)
        forward += Bytes(lowering.edges[static_cast<std::size_t>(e)].bytes);
    for (const int e : lowering.edges_out[static_cast<std::size_t>(s)])
      if (lowering.edges[static_cast<std::size_t>(e)].backward_link >= 0)
        backward += Bytes(lowering.edges[static_cast<std::size_t>(e)].gradient_bytes);
    most = std::max({most, forward, backward});
  }
  return Bytes(most.base() / lowering.plan.schedule.splits);
}

// Buffers of stage hand-overs: one to receive into and one to send from per neighbour and direction.
Bytes boundary_buffers(const Lowering& lowering, int rank) {
  if (lowering.scenario.framework.hand_over_buffers == HandOverBuffers::Waiting) return waiting_message(lowering, rank);
  Bytes sum(0);
  for (const StageEdge& edge : lowering.edges) {
    if (edge.forward_link < 0) continue;
    const int ends = (lowering.stage(edge.from).rank == rank ? 1 : 0) + (lowering.stage(edge.to).rank == rank ? 1 : 0);
    sum += Bytes((edge.bytes + edge.gradient_bytes) / lowering.plan.schedule.splits * ends);
  }
  return sum;
}

// Gradients that several ranks sum: autograd's own are copied to buckets at the end of the step. In mixed precision they are
// accumulated in the buckets themselves.
Bytes bucket_bytes(const Lowering& lowering, int rank) {
  const Precision precision = lowering.scenario.precision;
  if (!lowering.autograd_gradients() || is_mixed(precision)) return Bytes(0);
  return gradient_size(lowering, summed_parameters(lowering, rank));
}

RankMemory rank_memory(const Lowering& lowering, int rank) {
  const LoweringCosts& costs = lowering.costs;
  const HeldParameters held = held_parameters(lowering, lowering.stages_of_rank(rank));
  const auto others = static_cast<double>(held.others().elements), experts = static_cast<double>(held.experts);
  const ElementBytes of_experts = costs.expert_bytes();
  const auto given = static_cast<double>(held.given.base());
  const double group = lowering.plan.shard_group();
  const int zero = lowering.zero();
  const int moment_copies = moments(lowering.scenario.optimizer.name);  // of parameters that are given in bytes
  RankMemory memory;
  const auto divided = [&](int stage) { return zero >= stage ? given / group : given; };  // the model divides its own
  // Frozen weights and copies in 8 bits; under ZeRO 3 they come and go block by block, and their copies with them.
  const auto besides = [&](const HeldParameters& part, double shares) {
    if (zero < 3 || shares == 1) return static_cast<double>((part.frozen + part.copies).base());
    return static_cast<double>((part.frozen - part.narrower).base()) / shares;
  };
  const double expert_group =
      of_experts.parameter > 0 ? group * costs.parameter_bytes() / of_experts.parameter : group;  // both divide one format
  const double weights = others * costs.parameter_bytes() + experts * of_experts.parameter + divided(3) +
                         besides(held.others(), group) + besides(held.only_experts(), expert_group);
  memory.parts.push_back({MemoryUse::Parameters, whole(lowering.scenario.offload.parameters ? 0 : weights)});
  memory.parts.push_back(
      {MemoryUse::Gradients, whole(others * costs.gradient_bytes() + experts * of_experts.gradient + divided(2))});
  if (const Bytes buckets = bucket_bytes(lowering, rank); buckets > Bytes(0))
    memory.parts.push_back({MemoryUse::GradientBuckets, buckets});
  memory.parts.push_back({MemoryUse::Optimizer,
                          whole(others * costs.optimizer_bytes() + experts * of_experts.optimizer + moment_copies * divided(1))});
  memory.parts.push_back({MemoryUse::BoundaryBuffers, boundary_buffers(lowering, rank)});
  memory.parts.push_back({MemoryUse::Context, costs.framework_context()});
  memory.allocator_factor = costs.allocator_factor();
  return memory;
}

// Static bytes as Pfeife counts them: four copies of the parameters, and per stage and microbatch of the step three buffers of
// what comes in (input, its gradient, a clone), two of what goes out, one of the graph's inputs.
RankMemory pfeife_rank_memory(const Lowering& lowering, int rank) {
  const std::vector<int>& stages = lowering.stages_of_rank(rank);
  const HeldParameters held = held_parameters(lowering, stages);
  const Bytes parameters = held.given + whole(static_cast<double>(held.elements) * lowering.costs.parameter_bytes());
  std::vector<int> stage_of(lowering.workload(lowering.stages.front()).units.size(), -1);
  for (std::size_t s = 0; s < lowering.stages.size(); ++s)
    std::fill(stage_of.begin() + lowering.stages[s].first_unit, stage_of.begin() + lowering.stages[s].end_unit,
              static_cast<int>(s));
  Bytes buffers(0);
  for (const int s : stages) {
    const StageInfo& info = lowering.stage(s);
    Bytes in(0), out(0), inputs(0);
    for (const UnitEdge& edge : lowering.workload(info).edges) {  // every edge: a tensor read twice counts twice
      const int from = stage_of[static_cast<std::size_t>(edge.from)], to = stage_of[static_cast<std::size_t>(edge.to)];
      if (from == to) continue;
      if (to == s) in += edge.bytes;
      if (from == s) out += edge.bytes;
    }
    for (int u = info.first_unit; u < info.end_unit; ++u) inputs += lowering.unit(info, u).graph_inputs;
    buffers += (3 * in + 2 * out + inputs) * lowering.plan.schedule.microbatches;
  }
  RankMemory memory;
  memory.parts = {{MemoryUse::Parameters, parameters},
                  {MemoryUse::Gradients, parameters},
                  {MemoryUse::Optimizer, 2 * parameters},
                  {MemoryUse::BoundaryBuffers, buffers}};
  return memory;
}

}  // namespace

namespace {

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

}  // namespace

void make_memory(Lowering& lowering) {
  const bool pfeife = lowering.scenario.memory_model == MemoryModelKind::Pfeife;
  for (std::size_t stage = 0; stage < lowering.stages.size(); ++stage) {
    StageInfo& info = lowering.stages[stage];
    if (pfeife) {
      fill_pfeife_passes(lowering, info);
      continue;
    }
    const bool all_in_weight = lowering.backward_all_in_weight(static_cast<int>(stage));
    for (std::size_t slice = 0; slice < info.memory.size(); ++slice) {
      auto& memory = info.memory[slice];
      const auto sums = [&](Recompute mode) {
        return sum_activations(lowering.workload(info), info.first_unit, info.end_unit, mode,
                               lowering.costs.temporary_over_before(), SliceBytes(lowering, static_cast<int>(slice)));
      };
      const StageActivations kept = sums(info.recompute);
      fill_passes(info, kept, info.recompute_apart ? sums(Recompute::None) : kept, all_in_weight, memory);
      if (lowering.autograd_gradients() && info.weight_apart && !all_in_weight)
        memory[index_of(ActionKind::W)].temporary = Bytes(weight_rise(lowering, info));
    }
  }
  for (int rank = 0; rank < lowering.plan.pipeline; ++rank) {
    RankMemory memory = pfeife ? pfeife_rank_memory(lowering, rank) : rank_memory(lowering, rank);
    memory.limit = least_limit(lowering, rank);
    lowering.graph.memory.push_back(std::move(memory));
  }
}

}  // namespace panpipe
