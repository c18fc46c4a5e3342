#include "costmodel/estimate/order_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/base/error.hpp"

namespace panpipe {
namespace {

[[noreturn]] void refuse(std::string_view what, std::string_view remedy) {
  throw InputError(fmt::format("{}: a packed order cannot say so; {}", what, remedy));
}

void check_rules(const PipelineOrder& order, const TaskGraph& graph) {
  constexpr std::string_view kWhole = "evaluate this plan with estimate_times()";
  if (graph.collectives_run_on) refuse("passes start beside the last all-reduce of the pass before", kWhole);
  for (const Task& task : graph.tasks) {
    if (task.waits_for_sends) refuse("ranks wait for what they send", "choose transfers.semantics: asynchronous");
    if (task.output_steps >= 0) refuse("a pass sends before it ends", "choose transfers.braid_outputs: end");
    if (task.kind == TaskKind::Offload || task.kind == TaskKind::Reload) refuse("the order offloads", kWhole);
    if (task.kind == TaskKind::Pass && task.group_size > 1 && graph.by_units &&
        !graph.programs[static_cast<std::size_t>(task.program)].all_inputs)
      refuse("members of a group start each with its own input", "choose transfers.braid_inputs: together");
  }
  for (const Transfer& transfer : graph.transfers) {
    const int consumer = graph.tasks[static_cast<std::size_t>(transfer.consumer)].action.stage;
    const auto& next = transfer.backward ? order.stage_before : order.stage_after;
    if (next[static_cast<std::size_t>(transfer.stage)] != consumer) refuse("a tensor skips stages", kWhole);
  }
}

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
  check_rules(order, graph);
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

}  // namespace panpipe
