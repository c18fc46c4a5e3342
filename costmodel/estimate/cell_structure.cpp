// Structures of orders with groups, for lower bounds. A cell (a lone pass or a group) is emitted when all inputs of its members
// come from an earlier level. A group becomes one task for its total, and three tasks for each member.
#include <algorithm>

#include "base/error.hpp"
#include "costmodel/estimate/pipeline_order.hpp"

namespace panpipe {
namespace {

std::uint32_t append(Structure& structure, std::uint32_t lane_pred, std::uint32_t src, std::uint16_t delay, std::uint32_t cost) {
  structure.lane_pred.push_back(lane_pred);
  structure.src.push_back(src);
  structure.delay.push_back(delay);
  structure.cost.push_back(static_cast<std::uint16_t>(cost));
  return ++structure.tasks;
}

}  // namespace

bool StructureBuilder::cell_is_ready(const PipelineOrder& order, const Head& head, std::uint32_t level_begin) const {
  for (std::uint32_t i = head.next; i < head.next + order.cell_size[head.next]; ++i) {
    const Row& row = row_of(order.actions[i]);
    const std::uint32_t* const made = made_of(order.actions[i]);
    if (made[row.input] >= level_begin || made[row.own] >= level_begin) return false;
  }
  return true;
}

// The members side by side behind what the rank did before.
void StructureBuilder::emit_cell(const PipelineOrder& order, Head& head, Structure& structure) {
  const std::uint32_t first = head.next, before = head.last;
  head.next += order.cell_size[first];
  const bool lone = head.next == first + 1;
  if (!lone) head.last = append(structure, before, 0, 0, group_entry(order.stages, order.group_of[first]));
  for (std::uint32_t i = first; i < head.next; ++i) {
    const PackedAction action = order.actions[i];
    const Row& row = row_of(action);
    std::uint32_t* const made = made_of(action);
    const std::uint32_t entry = lone ? cost_entry(pass_of(action), stage_of(action))
                                     : member_entry(order.stages, order.groups.size(), pass_of(action), stage_of(action));
    const std::uint32_t task = append(structure, before, made[row.input] & row.src_mask, row.delay, entry);
    made[row.output] = task;
    head.last = lone ? task : append(structure, head.last, task, 0, 0);
  }
}

bool StructureBuilder::build_cells(const PipelineOrder& order, Structure& structure) {
  resize(structure, 0);
  structure.cost_entries = member_entry(order.stages, order.groups.size(), Pass::F, order.stages);
  if (structure.cost_entries > 65536) throw InputError("an order with groups holds at most 65535 different passes and groups");
  while (!heads_.empty()) {
    const std::uint32_t level_begin = structure.tasks + 1;
    for (Head& head : heads_)
      if (cell_is_ready(order, head, level_begin)) emit_cell(order, head, structure);
    if (structure.tasks + 1 == level_begin) return false;
    for (const Head& head : heads_) structure.lane_last[head.rank] = head.last;
    std::erase_if(heads_, [](const Head& head) { return head.next == head.end; });
  }
  return true;
}

}  // namespace panpipe
