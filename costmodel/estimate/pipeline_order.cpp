#include "costmodel/estimate/pipeline_order.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/error.hpp"

namespace panpipe {
namespace {

Pass pass_of(const Action& action) {
  if (action.kind > ActionKind::B)
    throw InputError(fmt::format("'{}': only forward and backward passes can be packed", to_text(action)));
  return static_cast<Pass>(action.kind);  // F, I, W, B
}

void pack_groups(const Schedule& schedule, PipelineOrder& order) {
  const auto grouped = [](const Action& a) { return a.group_size != 1; };
  if (std::none_of(schedule.order.begin(), schedule.order.end(),
                   [&](const auto& row) { return std::any_of(row.begin(), row.end(), grouped); }))
    return;
  for (const auto& row : schedule.order)
    for (const Action& action : row) order.cell_size.push_back(action.group_size);
  order.group_of.assign(order.actions.size(), 0);
  std::map<std::vector<PackedAction>, std::uint16_t> known;
  for (std::size_t i = 0; i < order.actions.size(); ++i) {
    if (order.cell_size[i] < 2) continue;
    std::vector<PackedAction> members;
    for (std::size_t k = i; k < i + order.cell_size[i]; ++k) members.push_back(order.actions[k] & 0xFFFF0000U);
    const auto [entry, is_new] = known.try_emplace(members, static_cast<std::uint16_t>(order.groups.size()));
    if (is_new) order.groups.push_back(std::move(members));
    order.group_of[i] = entry->second;
  }
  if (static_cast<std::size_t>(order.stages) * 4 + order.groups.size() >= 65535)
    throw InputError("a packed order holds at most 65534 different passes and groups");
}

}  // namespace

PipelineOrder pack(const Schedule& schedule) {
  if (schedule.splits > 1) throw InputError("only passes of whole sequences can be packed");
  if (schedule.stages > 16383 || schedule.microbatches > 65535)
    throw InputError("a packed order holds at most 16383 stages and 65535 microbatches");
  PipelineOrder order;
  order.stages = schedule.stages;
  order.microbatches = schedule.microbatches;
  order.stage_to_rank = schedule.stage_to_rank;
  order.stage_before.assign(schedule.stages, -1);
  order.stage_after = order.stage_before;
  for (const std::vector<int>& chain : schedule.chains) {
    for (std::size_t i = 1; i < chain.size(); ++i) {
      order.stage_before[chain[i]] = chain[i - 1];
      order.stage_after[chain[i - 1]] = chain[i];
    }
  }
  order.rank_begin.push_back(0);
  for (const std::vector<Action>& rank : schedule.order) {
    for (const Action& action : rank) order.actions.push_back(pack(pass_of(action), action.stage, action.microbatch));
    order.rank_begin.push_back(static_cast<std::uint32_t>(order.actions.size()));
  }
  pack_groups(schedule, order);
  return order;
}

void StructureBuilder::prepare(const PipelineOrder& order, Structure& structure) {
  const auto stages = static_cast<std::uint32_t>(order.stages);
  // Microbatches are the rows of ids_: the ranks work on neighbouring ones at a time, so what is in use lies together.
  const std::uint32_t always = 2 * stages, never_read = always + 1;
  width_ = never_read + 1;
  rows_.resize(stages * 4);
  const auto same_rank = [&](std::uint32_t a, int b) { return order.stage_to_rank[a] == order.stage_to_rank[b]; };
  for (std::uint32_t s = 0; s < stages; ++s) {
    const std::uint32_t forward = s, gradient = stages + s;
    const int before = order.stage_before[s], after = order.stage_after[s];
    Row f{always, always, forward, 0, 0}, back{always, forward, gradient, 0, 0};
    if (before >= 0) {
      f.input = static_cast<std::uint32_t>(before);
      if (!same_rank(s, before)) f.src_mask = kUnset, f.delay = static_cast<std::uint16_t>(forward_delay_entry(before));
    }
    if (after >= 0) {
      back.input = stages + static_cast<std::uint32_t>(after);
      if (!same_rank(s, after)) back.src_mask = kUnset, back.delay = static_cast<std::uint16_t>(backward_delay_entry(after));
    }
    rows_[s * 4 + static_cast<std::uint32_t>(Pass::F)] = f;
    rows_[s * 4 + static_cast<std::uint32_t>(Pass::I)] = back;
    rows_[s * 4 + static_cast<std::uint32_t>(Pass::W)] = {always, gradient, never_read, 0, 0};
    rows_[s * 4 + static_cast<std::uint32_t>(Pass::B)] = back;
  }
  ids_.assign(static_cast<std::size_t>(order.microbatches) * width_, kUnset);
  for (std::size_t i = always; i < ids_.size(); i += width_) ids_[i] = 0;
  const auto ranks = static_cast<std::uint32_t>(order.rank_begin.size() - 1);
  structure.delay_entries = stages * 2 + 1;
  structure.lane_last.assign(ranks, 0);
  heads_.clear();
  for (std::uint32_t r = 0; r < ranks; ++r)
    if (order.rank_begin[r] != order.rank_begin[r + 1]) heads_.push_back({order.rank_begin[r], order.rank_begin[r + 1], 0, r});
}

// Sweeps over the ranks; a sweep is a level. A rank's next action is emitted when everything it reads is from an earlier level.
bool StructureBuilder::build(const PipelineOrder& order, Structure& structure) {
  prepare(order, structure);
  if (!order.groups.empty()) return build_cells(order, structure);
  const auto tasks = static_cast<std::uint32_t>(order.actions.size());
  resize(structure, tasks);
  structure.cost_entries = static_cast<std::uint32_t>(order.stages) * 4 + 1;
  const PackedAction* const actions = order.actions.data();
  const Row* const rows = rows_.data();
  std::uint32_t* const ids = ids_.data();
  const std::size_t width = width_;
  std::uint32_t* __restrict lane_pred = structure.lane_pred.data();
  std::uint32_t* __restrict src = structure.src.data();
  std::uint16_t* __restrict cost = structure.cost.data();
  std::uint16_t* __restrict delay = structure.delay.data();
  lane_pred[0] = src[0] = cost[0] = delay[0] = 0;
  std::uint32_t t = 1;
  while (t <= tasks) {
    const std::uint32_t level_begin = t;
    bool finished_rank = false;
    for (Head& head : heads_) {
      const PackedAction action = actions[head.next];
      const Row& row = rows[action >> 16];
      std::uint32_t* const made = ids + (action & 0xFFFFU) * width;
      const std::uint32_t input = made[row.input];
      if (input >= level_begin || made[row.own] >= level_begin) continue;
      lane_pred[t] = head.last;
      src[t] = input & row.src_mask;
      cost[t] = static_cast<std::uint16_t>((action >> 16) + 1);
      delay[t] = row.delay;
      made[row.output] = t;
      head.last = t++;
      finished_rank |= ++head.next == head.end;
    }
    if (t == level_begin) return false;
    if (finished_rank) {
      for (const Head& head : heads_) structure.lane_last[head.rank] = head.last;
      std::erase_if(heads_, [](const Head& head) { return head.next == head.end; });
    }
  }
  return true;
}

}  // namespace panpipe
