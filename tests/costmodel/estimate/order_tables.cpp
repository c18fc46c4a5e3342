#include "tests/costmodel/estimate/order_tables.hpp"

namespace panpipe::test {
namespace {

Pass pass_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return Pass::F;
    case ActionKind::I:
      return Pass::I;
    case ActionKind::W:
      return Pass::W;
    default:
      return Pass::B;
  }
}

}  // namespace

OrderTables tables_of(const PipelineOrder& order, const TaskGraph& graph) {
  OrderTables tables;
  tables.costs.assign(cost_entry(Pass::F, order.stages), 0);
  tables.delays.assign(static_cast<std::size_t>(order.stages) * 2 + 1, 0);
  for (const Task& task : graph.tasks)
    if (task.kind == TaskKind::Pass)
      tables.costs[cost_entry(pass_of(task.action.kind), task.action.stage)] = graph.programs[task.program].duration.base();
  for (const Transfer& transfer : graph.transfers) {
    const TransferLink& link = graph.links[transfer.link];
    const auto entry = transfer.backward ? backward_delay_entry(transfer.stage) : forward_delay_entry(transfer.stage);
    tables.delays[entry] = (link.latency + link.transfer).base();
  }
  return tables;
}

}  // namespace panpipe::test
