#include "schedule/semantics.hpp"

#include <algorithm>

#include "schedule/communication.hpp"
#include "schedule/deadlock.hpp"
#include "schedule/memory/parking.hpp"
#include "schedule/pass_costs.hpp"

namespace panpipe {
namespace {

bool is_transfer(ActionKind kind) { return kind >= ActionKind::SendF && kind <= ActionKind::RecvB; }

constexpr double kNotYet = -1;

// One end of a message.
struct End {
  double posted = kNotYet;
  std::int32_t rank = -1, at = -1;  // action of the rank's row
};

struct Message {
  End send, receive;
};

class TransferRun {
 public:
  TransferRun(const Schedule& schedule, const PassCosts& costs, TransferSemantics semantics)
      : schedule_(schedule),
        costs_(costs),
        semantics_(semantics),
        products_(schedule),
        parking_(schedule, products_, costs),
        messages_(products_.count() + 1),
        ranks_(schedule.order.size()) {
    for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)
      for (std::size_t i = 0; i < schedule.order[rank].size(); ++i)
        if (is_transfer(schedule.order[rank][i].kind)) {
          End& own = end_of(schedule.order[rank][i]);
          own.rank = static_cast<std::int32_t>(rank);
          own.at = static_cast<std::int32_t>(i);
        }
  }

  TransferOutcome run() {
    run_ranks(ranks_.size(),
              [&](std::int32_t rank, std::vector<std::int32_t>& ready) { advance(static_cast<std::size_t>(rank), ready); });
    TransferOutcome outcome;
    outcome.finishes = true;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      outcome.finishes &= ranks_[rank].at == schedule_.order[rank].size();
      outcome.makespan = std::max(outcome.makespan, ranks_[rank].now);
      outcome.held.push_back(ranks_[rank].held);
    }
    if (outcome.finishes) return outcome;
    std::vector<std::optional<RankWait>> waits;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) waits.push_back(wait_of(rank));
    outcome.deadlock = explain_waits(schedule_, waits);
    return outcome;
  }

 private:
  struct Rank {
    std::size_t at = 0;   // next action
    bool posted = false;  // the transfers that start there
    double now = 0, held = 0;
  };

  // Of a transfer, or the other one of its message.
  End& end_of(const Action& a, bool other = false) {
    Message& message = messages_[message_of(products_, a)];
    return is_send(a.kind) != other ? message.send : message.receive;
  }

  // Transfers that hold the rank together, from `first` on.
  std::size_t batch_end(const std::vector<Action>& row, std::size_t first) const {
    std::size_t end = first + 1;
    if (semantics_ == TransferSemantics::Batched)
      while (end < row.size() && is_transfer(row[end].kind)) ++end;
    return end;
  }

  void advance(std::size_t number, std::vector<std::int32_t>& ready) {
    Rank& rank = ranks_[number];
    const auto& row = schedule_.order[number];
    while (rank.at < row.size()) {
      if (is_transfer(row[rank.at].kind)) {
        if (!transfer(rank, row, ready)) return;
      } else {
        run_cell(rank, number, row);
      }
    }
  }

  void run_cell(Rank& rank, std::size_t number, const std::vector<Action>& row) {
    const Action& first = row[rank.at];
    const std::size_t end = rank.at + first.cell_size();
    if (is_copy(first.kind)) parking_.run(first, number, rank.now);
    for (std::size_t i = rank.at; i < end; ++i) rank.now = std::max(rank.now, parking_.back(row[i]));
    for (; rank.at < end; ++rank.at) {
      if (row[rank.at].is_compute() || row[rank.at].is_vocabulary()) rank.now += cost_of(row[rank.at], costs_);
      parking_.ran(row[rank.at]);
    }
  }

  // Posts the transfers that stand next and, when all are over, goes past them.
  bool transfer(Rank& rank, const std::vector<Action>& row, std::vector<std::int32_t>& ready) {
    const std::size_t end = batch_end(row, rank.at);
    if (!rank.posted) {
      for (std::size_t i = rank.at; i < end; ++i) {
        end_of(row[i]).posted = rank.now;
        if (const End& other = end_of(row[i], true); other.posted != kNotYet) ready.push_back(other.rank);
      }
      rank.posted = true;
    }
    double over = rank.now;
    for (std::size_t i = rank.at; i < end; ++i) {
      const double at = over_at(row[i]);
      if (at == kNotYet) return false;
      over = std::max(over, at);
    }
    rank.held += over - rank.now;
    rank.now = over;
    rank.at = end;
    rank.posted = false;
    return true;
  }

  double over_at(const Action& a) {
    const Message& message = messages_[message_of(products_, a)];
    if (semantics_ == TransferSemantics::Buffered) {
      if (is_send(a.kind)) return message.send.posted;
      return message.send.posted == kNotYet ? kNotYet : std::max(message.receive.posted, message.send.posted + costs_.comm);
    }
    if (message.send.posted == kNotYet || message.receive.posted == kNotYet) return kNotYet;
    return std::max(message.send.posted, message.receive.posted) + costs_.comm;
  }

  // The transfer whose other end is not there; nothing when the rank has finished.
  std::optional<RankWait> wait_of(std::size_t number) {
    const Rank& rank = ranks_[number];
    const auto& row = schedule_.order[number];
    if (rank.at == row.size()) return std::nullopt;
    for (std::size_t i = rank.at; i < batch_end(row, rank.at); ++i) {
      if (over_at(row[i]) != kNotYet) continue;
      const End& other = end_of(row[i], true);
      const auto at = static_cast<std::size_t>(other.at);
      return RankWait{i, to_text(schedule_.order[other.rank][at]), other.rank, at};
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  const PassCosts& costs_;
  TransferSemantics semantics_;
  Products products_;
  Parking parking_;
  std::vector<Message> messages_;  // by number of their send
  std::vector<Rank> ranks_;
};

}  // namespace

std::string_view name_of(TransferSemantics semantics) {
  static constexpr std::string_view kNames[] = {"asynchronous", "buffered", "blocking", "batched"};
  return kNames[static_cast<std::size_t>(semantics)];
}

std::optional<TransferSemantics> find_transfer_semantics(std::string_view name) {
  for (const TransferSemantics semantics : kTransferSemantics)
    if (name_of(semantics) == name) return semantics;
  return std::nullopt;
}

TransferOutcome run_transfers(const Schedule& schedule, const PassCosts& costs, TransferSemantics semantics) {
  if (semantics != TransferSemantics::Asynchronous) return TransferRun(schedule, costs, semantics).run();
  TransferOutcome outcome;
  outcome.finishes = true;
  outcome.makespan = evaluate(schedule, costs).makespan;
  outcome.held.assign(schedule.order.size(), 0);
  return outcome;
}

}  // namespace panpipe
