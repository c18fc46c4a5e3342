// Transfers in batches, as trainers post them with one batch_isend_irecv: between two turns of a rank, all sends of the earlier
// turn and all receives for the later one, awaited together. docs/models/transfers.md has the rules.
#include <algorithm>

#include "base/index.hpp"
#include "costmodel/lowering/lowering.hpp"

namespace panpipe {

namespace {

// The work of a rank between two batches: a cell, or a forward and the following backward. Tasks of the compute lane.
using Turn = std::vector<std::int32_t>;

bool is_lone(const TaskGraph& graph, const Turn& turn, bool forward) {
  const Task& task = graph.tasks[turn.front()];
  if (task.kind != TaskKind::Pass || task.group_size > 1) return false;
  return forward ? task.action.kind == ActionKind::F : starts_backward(task.action.kind);
}

std::vector<Turn> turns_of(const TaskGraph& graph, int rank, bool pairs) {
  std::vector<Turn> cells;
  for (std::int32_t t = graph.rank_begin[rank]; t < graph.rank_begin[rank + 1]; ++t) {
    const Task& task = graph.tasks[t];
    if (task.lane != Lane::Compute) continue;
    if (task.group_size != 0 && task.part == 0) cells.emplace_back();
    cells.back().push_back(t);
  }
  if (!pairs) return cells;
  std::vector<Turn> turns;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    turns.push_back(cells[c]);
    if (c + 1 == cells.size() || !is_lone(graph, cells[c], true) || !is_lone(graph, cells[c + 1], false)) continue;
    const Turn& backward = cells[++c];
    turns.back().insert(turns.back().end(), backward.begin(), backward.end());
  }
  return turns;
}

// Batch k of a rank precedes its turn k; the last one follows all turns.
class Batches {
 public:
  Batches(TaskGraph& graph, const TransferRules& rules)
      : graph_(graph),
        turn_of_(graph.tasks.size(), 0),
        sends_(at(graph.ranks)),
        receives_(at(graph.ranks)),
        at_(at(graph.ranks)) {
    for (int rank = 0; rank < graph.ranks; ++rank) {
      turns_.push_back(turns_of(graph, rank, rules.batch_after == TransferRules::BatchAfter::Pair));
      for (std::size_t k = 0; k < turns_.back().size(); ++k)
        for (const std::int32_t t : turns_.back()[k]) turn_of_[t] = static_cast<std::int32_t>(k);
      sends_[rank].resize(turns_.back().size() + 1);
      receives_[rank].resize(turns_.back().size() + 1);
    }
    for (std::size_t i = 0; i < graph.transfers.size(); ++i) {
      const Transfer& transfer = graph.transfers[i];
      sent_in_.push_back(turn_of_[transfer.producer] + 1);
      taken_in_.push_back(turn_of_[transfer.consumer]);
      sends_[sender(i)][sent_in_[i]].push_back(static_cast<std::int32_t>(i));
      receives_[receiver(i)][taken_in_[i]].push_back(static_cast<std::int32_t>(i));
    }
  }

  // Advances all ranks as far as possible. If they then wait in a cycle, posts the receives of the cycle's sends immediately.
  void post_receives_as_needed() {
    for (int rank = 0; rank < graph_.ranks; ++rank) ready_.push_back(rank);
    do {
      while (!ready_.empty()) {
        const int rank = ready_.back();
        ready_.pop_back();
        advance(rank);
      }
    } while (break_circle());
  }

  void write() {
    std::vector<std::vector<std::int32_t>> waits(graph_.tasks.size());
    for (std::size_t i = 0; i < graph_.transfers.size(); ++i) {
      Transfer& transfer = graph_.transfers[i];
      transfer.producer = turns_[sender(i)][sent_in_[i] - 1].back();
      const auto& turns = turns_[receiver(i)];
      if (taken_in_[i] > 0) transfer.taken_after = turns[taken_in_[i] - 1].back();
      for (const std::int32_t t : turns[taken_in_[i]])
        if (t != transfer.consumer) waits[t].push_back(static_cast<std::int32_t>(i));
    }
    add_inputs(waits);
  }

 private:
  int sender(std::size_t i) const { return graph_.links[graph_.transfers[i].link].from_rank; }
  int receiver(std::size_t i) const { return graph_.links[graph_.transfers[i].link].to_rank; }
  bool is_sent(std::int32_t i) const { return at_[sender(at(i))] >= sent_in_[i]; }
  bool is_taken(std::int32_t i) const { return at_[receiver(at(i))] >= taken_in_[i]; }

  // A transfer of the rank's current batch whose other end is missing, preferably a send; -1 = the batch is over.
  std::int32_t missing(int rank) const {
    for (const std::int32_t i : sends_[rank][at_[rank]])
      if (!is_taken(i)) return i;
    for (const std::int32_t i : receives_[rank][at_[rank]])
      if (!is_sent(i)) return i;
    return -1;
  }

  bool has_ended(int rank) const { return at(at_[rank]) == turns_[rank].size(); }
  int other_end(int rank, std::int32_t i) const { return sender(at(i)) == rank ? receiver(at(i)) : sender(at(i)); }

  void advance(int rank) {
    while (!has_ended(rank) && missing(rank) < 0) {
      const std::int32_t k = ++at_[rank];
      for (const auto* batch : {&sends_[rank][k], &receives_[rank][k]})
        for (const std::int32_t i : *batch) ready_.push_back(other_end(rank, i));
    }
  }

  // Ranks that wait for each other's sends to be taken. A circle of ranks that wait for what is not made is the order's own
  // fault: the engines explain it.
  bool break_circle() {
    std::vector<int> path;
    for (int rank = 0; rank < graph_.ranks && path.empty(); ++rank)
      if (!has_ended(rank)) path.push_back(rank);
    if (path.empty()) return false;
    for (;;) {
      const std::int32_t i = missing(path.back());
      if (i < 0) return false;  // the last batch of a rank that has ended
      const int next = other_end(path.back(), i);
      auto rank = std::find(path.begin(), path.end(), next);
      if (rank == path.end()) {
        path.push_back(next);
        continue;
      }
      bool moved = false;
      for (; rank != path.end(); ++rank) moved = take_now(*rank) || moved;
      return moved;
    }
  }

  bool take_now(int rank) {
    const std::int32_t i = missing(rank);
    if (i < 0 || sender(at(i)) != rank) return false;
    const int to = receiver(at(i));
    auto& later = receives_[to][taken_in_[i]];
    later.erase(std::find(later.begin(), later.end(), i));
    taken_in_[i] = at_[to];
    receives_[to][at_[to]].push_back(i);
    ready_.push_back(rank);
    ready_.push_back(to);
    return true;
  }

  void add_inputs(const std::vector<std::vector<std::int32_t>>& waits) {
    std::vector<Input> inputs;
    inputs.reserve(graph_.inputs.size());
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      Task& task = graph_.tasks[t];
      const auto first = graph_.inputs.begin() + task.first_input;
      task.first_input = static_cast<std::int32_t>(inputs.size());
      inputs.insert(inputs.end(), first, first + task.inputs);
      for (const std::int32_t i : waits[t]) inputs.push_back({graph_.transfers[i].producer, i});
      task.inputs = static_cast<std::int32_t>(inputs.size()) - task.first_input;
    }
    graph_.inputs = std::move(inputs);
  }

  TaskGraph& graph_;
  std::vector<std::vector<Turn>> turns_;                                  // per rank
  std::vector<std::int32_t> turn_of_;                                     // per task of a compute lane
  std::vector<std::vector<std::vector<std::int32_t>>> sends_, receives_;  // per rank and batch: transfers
  std::vector<std::int32_t> sent_in_, taken_in_;                          // per transfer: batch of its sender, of its receiver
  std::vector<std::int32_t> at_;                                          // per rank: the batch where it stands
  std::vector<int> ready_;
};

}  // namespace

void batch_transfers(Lowering& lowering) {
  const TransferRules& rules = lowering.scenario.transfers;
  Batches batches(lowering.graph, rules);
  if (rules.batch_receives == TransferRules::BatchReceives::AsNeeded) batches.post_receives_as_needed();
  batches.write();
}

}  // namespace panpipe
