#include "schedule/communication.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "schedule/deadlock.hpp"
#include "schedule/order_building.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

Schedule with_empty_rows(const Schedule& schedule) {
  Schedule result = schedule;
  result.empty_cells.clear();
  for (auto& row : result.order) row.clear();
  return result;
}

// Sweeps over the ranks again and again; each rank emits one cell a sweep when what it needs was received or made before.
class SendsAndReceives {
 public:
  explicit SendsAndReceives(const Schedule& schedule)
      : schedule_(schedule),
        products_(schedule),
        result_(with_empty_rows(schedule)),
        at_(schedule.order.size(), 0),
        here_(products_.count() + 1, 0) {}

  Schedule run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < at_.size(); ++rank) progress |= emit(rank);
    }
    for (std::size_t rank = 0; rank < at_.size(); ++rank)
      if (at_[rank] < schedule_.order[rank].size())
        throw InputError(fmt::format("no sends and receives for an order that cannot finish: rank {} is blocked at {}", rank,
                                     cell_text(&schedule_.order[rank][at_[rank]])));
    return std::move(result_);
  }

 private:
  bool emit(std::size_t rank) {
    const Row& row = schedule_.order[rank];
    std::size_t& at = at_[rank];
    if (at == row.size()) return false;
    const std::size_t end = at + row[at].cell_size();
    bool ready = true;
    for (std::size_t i = at; i < end; ++i)
      products_.for_inputs(row[i], false, schedule_.stage_to_rank, [&](const Products::Product& p) {
        // Members of one cell wait for each other as little as passes of one rank: those are in order.
        if (p.stage != row[i].stage) ready &= here_[products_.number(p)] != 0;
      });
    if (!ready) return false;
    Row& out = result_.order[rank];
    out.insert(out.end(), row.begin() + static_cast<std::ptrdiff_t>(at), row.begin() + static_cast<std::ptrdiff_t>(end));
    for (; at < end; ++at) hand_over(rank, row[at]);
    return true;
  }

  void hand_over(std::size_t rank, const Action& a) {
    const bool forward = a.kind == ActionKind::F;
    here_[products_.output(a)] = 1;  // passes of a cut vocabulary meet in exchanges, not in messages
    if (!forward && !starts_backward(a.kind)) return;
    const int to = forward ? products_.next(a.stage) : products_.gradient_to(a.stage);
    if (to < 0) return;
    const auto peer = static_cast<std::size_t>(schedule_.stage_to_rank[to]);
    if (peer == rank) return;
    result_.order[rank].push_back(pass(forward ? ActionKind::SendF : ActionKind::SendB, a.stage, a.microbatch, a.split));
    result_.order[peer].push_back(pass(forward ? ActionKind::RecvF : ActionKind::RecvB, to, a.microbatch, a.split));
  }

  const Schedule& schedule_;
  Products products_;
  Schedule result_;
  std::vector<std::size_t> at_;     // per rank: its next action
  std::vector<std::uint8_t> here_;  // made, and received where another rank needs it
};

// Moves the receives of one row to where they are needed.
class LateReceives {
 public:
  LateReceives(const Schedule& schedule, const Products& products, std::size_t rank)
      : schedule_(schedule), products_(products), rank_(static_cast<int>(rank)), row_(schedule.order[rank]) {}

  Row run() {
    for (std::size_t i = 0; i < row_.size();) {
      const std::size_t end = i + row_[i].cell_size();
      if (is_receive(row_[i].kind)) {
        waiting_.push_back(row_[i]);
      } else {
        for (std::size_t member = i; member < end; ++member) receive_for(row_[member]);
        out_.insert(out_.end(), row_.begin() + static_cast<std::ptrdiff_t>(i), row_.begin() + static_cast<std::ptrdiff_t>(end));
      }
      i = end;
    }
    out_.insert(out_.end(), waiting_.begin(), waiting_.end());
    return std::move(out_);
  }

 private:
  int peer_of(const Action& transfer) const { return schedule_.stage_to_rank[other_end(products_, transfer)]; }

  void receive_for(const Action& a) {
    if (is_send(a.kind)) {
      // Two ranks that both send first would wait for each other, so the lower one receives first.
      if (const int peer = peer_of(a); rank_ < peer) flush(peer, waiting_.size());
      return;
    }
    const ActionKind wanted = a.kind == ActionKind::F   ? ActionKind::RecvF
                              : starts_backward(a.kind) ? ActionKind::RecvB
                                                        : ActionKind::Sync;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      const Action& w = waiting_[i];
      if (w.kind != wanted || w.stage != a.stage || w.microbatch != a.microbatch || w.split != a.split) continue;
      return flush(peer_of(w), i + 1);
    }
  }

  // Emits those of the first `count` waiting receives that come from `peer`; receives from one peer keep their order.
  void flush(int peer, std::size_t count) {
    std::vector<Action> kept;
    for (std::size_t i = 0; i < waiting_.size(); ++i)
      (i < count && peer_of(waiting_[i]) == peer ? out_ : kept).push_back(waiting_[i]);
    waiting_ = std::move(kept);
  }

  const Schedule& schedule_;
  const Products& products_;
  int rank_;
  const Row& row_;
  Row out_, waiting_;
};

// The stages that a row runs next, in order of their next pass.
class NextStages {
 public:
  explicit NextStages(const Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells_.push_back((i > 0 ? cells_.back() : 0) + (row[i].group_size != 0 ? 1 : 0));
      if (row[i].is_compute()) passes_[row[i].stage].push_back(i);
    }
  }

  // From action `at` on: `count` different stages, or more when a group holds further ones.
  std::vector<int> from(std::size_t at, std::size_t count) {
    std::vector<std::pair<std::size_t, int>> next;  // action, stage
    for (auto& [stage, passes] : passes_) {
      while (!passes.empty() && passes.front() < at) passes.pop_front();
      if (!passes.empty()) next.emplace_back(passes.front(), stage);
    }
    std::sort(next.begin(), next.end());
    std::vector<int> stages;
    for (std::size_t i = 0; i < next.size(); ++i)
      if (stages.size() < count || cells_[next[i].first] == cells_[next[i - 1].first]) stages.push_back(next[i].second);
    return stages;
  }

 private:
  std::map<int, std::deque<std::size_t>> passes_;  // per stage: those not yet passed, ascending
  std::vector<int> cells_;                         // of each action
};

}  // namespace

Schedule add_sends_and_receives(const Schedule& schedule, Receives receives) {
  if (const Action* own = find_action(schedule, [](ActionKind kind) { return is_send(kind) || is_receive(kind); }))
    throw InputError(fmt::format("the order has sends and receives of its own ({})", to_text(*own)));
  Schedule result = SendsAndReceives(schedule).run();
  if (receives == Receives::Early) return result;
  const Products products(result);
  for (std::size_t rank = 0; rank < result.order.size(); ++rank) {
    Row late = LateReceives(result, products, rank).run();
    result.order[rank] = std::move(late);
  }
  return result;
}

Schedule add_unshard(const Schedule& schedule, int stages_ahead) {
  Schedule result = with_empty_rows(schedule);
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank) {
    const Row& row = schedule.order[rank];
    Row& out = result.order[rank];
    NextStages next_stages(row);
    std::vector<int> whole;  // stages whose parameters are gathered, ascending
    for (std::size_t i = 0; i < row.size();) {
      const std::size_t end = i + row[i].cell_size();
      if (row[i].is_compute()) {
        const std::vector<int> next = next_stages.from(i, static_cast<std::size_t>(stages_ahead));
        const auto wanted = [&](int stage) { return std::find(next.begin(), next.end(), stage) != next.end(); };
        for (const int stage : whole)
          if (!wanted(stage)) out.push_back(pass(ActionKind::Reshard, stage, -1));
        for (const int stage : next)
          if (!std::binary_search(whole.begin(), whole.end(), stage)) out.push_back(pass(ActionKind::Unshard, stage, -1));
        whole = next;
        std::sort(whole.begin(), whole.end());
      }
      for (; i < end; ++i) out.push_back(row[i]);
    }
    for (const int stage : whole) out.push_back(pass(ActionKind::Reshard, stage, -1));
  }
  return result;
}

Schedule add_reductions(const Schedule& schedule) {
  Schedule result = with_empty_rows(schedule);
  const int last = microbatches_of_chain(schedule) * schedule.splits;
  std::vector<int> done(schedule.stages, 0);
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank) {
    const Row& row = schedule.order[rank];
    Row& out = result.order[rank];
    for (std::size_t i = 0; i < row.size();) {
      const std::size_t first = i, end = i + row[i].cell_size();
      for (; i < end; ++i) out.push_back(row[i]);
      for (std::size_t member = first; member < end; ++member)
        if ((row[member].kind == ActionKind::B || row[member].kind == ActionKind::W) && ++done[row[member].stage] == last)
          out.push_back(pass(ActionKind::ReduceGrad, row[member].stage, -1));
    }
  }
  return result;
}

int other_end(const Products& products, const Action& a) {
  return a.kind == ActionKind::SendF   ? products.next(a.stage)
         : a.kind == ActionKind::SendB ? products.gradient_to(a.stage)
         : a.kind == ActionKind::RecvF ? products.previous(a.stage)
                                       : products.gradient_from(a.stage);
}

std::size_t message_of(const Products& products, const Action& a) {
  if (is_send(a.kind)) return products.output(a);
  const auto kind = a.kind == ActionKind::RecvF ? Products::Activation : Products::Gradient;
  return products.message({kind, other_end(products, a), a.microbatch, a.split});
}

std::vector<ScheduleProblem> message_order_faults(const Schedule& schedule) {
  const Products products(schedule);
  struct Message {
    std::size_t number;
    int cell;
    std::string text;
  };
  std::map<std::pair<int, int>, std::vector<Message>> sent, received;  // by sending and receiving rank
  const auto rank_of = [&](int stage) { return schedule.stage_to_rank[stage]; };
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    int cell = -1;
    for (const Action& a : schedule.order[rank]) {
      if (a.group_size != 0) ++cell;
      if (!is_send(a.kind) && !is_receive(a.kind)) continue;
      const Message message{message_of(products, a), cell, to_text(a)};
      if (is_send(a.kind)) sent[{rank, rank_of(other_end(products, a))}].push_back(message);
      if (is_receive(a.kind)) received[{rank_of(other_end(products, a)), rank}].push_back(message);
    }
  }
  std::vector<ScheduleProblem> problems;
  for (const auto& [pair, messages] : received) {
    const auto& sends = sent[pair];
    for (std::size_t i = 0; i < messages.size() && i < sends.size(); ++i) {
      if (messages[i].number == sends[i].number) continue;
      problems.push_back({pair.second, messages[i].cell, messages[i].text,
                          fmt::format("is receive {} from rank {}, whose send {} is {}: without tags the messages are mixed up",
                                      i, pair.first, i, sends[i].text)});
      break;
    }
  }
  return problems;
}

}  // namespace panpipe
