// Structures of orders with groups or sequence splits. A cell (a lone pass or a group) is emitted when everything that its
// members read is known: one task for each further input, of no cost, then one for the cell.
#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "costmodel/estimate/pipeline_order.hpp"

namespace panpipe {
namespace {

constexpr std::uint32_t kNothing = kUnset;

// What a pass of a slice reads and writes: columns of its microbatch's row, forwards first, then gradients.
struct Columns {
  std::uint32_t input = kNothing;  // from another stage
  std::uint16_t delay = 0;         // 0: made on the same rank, whose lane implies it
  std::array<std::uint32_t, 2> own = {kNothing, kNothing};
  std::uint32_t output = kNothing;
};

Columns columns_of(const PipelineOrder& order, PackedAction action) {
  const int slice = stage_of(action), stage = slice / order.splits, split = slice % order.splits;
  const auto forward = [](int of) { return static_cast<std::uint32_t>(of); };
  const auto gradient = [&](int of) { return static_cast<std::uint32_t>(order.slices() + of); };
  const auto away = [&](int other) {
    return order.stage_to_rank[static_cast<std::size_t>(stage)] != order.stage_to_rank[static_cast<std::size_t>(other)];
  };
  Columns columns;
  switch (pass_of(action)) {
    case Pass::F: {
      columns.output = forward(slice);
      if (split > 0) columns.own[0] = forward(slice - 1);
      const int before = order.stage_before[static_cast<std::size_t>(stage)];
      if (before < 0) break;
      columns.input = forward(before * order.splits + split);
      if (away(before)) columns.delay = static_cast<std::uint16_t>(forward_delay_entry(before));
      break;
    }
    case Pass::W:
      columns.own[0] = gradient(slice);
      break;
    default: {
      columns.output = gradient(slice);
      columns.own[0] = forward(slice);
      if (split + 1 < order.splits) columns.own[1] = gradient(slice + 1);
      const int after = order.stage_after[static_cast<std::size_t>(stage)];
      if (after < 0) break;
      columns.input = gradient(after * order.splits + split);
      if (away(after)) columns.delay = static_cast<std::uint16_t>(backward_delay_entry(after));
    }
  }
  return columns;
}

std::uint32_t size_of_cell(const PipelineOrder& order, std::uint32_t first) {
  return order.cell_size.empty() ? 1 : order.cell_size[first];
}

}  // namespace

bool StructureBuilder::build_cells(const PipelineOrder& order, Structure& structure, Groups groups) {
  const auto slices = static_cast<std::uint32_t>(order.slices());
  const auto ranks = static_cast<std::uint32_t>(order.rank_begin.size() - 1);
  width_ = 2 * slices;
  ids_.assign(static_cast<std::size_t>(order.microbatches) * width_, kUnset);
  resize(structure, 0);
  const bool loose = groups == Groups::Loose;
  structure.cost_entries = loose ? member_entry(order.slices(), order.groups.size(), Pass::F, order.slices())
                                 : group_entry(order.slices(), static_cast<int>(order.groups.size()));
  if (structure.cost_entries > 65536) throw InputError("a loose order holds at most 65535 different passes and groups");
  structure.delay_entries = static_cast<std::uint32_t>(order.stages) * 2 + 1;
  structure.lane_last.assign(ranks, 0);
  const auto add = [&](std::uint32_t lane, std::uint32_t src, std::uint16_t delay, std::uint32_t cost) {
    structure.lane_pred.push_back(lane);
    structure.src.push_back(src);
    structure.delay.push_back(delay);
    structure.cost.push_back(static_cast<std::uint16_t>(cost));
    return ++structure.tasks;
  };
  heads_.clear();
  for (std::uint32_t r = 0; r < ranks; ++r)
    if (order.rank_begin[r] != order.rank_begin[r + 1]) heads_.push_back({order.rank_begin[r], order.rank_begin[r + 1], 0, r});
  const auto output = [&](std::uint32_t action, std::uint32_t value) {
    const std::uint32_t column = columns_of(order, order.actions[action]).output;
    if (column != kNothing) ids_[std::size_t{order.actions[action] & 0xFFFFU} * width_ + column] = value;
  };
  // Its members side by side behind what the rank did before.
  const auto add_loose = [&](const Head& head, std::uint32_t size) {
    std::uint32_t end = add(head.last, 0, 0, group_entry(order.slices(), order.group_of[head.next]));
    for (std::uint32_t i = head.next; i < head.next + size; ++i) {
      const PackedAction action = order.actions[i];
      const Columns columns = columns_of(order, action);
      const bool waits = columns.input != kNothing && columns.delay > 0;
      const std::uint32_t input = waits ? ids_[std::size_t{action & 0xFFFFU} * width_ + columns.input] : 0;
      const std::uint32_t entry = member_entry(order.slices(), order.groups.size(), pass_of(action), stage_of(action));
      const std::uint32_t member = add(head.last, input, waits ? columns.delay : std::uint16_t{0}, entry);
      output(i, member);
      end = add(end, member, 0, 0);
    }
    return end;
  };
  std::vector<std::pair<std::uint32_t, std::uint16_t>> inputs;  // value, delay
  while (!heads_.empty()) {
    const std::uint32_t level_begin = structure.tasks + 1;
    for (Head& head : heads_) {
      const std::uint32_t size = size_of_cell(order, head.next);
      inputs.clear();
      bool ready = true;
      for (std::uint32_t i = head.next; i < head.next + size && ready; ++i) {
        const PackedAction action = order.actions[i];
        const Columns columns = columns_of(order, action);
        const std::uint32_t* const made = ids_.data() + std::size_t{action & 0xFFFFU} * width_;
        for (const std::uint32_t own : columns.own) ready = ready && (own == kNothing || made[own] != kUnset);
        if (columns.input == kNothing) continue;
        const std::uint32_t input = made[columns.input];
        ready = ready && input < level_begin;
        if (columns.delay > 0) inputs.emplace_back(input, columns.delay);
      }
      if (!ready) continue;
      if (loose && size > 1) {
        head.last = add_loose(head, size);
        head.next += size;
        continue;
      }
      std::uint32_t node = head.last;
      for (std::size_t k = 0; k + 1 < inputs.size(); ++k) node = add(node, inputs[k].first, inputs[k].second, 0);
      const auto last = inputs.empty() ? std::pair<std::uint32_t, std::uint16_t>{0, 0} : inputs.back();
      const std::uint32_t entry =
          size > 1 ? group_entry(order.slices(), order.group_of[head.next]) : (order.actions[head.next] >> 16) + 1;
      head.last = add(node, last.first, last.second, entry);
      for (std::uint32_t i = head.next; i < head.next + size; ++i) output(i, head.last);
      head.next += size;
    }
    if (structure.tasks + 1 == level_begin) return false;
    for (const Head& head : heads_) structure.lane_last[head.rank] = head.last;
    std::erase_if(heads_, [](const Head& head) { return head.next == head.end; });
  }
  return true;
}

}  // namespace panpipe
