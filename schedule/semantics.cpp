#include "schedule/semantics.hpp"

#include <algorithm>

#include "schedule/communication.hpp"
#include "schedule/deadlock.hpp"
#include "schedule/memory/parking.hpp"
#include "schedule/order_building.hpp"
#include "schedule/pass_costs.hpp"

namespace panpipe {
namespace {

bool is_transfer(ActionKind kind) { return kind >= ActionKind::SendF && kind <= ActionKind::RecvB; }

constexpr double kNotYet = -1;

// Events: a product is made, or the send of a message is posted, numbered as its product; then, so many numbers on, the receive
// of a message is posted.
class TransferRun {
 public:
  TransferRun(const Schedule& schedule, const PassCosts& costs, TransferSemantics semantics)
      : schedule_(schedule),
        costs_(costs),
        semantics_(semantics),
        products_(schedule),
        parking_(schedule, products_, costs),
        times_(2 * products_.count(), kNotYet),
        ranks_(schedule.order.size()) {}

  TransferOutcome run() {
    const Reached reached = RowsRun(schedule_, times_.size()).run([&](std::int32_t rank, std::size_t at, RowsRun& run) {
      return is_transfer(schedule_.order[rank][at].kind) ? transfer(rank, at, run) : run_cell(rank, at, run);
    });
    TransferOutcome outcome;
    outcome.finishes = reached.finishes(schedule_);
    for (const Rank& rank : ranks_) {
      outcome.makespan = std::max(outcome.makespan, rank.now);
      outcome.held.push_back(rank.held);
    }
    outcome.deadlock = explain_waits(schedule_, reached, [&](std::size_t event) {
      const Action send = products_.maker(event % products_.count());
      if (event < products_.count()) return send;
      return pass(send.kind == ActionKind::SendF ? ActionKind::RecvF : ActionKind::RecvB, other_end(products_, send),
                  send.microbatch, send.split);
    });
    return outcome;
  }

 private:
  struct Rank {
    double now = 0, held = 0;
  };

  // That this transfer is posted, or the other one of its message.
  std::size_t event_of(const Action& a, bool other = false) const {
    return message_of(products_, a) + (is_send(a.kind) != other ? 0 : products_.count());
  }

  // Transfers that hold the rank together, from `first` on.
  std::size_t batch_end(const std::vector<Action>& row, std::size_t first) const {
    std::size_t end = first + 1;
    if (semantics_ == TransferSemantics::Batched)
      while (end < row.size() && is_transfer(row[end].kind)) ++end;
    return end;
  }

  // Waits for what comes in no message: the ranks' parts of a cut vocabulary.
  std::size_t run_cell(std::int32_t number, std::size_t at, RowsRun& run) {
    Rank& rank = ranks_[number];
    const auto& row = schedule_.order[number];
    const std::size_t end = at + row[at].cell_size();
    double start = rank.now;
    std::size_t missing = times_.size();
    for (std::size_t i = at; i < end; ++i)
      products_.for_inputs(row[i], true, schedule_.stage_to_rank, [&](const Products::Product& input) {
        const std::size_t event = products_.number(input);
        if (!run.is_made(event)) missing = std::min(missing, event);
        if (schedule_.stage_to_rank[input.stage] != number) start = std::max(start, times_[event] + costs_.comm);
      });
    if (missing < times_.size()) return run.wait(number, at, at, missing);
    rank.now = start;
    if (is_copy(row[at].kind)) parking_.run(row[at], static_cast<std::size_t>(number), rank.now);
    for (std::size_t i = at; i < end; ++i) rank.now = std::max(rank.now, parking_.back(row[i]));
    for (std::size_t i = at; i < end; ++i) {
      if (row[i].is_compute() || row[i].is_vocabulary()) rank.now += cost_of(row[i], costs_);
      parking_.ran(row[i]);
    }
    for (std::size_t i = at; i < end; ++i)
      if (const std::size_t product = products_.output(row[i]); product < products_.count()) {
        times_[product] = rank.now;
        run.make(product);
      }
    return end;
  }

  // Posts the transfers that stand next and, when all are over, goes past them.
  std::size_t transfer(std::int32_t number, std::size_t at, RowsRun& run) {
    Rank& rank = ranks_[number];
    const auto& row = schedule_.order[number];
    const std::size_t end = batch_end(row, at);
    for (std::size_t i = at; i < end; ++i)
      if (double& posted = times_[event_of(row[i])]; posted == kNotYet) {
        posted = rank.now;
        run.make(event_of(row[i]));
      }
    double over = rank.now;
    for (std::size_t i = at; i < end; ++i) {
      const std::size_t other = event_of(row[i], true);
      const bool buffered = semantics_ == TransferSemantics::Buffered;
      if (buffered && is_send(row[i].kind)) continue;  // over at once
      if (!run.is_made(other)) return run.wait(number, at, i, other);
      // A buffered message is on its way when it is sent.
      over = std::max(over, buffered ? times_[other] + costs_.comm : std::max(rank.now, times_[other]) + costs_.comm);
    }
    rank.held += over - rank.now;
    rank.now = over;
    return end;
  }

  const Schedule& schedule_;
  const PassCosts& costs_;
  TransferSemantics semantics_;
  Products products_;
  Parking parking_;
  std::vector<double> times_;  // by event
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
