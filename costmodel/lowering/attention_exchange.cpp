#include "costmodel/lowering/attention_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/plan/transfer_semantics.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

constexpr Bytes kLogSumBytes(4);

// From the operators of the model, which the costs of its units do not name.
std::vector<AttentionBytes> bytes_of_units(const Lowering& lowering) {
  const WorkloadRequest& request = lowering.scenario.workload;
  if (request.model.empty() && !request.config && request.pt2_file.empty()) return {};
  const Workload workload = make_workload(lowering.scenario, lowering.plan);
  if (!workload.graph) return {};
  const OperatorGraph& graph = *workload.graph;
  std::vector<AttentionBytes> units(graph.units.size());
  const int splits = lowering.plan.schedule.splits;
  for (const Operator& op : graph.operators) {
    if (row_of(op).role != OperatorRole::Attention) continue;
    const auto tensor = [&](std::string_view name) { return graph.tensors[at(tensor_argument(op, name))]; };
    const Tensor query = tensor("query"), value = tensor("value");
    AttentionBytes& unit = units[at(op.unit)];
    const std::int64_t rows = query.elements() / query.shape.back();
    unit.query += query.bytes() / splits;
    unit.keys += (tensor("key").bytes() + value.bytes()) / splits;
    unit.output += (size_of(query.dtype) * (rows * value.shape.back()) + kLogSumBytes * rows) / splits;
  }
  return units;
}

int attentions_of(const StageInfo& info) {
  int count = 0;
  for (int u = info.first_unit; u < info.end_unit; ++u) count += info.unit(u).causal_attention ? 1 : 0;
  return count;
}

// Where the first `count` attentions of a stage end.
int end_of_attentions(const StageInfo& info, int count) {
  int unit = info.first_unit;
  for (; count > 0 && unit < info.end_unit; ++unit) count -= info.unit(unit).causal_attention ? 1 : 0;
  return unit;
}

// What arrives on the rank of a pass while it runs.
Bytes received(const Lowering& lowering, const Action& pass) {
  const auto [slices, end] = lowering.attention.moved[at(pass.stage)][at(pass.split)];
  Bytes bytes(0);
  for (int u = lowering.stage(pass.stage).first_unit; u < end && !lowering.attention.units.empty(); ++u) {
    const AttentionBytes& unit = lowering.attention.units[at(u)];
    if (slices > 0)  // queries with their keys; for the backward the result and its gradient too
      bytes += unit.query + unit.keys * slices + (starts_backward(pass.kind) ? unit.output * 2 : Bytes(0));
    else  // the result; of the backward the gradients of what was sent
      bytes += starts_backward(pass.kind) ? unit.query - unit.keys * slices : unit.output;
  }
  return bytes;
}

std::int32_t link_of(Lowering& lowering, int from, int to, Bytes bytes) {
  const auto [known, is_new] = lowering.attention.links.try_emplace({from, to, bytes.base()}, -1);
  if (!is_new) return known->second;
  known->second = add_link(lowering, from, to, bytes);
  if (TransferLink& whole = lowering.graph.links[at(known->second)]; whole.cost.gather > Duration(0)) {
    // Tensor-parallel ranks do not share it out between nodes: each has heads of its own.
    lowering.graph.links.pop_back();
    TransferLink& link = lowering.graph.links[at(add_link(lowering, from, to, bytes * lowering.plan.tensor))];
    link.cost.time -= link.cost.gather;
    link.cost.gather = Duration(0);
    link.latency = to_ticks(link.cost.latency);
  }
  return known->second;
}

// The last task of the compute lane before each pass.
void find_tasks_before(Lowering& lowering) {
  const TaskGraph& graph = lowering.graph;
  std::vector<std::int32_t>& before = lowering.attention.before;
  before.assign(graph.tasks.size(), -1);
  for (int rank = 0; rank < graph.ranks; ++rank) {
    std::int32_t last = -1;
    for (std::int32_t t = graph.rank_begin[rank]; t < graph.rank_begin[rank + 1]; ++t) {
      if (graph.tasks[t].lane != Lane::Compute) continue;
      before[t] = graph.tasks[t].part > 0 ? before[last] : last;
      last = t;
    }
  }
}

}  // namespace

void make_attention_exchange(Lowering& lowering) {
  const Plan& plan = lowering.plan;
  AttentionExchange& attention = lowering.attention;
  if (plan.schedule.splits > 1) attention.units = bytes_of_units(lowering);
  if (!attention.any()) return;
  if (transfer_semantics(lowering.scenario, lowering.costs.measured()) != TransferSemantics::Asynchronous)
    throw fault_at(lowering.scenario, "transfers.semantics",
                   "slimpipe exchanges attention while passes run, which transfers that ranks wait for do not",
                   "leave transfers.semantics out, or set exchange: off in the schedule");
  attention.moved.assign(lowering.stages.size(), std::vector<MovedKeys>(at(plan.schedule.splits)));
  for (const auto& row : plan.schedule.order)
    for (const Action& action : row)
      if (const SharedAttention* shared = attention.shared.of(action)) {
        const StageInfo& info = lowering.stage(action.stage);
        const int both = std::min(attentions_of(info), attentions_of(lowering.stage(shared->pass.stage)));
        attention.moved[at(action.stage)][at(action.split)] = {shared->slices, end_of_attentions(info, both)};
      }
}

Bytes exchange_memory(const Lowering& lowering, int stage, int slice, bool backward) {
  const auto [moved, end] = lowering.attention.moved[at(stage)][at(slice)];
  Bytes most(0);
  for (int u = lowering.stage(stage).first_unit; u < end && !lowering.attention.units.empty(); ++u) {
    const AttentionBytes& unit = lowering.attention.units[at(u)];
    const Bytes keys = unit.keys * std::abs(moved);
    most = std::max(most, moved > 0 ? (unit.query + keys) * (backward ? 2 : 1) + unit.output * (backward ? 2 : 1)
                                    : (backward ? unit.query + keys : unit.output));
  }
  return most;
}

void connect_exchange(Lowering& lowering, std::int32_t task) {
  AttentionExchange& attention = lowering.attention;
  TaskGraph& graph = lowering.graph;
  if (!attention.any() || graph.tasks[task].lane != Lane::Compute || graph.tasks[task].part > 0) return;
  if (attention.before.empty()) find_tasks_before(lowering);
  const std::int32_t done = attention.before[task];
  const Task none;
  const Task& pass = done < 0 ? none : graph.tasks[done];
  const SharedAttention* shared = pass.kind == TaskKind::Pass && done >= 0 ? attention.shared.of(pass.action) : nullptr;
  if (shared == nullptr) return;
  const std::int32_t other = lowering.task_of(starts_backward(pass.action.kind) ? PassSlot::Gradient : PassSlot::Forward,
                                              shared->pass.stage, shared->pass.microbatch, shared->pass.split);
  const bool gives = shared->slices < 0;
  if (gives) graph.inputs.push_back({other, -1});
  const std::int32_t sender = attention.before[other];
  const Bytes bytes = received(lowering, pass.action);
  if (sender < 0 || bytes == Bytes(0)) return;
  Transfer transfer;
  transfer.producer = sender;
  transfer.consumer = task;
  transfer.link = link_of(lowering, shared->rank, graph.tasks[task].rank, bytes);
  transfer.microbatch = pass.action.microbatch;
  transfer.stage = shared->pass.stage;
  transfer.backward = starts_backward(pass.action.kind);
  graph.inputs.push_back({sender, static_cast<std::int32_t>(graph.transfers.size())});
  graph.transfers.push_back(transfer);
}

}  // namespace panpipe
