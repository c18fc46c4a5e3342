// Passes whose parameters are gathered block by block: their parts, the exchanges at each, and the time of a part next to them.
// docs/models/lowering.md has the rules.
#include <algorithm>

#include "costmodel/lowering/lowering.hpp"

namespace panpipe {

namespace {

bool runs_forwards(ActionKind kind) { return kind == ActionKind::F || kind == ActionKind::R; }

std::vector<GatheredPart> parts_of(const StageUnits& info) {
  const std::vector<UnitCost>& units = info.cost->units;
  const bool blocks = std::any_of(units.begin(), units.end(), [](const UnitCost& unit) { return !unit.block.empty(); });
  return gathered_parts(info.first_unit, info.end_unit, blocks, [&](int u) -> const std::string& { return units[u].block; });
}

}  // namespace

void make_stage_parts(Lowering& lowering) {
  if (!lowering.plan.exchanges() || lowering.whole_reductions) return;
  if (lowering.zero() < 3 && !overlaps_gathers(lowering.scenario.framework, lowering.zero())) return;
  for (StageInfo& info : lowering.stages) info.parts = parts_of(info);
}

bool has_parts(const Lowering& lowering, ActionKind kind) { return lowering.zero() >= 3 || kind == ActionKind::F; }

GatheredBlocks gathered_blocks(const Lowering& lowering, const StageInfo& info) {
  // Parameters of a rank without peers need no gather.
  const Plan& plan = lowering.plan;
  const bool others = !plan.experts_apart() || plan.replicas() > 1, experts = !plan.experts_apart() || plan.expert_holders() > 1;
  const auto size_of = [&](const HeldParameters& held) {
    return (others ? weight_size(lowering, held.others) : Bytes(0)) + (experts ? weight_size(lowering, held.experts) : Bytes(0));
  };
  const auto block_of = [&](int u) -> const std::string& { return info.unit(u).block; };
  std::vector<Bytes> sizes, blocks;
  int u = info.first_unit;
  for (const HeldParameters& held : held_by_block(*info.cost, info.first_unit, info.end_unit)) {
    sizes.push_back(size_of(held));
    const std::string& block = block_of(u);
    if (!block.empty()) blocks.push_back(sizes.back());
    while (++u < info.end_unit && !block.empty() && block_of(u) == block) {
    }
  }
  // FSDP's root holds all that is outside blocks, from the begin of a pass to its end.
  HeldParameters root;
  FirstUses is_first;
  if (mixed_precision_in_effect(lowering.scenario.framework, plan) == MixedPrecision::Sharded)
    for (u = info.first_unit; u < info.end_unit; ++u)
      if (block_of(u).empty()) each_first_use(info, u, u + 1, is_first, [&](const ParameterUse& use, int) { root.add(use); });
  const auto at_once = [](const std::vector<Bytes>& neighbours, std::size_t most) {
    Bytes largest(0);
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      Bytes sum(0);
      for (std::size_t k = i; k < std::min(neighbours.size(), i + most); ++k) sum += neighbours[k];
      largest = std::max(largest, sum);
    }
    return largest;
  };
  GatheredBlocks gathered;
  const auto most = static_cast<std::size_t>(std::max(1, lowering.scenario.framework.gathers_in_flight));
  const bool rooted = !blocks.empty() && root.tensors() > 0;
  gathered.at_once = std::max(at_once(sizes, most), rooted ? size_of(root) + at_once(blocks, most - 1) : Bytes(0));
  gathered.first = sizes.front();
  gathered.last = sizes.back();
  gathered.one_block = sizes.size() == 1;
  return gathered;
}

std::vector<PartTraffic> traffic_of(const Lowering& lowering, int stage, ActionKind kind) {
  const StageInfo& info = lowering.stage(stage);
  const std::optional<ActionKind> work = work_of_pass(kind, lowering.backward_all_in_weight(stage));
  Action action;
  action.kind = kind;
  action.stage = stage;
  const bool gathers = work.has_value() && *work != ActionKind::W;
  const bool reduces = lowering.zero() >= 3 && ends_gradient(lowering, action);
  std::vector<PartTraffic> traffic(info.parts.size());
  std::vector<std::size_t> last(info.groups());
  std::vector<bool> seen(last.size(), false);
  for (std::size_t k = 0; k < traffic.size(); ++k) {
    const int group = info.parts[runs_forwards(kind) ? k : traffic.size() - 1 - k].group;
    const auto g = static_cast<std::size_t>(group);
    if (gathers && !seen[g]) traffic[k].gather = group;
    seen[g] = true;
    last[g] = k;
  }
  for (std::size_t g = 0; g < last.size() && reduces; ++g) traffic[last[g]].reduce = static_cast<int>(g);
  return traffic;
}

// A part runs next to the gather for the next one, unless nothing is gathered ahead, and next to the reduction of the previous
// one.
void add_part_programs(Lowering& lowering, int stage, const RankReductions& reductions) {
  StageInfo& info = lowering.stage(stage);
  const StageFlows& flows_of = reductions.of_stage[stage];
  const auto time_of = [&](const std::vector<std::int32_t>& flows, int group) {
    const std::int32_t flow = group < 0 ? -1 : flows[group];
    if (flow < 0) return Ticks(0);
    Ticks time(0);
    for (std::int32_t f = flow; f >= 0; f = lowering.graph.flows[f].next) {
      const CollectiveFlow& of = lowering.graph.flows[f];
      time += of.latency + of.transfer;
    }
    return time;
  };
  const bool ahead = lowering.zero() < 3 || lowering.scenario.framework.gathers_in_flight > 1;
  for (auto& passes : info.passes)
    for (const ActionKind kind : {ActionKind::F, ActionKind::I, ActionKind::W, ActionKind::B, ActionKind::R}) {
      PassParts& pass = passes[index_of(kind)].parts;
      if (pass.ends.empty()) continue;
      const std::vector<PartTraffic> traffic = traffic_of(lowering, stage, kind);
      std::int32_t begin = 0;
      for (std::size_t k = 0; k < traffic.size(); ++k) {
        Ticks overlap(0);
        if (ahead && k + 1 < traffic.size()) overlap += time_of(flows_of.group_gathers, traffic[k + 1].gather);
        if (k > 0) overlap += time_of(flows_of.group_reductions, traffic[k - 1].reduce);
        pass.programs.push_back(add_part_program(lowering, passes[index_of(kind)].program, begin, pass.ends[k], overlap));
        begin = pass.ends[k];
      }
    }
}

}  // namespace panpipe
