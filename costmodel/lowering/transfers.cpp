// The traffic between stages: edges of the workload gathered per pair of stages, and the inputs and transfers of tasks.
#include <algorithm>
#include <tuple>

#include "base/error.hpp"
#include "costmodel/cost/occupancy.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/plan/transfer_semantics.hpp"
#include "schedule/walk.hpp"

namespace panpipe {

namespace {

// Stage of every unit in one forward path; -1 for units that no stage of it holds.
std::vector<int> stage_of_unit(const Lowering& lowering, const std::vector<int>& chain, std::size_t units) {
  std::vector<int> stage(units, -1);
  for (const int s : chain) {
    const StageInfo& info = lowering.stage(s);
    std::fill(stage.begin() + info.first_unit, stage.begin() + info.end_unit, s);
  }
  return stage;
}

}  // namespace

std::int32_t add_link(Lowering& lowering, int from_rank, int to_rank, Bytes bytes) {
  TransferLink link;
  link.from_rank = from_rank;
  link.to_rank = to_rank;
  // The members of a tensor-parallel group continue together, when the slowest hand-over has arrived.
  for (int t = 0; t < lowering.plan.tensor; ++t) {
    const int from = lowering.plan.device(from_rank, lowering.replica, t),
              to = lowering.plan.device(to_rank, lowering.replica, t);
    if (t > 0 && same_ways(lowering.scenario.cluster, {lowering.device(from_rank), lowering.device(to_rank)}, {from, to}))
      continue;
    const TransferCost cost = lowering.costs.transfer(from, to, bytes);
    if (t == 0 || cost.time > link.cost.time) link.cost = cost;
  }
  link.latency = to_ticks(link.cost.latency + link.cost.gather);
  link.transfer = to_ticks(link.cost.time) - link.latency;
  lowering.graph.links.push_back(link);
  return static_cast<std::int32_t>(lowering.graph.links.size()) - 1;
}

namespace {

// One of each length; the first.
std::int32_t add_links(Lowering& lowering, int from_rank, int to_rank, const StageEdge& edge, std::int64_t StageLink::*bytes) {
  const auto first = static_cast<std::int32_t>(lowering.graph.links.size());
  for (const StageLink& length : edge.lengths)
    add_link(lowering, from_rank, to_rank, Bytes(length.*bytes / lowering.plan.schedule.splits));
  return first;
}

// Appends what `task` waits for: a plain dependency on the same rank, else a transfer. `link` is that of the longest
// microbatches.
void add_input(Lowering& lowering, std::int32_t task, std::int32_t producer, std::int32_t link, bool backward) {
  TaskGraph& graph = lowering.graph;
  Input input;
  input.task = producer;
  if (link >= 0) {
    Transfer transfer;
    transfer.producer = producer;
    transfer.consumer = task;
    const Task& source = graph.tasks[producer];
    transfer.link = link + lowering.length_of(source.action);
    transfer.microbatch = source.action.microbatch;
    transfer.stage = source.action.stage;
    transfer.backward = backward;
    input.transfer = static_cast<std::int32_t>(graph.transfers.size());
    graph.transfers.push_back(transfer);
  }
  graph.inputs.push_back(input);
}

std::int32_t producer_of(Lowering& lowering, PassSlot slot, int stage, const Action& consumer) {
  const std::int32_t task = lowering.task_of(slot, stage, consumer.microbatch, consumer.split);
  PANPIPE_CHECK(task >= 0, "the schedule has no pass that makes the input of " + to_text(consumer));
  return task;
}

// Lane order implies what stands earlier on the lane; a dependency that it does not imply is written down, so that the
// engines find an order that cannot finish.
void connect_own(Lowering& lowering, std::int32_t task, PassSlot slot, const Action& action) {
  const std::int32_t own = lowering.task_of(slot, action.stage, action.microbatch, action.split);
  const bool comes_back = slot == PassSlot::Reload || slot == PassSlot::ReloadWaiting;  // on a lane of its own
  if (comes_back ? own >= 0 : own > task) lowering.graph.inputs.push_back({own, -1});
}

void connect_forward(Lowering& lowering, std::int32_t task, const Action& action) {
  if (action.split > 0) {  // a slice attends to the ones before it
    Action before = action;
    --before.split;
    connect_own(lowering, task, PassSlot::Forward, before);
  }
  for (const int e : lowering.edges_in[action.stage]) {
    const StageEdge& edge = lowering.edges[e];
    if (!edge.forth) continue;
    add_input(lowering, task, producer_of(lowering, PassSlot::Forward, edge.from, action), edge.forward_link, false);
  }
}

void connect_backward(Lowering& lowering, std::int32_t task, const Action& action) {
  connect_own(lowering, task, PassSlot::Forward, action);
  connect_own(lowering, task, PassSlot::Recompute, action);
  if (action.split >= 0 && action.split + 1 < lowering.plan.schedule.splits) {  // and gives them gradients
    Action after = action;
    ++after.split;
    connect_own(lowering, task, PassSlot::Gradient, after);
  }
  for (const int e : lowering.edges_out[action.stage]) {
    const StageEdge& edge = lowering.edges[e];
    if (!edge.gradient) continue;
    add_input(lowering, task, producer_of(lowering, PassSlot::Gradient, edge.to, action), edge.backward_link, true);
  }
  connect_own(lowering, task, PassSlot::Reload, action);
}

void connect_pass(Lowering& lowering, std::int32_t task, const Action& action) {
  if (action.is_vocabulary()) return;  // from exchanges alone
  if (action.kind == ActionKind::F) return connect_forward(lowering, task, action);
  if (starts_backward(action.kind)) return connect_backward(lowering, task, action);
  const bool weight = action.kind == ActionKind::W;
  connect_own(lowering, task, weight ? PassSlot::Gradient : PassSlot::Forward, action);
  connect_own(lowering, task, weight ? PassSlot::ReloadWaiting : PassSlot::Reload, action);
}

// Copies that no action states.
void connect_host(Lowering& lowering, std::int32_t task) {
  TaskGraph& graph = lowering.graph;
  const Task& of = graph.tasks[task];
  if (of.kind == TaskKind::Optimizer)  // the host has all gradients
    for (const std::int32_t copy : lowering.last_gradients)
      if (copy >= 0) graph.inputs.push_back({copy, -1});
  if (!std::binary_search(lowering.taken_from_host.begin(), lowering.taken_from_host.end(), task)) return;
  const StageInfo& taker = lowering.stage(of.action.stage);
  for (const std::vector<int>& chain : lowering.plan.schedule.chains) {
    if (std::find(chain.begin(), chain.end(), of.action.stage) == chain.end()) continue;
    for (const int s : chain) {
      const StageInfo& info = lowering.stage(s);
      const std::int32_t parked = lowering.task_of(PassSlot::Parked, s, of.action.microbatch, of.action.split);
      if (parked >= 0 && info.first_unit < taker.end_unit && taker.first_unit < info.end_unit)
        graph.inputs.push_back({parked, -1});
    }
  }
}

}  // namespace

void make_stage_edges(Lowering& lowering) {
  const Products products(lowering.plan.schedule);
  const auto add_edges = [&](const std::vector<int>& stages, bool forward, bool backward) {
    const std::size_t first = lowering.edges.size();
    for (const LengthSite& length : lowering.stages.front().lengths) {
      const WorkloadCost& workload = *length.cost;
      std::vector<StageLink> links = stage_links(workload.edges, stage_of_unit(lowering, stages, workload.units.size()));
      for (StageLink& link : links) {
        if (!forward) link.bytes = 0;
        if (!backward) link.gradient_bytes = 0, link.gradient = false;
      }
      std::erase_if(links, [&](const StageLink& link) { return !forward && !link.gradient; });
      if (lowering.edges.size() == first)
        for (const StageLink& link : links) lowering.edges.push_back({link, forward, -1, -1});
      for (std::size_t e = 0; e < links.size(); ++e) lowering.edges[first + e].lengths.push_back(links[e]);
    }
  };
  for (const auto& chain : lowering.plan.schedule.chains) {
    std::vector<int> forward, backward;
    for (const int s : chain) {
      if (products.runs_forward(s)) forward.push_back(s);
      if (products.runs_backward(s)) backward.push_back(s);
    }
    const bool both = forward == backward;
    add_edges(forward, true, both);
    if (!both) add_edges(backward, false, true);
  }
  std::sort(lowering.edges.begin(), lowering.edges.end(),
            [](const StageEdge& a, const StageEdge& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); });
  lowering.edges_in.resize(lowering.stages.size());
  lowering.edges_out.resize(lowering.stages.size());
  for (std::size_t e = 0; e < lowering.edges.size(); ++e) {
    StageEdge& edge = lowering.edges[e];
    lowering.edges_in[edge.to].push_back(static_cast<int>(e));
    lowering.edges_out[edge.from].push_back(static_cast<int>(e));
    const int from = lowering.stage(edge.from).rank, to = lowering.stage(edge.to).rank;
    if (from == to) continue;
    if (edge.forth) edge.forward_link = add_links(lowering, from, to, edge, &StageLink::bytes);
    if (edge.gradient) edge.backward_link = add_links(lowering, to, from, edge, &StageLink::gradient_bytes);
  }
}

TransferSemantics transfer_semantics(const Scenario& scenario, bool measured) {
  const bool shares = exchanges_attention(scenario.schedule.name, scenario.schedule.options);
  const bool blocking = scenario.framework.blocking_transfers && !measured && !shares;
  return scenario.transfers.semantics.value_or(blocking ? TransferSemantics::Blocking : TransferSemantics::Asynchronous);
}

void connect_tasks(Lowering& lowering) {
  TaskGraph& graph = lowering.graph;
  graph.inputs.reserve(2 * graph.tasks.size());
  graph.transfers.reserve(graph.tasks.size());
  const TransferSemantics semantics = transfer_semantics(lowering.scenario, lowering.costs.measured());
  std::int32_t part_before = -1;
  auto wait = lowering.waits.cbegin();
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const auto task = static_cast<std::int32_t>(t);
    const auto first = static_cast<std::int32_t>(graph.inputs.size());
    if (graph.tasks[t].kind == TaskKind::Pass) {
      // A pass continues when the collectives of its previous part have ended; other passes may run next to their last ones.
      if (graph.tasks[t].part == 0)
        connect_pass(lowering, task, graph.tasks[t].action);
      else if (graph.collectives_run_on)
        graph.inputs.push_back({part_before, -1});
      part_before = task;
      if (graph.tasks[t].part == 0) connect_vocabulary(lowering, graph.tasks[t].action, graph.tasks[t].rank);
    }
    for (; wait != lowering.waits.end() && wait->first == task; ++wait) graph.inputs.push_back(wait->second);
    connect_host(lowering, task);
    connect_exchange(lowering, task);
    graph.tasks[t].first_input = first;
    graph.tasks[t].inputs = static_cast<std::int32_t>(graph.inputs.size()) - first;
  }
  graph.rendezvous = semantics == TransferSemantics::Batched;
  if (semantics == TransferSemantics::Asynchronous) return;
  if (graph.rendezvous) batch_transfers(lowering);
  for (const Transfer& transfer : graph.transfers) graph.tasks[transfer.producer].waits_for_sends = true;
}

}  // namespace panpipe
