#include "tests/costmodel/estimate/order_tables.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"

namespace panpipe::test {
namespace {

PackedAction shape_of(const PipelineOrder& order, const Action& action) {
  const int slice = action.stage * order.splits + std::max<int>(action.split, 0);
  switch (action.kind) {
    case ActionKind::F:
      return pack(Pass::F, slice, 0);
    case ActionKind::I:
      return pack(Pass::I, slice, 0);
    case ActionKind::W:
      return pack(Pass::W, slice, 0);
    default:
      return pack(Pass::B, slice, 0);
  }
}

}  // namespace

OrderTables tables_of(const PipelineOrder& order, const TaskGraph& graph) {
  OrderTables tables;
  tables.costs.assign(group_entry(order.slices(), static_cast<int>(order.groups.size())), 0);
  tables.delays.assign(static_cast<std::size_t>(order.stages) * 2 + 1, 0);
  std::map<std::vector<PackedAction>, int> groups;
  for (std::size_t g = 0; g < order.groups.size(); ++g) groups[order.groups[g]] = static_cast<int>(g);
  const auto duration = [&](const Task& task) { return graph.programs[static_cast<std::size_t>(task.program)].duration.base(); };
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (task.kind != TaskKind::Pass || task.group_size == 0) continue;
    if (task.group_size == 1) {
      tables.costs[(shape_of(order, task.action) >> 16) + 1] = duration(task);
      continue;
    }
    std::vector<PackedAction> members;
    double sum = 0;  // of members that run one after another; a woven group has one program
    for (std::size_t k = t; k < t + task.group_size; ++k) {
      members.push_back(shape_of(order, graph.tasks[k].action));
      sum += duration(graph.tasks[k]);
    }
    const auto group = groups.find(members);
    PANPIPE_CHECK(group != groups.end(), "the plan is one of the order's schedule");
    tables.costs[group_entry(order.slices(), group->second)] = graph.by_units ? duration(task) : sum;
  }
  for (const Transfer& transfer : graph.transfers) {
    const TransferLink& link = graph.links[static_cast<std::size_t>(transfer.link)];
    const auto entry = transfer.backward ? backward_delay_entry(transfer.stage) : forward_delay_entry(transfer.stage);
    tables.delays[entry] = (link.latency + link.transfer).base();
  }
  return tables;
}

}  // namespace panpipe::test
