#include "costmodel/lowering/vocabulary.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/plan/streamed_weights.hpp"

namespace panpipe {
namespace {

constexpr int kStatistics = 3;  // numbers of a token that ranks sum
constexpr Bytes kStatisticBytes(4);

std::size_t pass_index(ActionKind kind) { return static_cast<std::size_t>(kind) - static_cast<std::size_t>(ActionKind::E); }

const WorkloadCost& rank_workload(const Lowering& lowering, int rank) {
  return *lowering.stage(lowering.stages_of_rank(rank).front()).cost;
}

// Rounded up.
std::int64_t share_of(std::int64_t whole, int ranks) { return (whole + ranks - 1) / ranks; }
Bytes share_of(Bytes whole, int ranks) { return Bytes(share_of(whole.base(), ranks)); }

Breakdown share_of(Breakdown cost, int ranks) {
  const double share = 1.0 / ranks;
  cost.work = cost.work * share;
  cost.traffic = share_of(cost.traffic, ranks);
  for (Duration* time : {&cost.compute, &cost.attention, &cost.operands, &cost.memory, &cost.total}) *time = *time * share;
  return cost;
}

// The passes of the whole unit that a pass of a share runs its part of.
std::vector<const PassCost*> whole_passes(const WorkloadCost& workload, ActionKind kind, int barriers) {
  const UnitCost &words = workload.units.front(), &head = workload.units.back();
  switch (kind) {
    case ActionKind::E:
      return {&words.forward};
    case ActionKind::S:
      return barriers == 1 ? std::vector{&head.forward, &head.input_gradient} : std::vector{&head.forward};
    case ActionKind::T:
      return barriers == 1 ? std::vector{&head.weight_gradient} : std::vector{&head.input_gradient, &head.weight_gradient};
    default:
      return {&words.input_gradient, &words.weight_gradient};
  }
}

std::int32_t add_share_program(Lowering& lowering, int rank, ActionKind kind) {
  const Plan& plan = lowering.plan;
  const WorkloadCost& workload = rank_workload(lowering, rank);
  const int site = lowering.stage(lowering.stages_of_rank(rank).front()).site;
  Breakdown cost;
  HostWork host;
  for (const PassCost* pass : whole_passes(workload, kind, plan.schedule.vocabulary_barriers)) {
    cost = cost + pass->breakdown;
    host += pass->host;
  }
  if (kind == ActionKind::T) cost = cost + accumulation(lowering.costs, workload.units.back(), 1, site);
  if (kind == ActionKind::G) cost = cost + accumulation(lowering.costs, workload.units.front(), 1, site);
  cost = share_of(cost, plan.pipeline);
  const Duration device = cost.total;
  cost.total = lowering.costs.host_bound(device, host, site) * lowering.costs.stage_jitter(plan.pipeline);
  cost.launch += cost.total - device;
  return lowering.add_plain_program(cost.total, cost);
}

// Bytes of what crosses the border between the stages and the vocabulary's unit at one end.
Bytes border_bytes(const WorkloadCost& workload, bool first) {
  Bytes most(0);
  const int last = static_cast<int>(workload.units.size()) - 1;
  for (const UnitEdge& edge : workload.edges)
    if (first ? edge.from == 0 : edge.to == last) most = std::max(most, edge.bytes);
  return most;
}

// In VocabularyWork::makers and exchanges.
std::size_t vocabulary_slot(const Lowering& lowering, VocabularyExchange exchange, int rank, int microbatch) {
  return (at(exchange) * at(lowering.plan.pipeline) + at(rank)) * at(lowering.plan.schedule.microbatches) + at(microbatch);
}

}  // namespace

void make_vocabulary(Lowering& lowering) {
  const Plan& plan = lowering.plan;
  if (plan.schedule.vocabulary_barriers == 0) return;
  VocabularyWork& work = lowering.vocabulary;
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    work.programs.emplace_back();
    for (const ActionKind kind : {ActionKind::E, ActionKind::S, ActionKind::T, ActionKind::G})
      work.programs.back()[pass_index(kind)] = add_share_program(lowering, rank, kind);
  }
  const WorkloadCost& workload = rank_workload(lowering, 0);
  const Bytes hidden = border_bytes(workload, false), embedded = border_bytes(workload, true);
  const Bytes statistics =
      kStatisticBytes * (static_cast<std::int64_t>(kStatistics) * plan.micro * lowering.costs.tokens_per_sample(0));
  const auto set = [&](VocabularyExchange exchange, CollectiveKind kind, Bytes bytes) {
    work.flows[at(exchange)] = lowering.add_pipeline_flow(kind, bytes);
  };
  // A broadcast in a pipeline of parts carries the tensor once over each link, as an all-gather does.
  set(VocabularyExchange::Hidden, CollectiveKind::AllGather, hidden);
  set(VocabularyExchange::Statistics, CollectiveKind::AllReduce, statistics);
  set(VocabularyExchange::HiddenGradient, CollectiveKind::AllReduce, hidden);
  set(VocabularyExchange::EmbeddingGradient, CollectiveKind::AllGather, embedded);
  set(VocabularyExchange::Embedding, CollectiveKind::AllReduce, embedded);
  work.turns = vocabulary_order(plan.schedule).turns;
  work.makers.assign(vocabulary_slot(lowering, static_cast<VocabularyExchange>(kVocabularyExchanges), 0, 0), -1);
  work.exchanges = work.makers;
}

HeldParameters vocabulary_share(const Lowering& lowering, int rank) {
  const WorkloadCost& workload = rank_workload(lowering, rank);
  HeldParameters held;
  FirstUses is_first;
  const int last = static_cast<int>(workload.units.size()) - 1;
  for (const int u : {0, last})
    for (ParameterUse use : workload.units[at(u)].parameters) {
      if (!is_first(use, u)) continue;
      use.elements = share_of(use.elements, lowering.plan.pipeline);
      for (Bytes* bytes : {&use.frozen, &use.copies, &use.narrower}) *bytes = share_of(*bytes, lowering.plan.pipeline);
      held.add(use);
    }
  return held;
}

// S keeps its columns of the softmax and the last stage's result to T, and makes a gradient of that size.
PassMemory vocabulary_memory(const Lowering& lowering, int rank, ActionKind kind) {
  const WorkloadCost& workload = rank_workload(lowering, rank);
  const UnitCost& head = workload.units.back();
  const int ranks = lowering.plan.pipeline;
  const Bytes hidden = border_bytes(workload, false), embedded = border_bytes(workload, true);
  const Bytes kept = hidden + share_of(std::max(head.saved - hidden, Bytes(0)), ranks);
  switch (kind) {
    case ActionKind::S:
      return {kept, Bytes(0), share_of(head.temporary, ranks) + hidden};
    case ActionKind::T:
      return {Bytes(0), kept,
              share_of(head.temporary, ranks) + (lowering.plan.schedule.vocabulary_barriers == 2 ? hidden : Bytes(0))};
    default:
      return {Bytes(0), Bytes(0), embedded};
  }
}

Task vocabulary_pass(const Lowering& lowering, int rank, const Action& action) {
  const PassMemory memory = vocabulary_memory(lowering, rank, action.kind);
  Task task;
  task.kind = TaskKind::Pass;
  task.lane = Lane::Compute;
  task.action = action;
  task.program = lowering.vocabulary.programs[at(rank)][pass_index(action.kind)];
  task.take = memory.take;
  task.give = memory.give;
  task.temporary = memory.temporary;
  return task;
}

void note_vocabulary_maker(Lowering& lowering, int rank, const Action& action, std::int32_t task) {
  const Schedule& schedule = lowering.plan.schedule;
  if (schedule.vocabulary_barriers == 0) return;
  for (std::size_t e = 0; e < kVocabularyExchanges; ++e)
    if (const auto exchange = static_cast<VocabularyExchange>(e);
        maker_of(exchange, schedule.vocabulary_barriers).is(schedule, action))
      lowering.vocabulary.makers[vocabulary_slot(lowering, exchange, rank, action.microbatch)] = task;
}

void add_vocabulary_lane(Lowering& lowering, int rank) {
  for (const VocabularyTurn& turn : lowering.vocabulary.turns) {
    Task task;
    task.kind = TaskKind::Collective;
    task.lane = Lane::Vocabulary;
    task.action = {.kind = served_pass(turn.exchange), .stage = rank, .microbatch = turn.microbatch};
    task.flow = lowering.vocabulary.flows[at(turn.exchange)];
    const std::size_t slot = vocabulary_slot(lowering, turn.exchange, rank, turn.microbatch);
    lowering.vocabulary.exchanges[slot] = lowering.add(rank, task, lowering.vocabulary.makers[slot]);
  }
}

void connect_vocabulary(Lowering& lowering, const Action& action, int rank) {
  const Schedule& schedule = lowering.plan.schedule;
  if (schedule.vocabulary_barriers == 0) return;
  for (std::size_t e = 0; e < kVocabularyExchanges; ++e)
    if (const auto exchange = static_cast<VocabularyExchange>(e); reader_of(exchange).is(schedule, action))
      lowering.graph.inputs.push_back(
          {lowering.vocabulary.exchanges[vocabulary_slot(lowering, exchange, rank, action.microbatch)], -1});
}

void share_vocabulary_flows(Lowering& lowering) {
  if (lowering.plan.schedule.vocabulary_barriers == 0) return;
  for (const std::int32_t flow : lowering.vocabulary.flows)
    lowering.graph.cross_rank_flows.push_back({flow, lowering.all_ranks()});
}

}  // namespace panpipe
