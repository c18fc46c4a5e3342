// Walks through an order without a clock: the inputs of each action, and one pass over all ranks, linear in the number of
// actions. The legality check and the evaluation share it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/rolling.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

// A chain may go on behind its last forward: then the stages before that one run forwards alone (Forth), it turns the microbatch
// round (Turn), and the stages behind it run backwards alone (Back), in this order and over cuts of their own.
enum class Way : std::uint8_t { Forth, Turn, Back };
// Per stage; empty if every stage runs forwards and backwards. Takes the time of one row where that is so.
std::vector<Way> ways_of_stages(const Schedule& schedule);

// The products that actions pass to each other, numbered densely: the activation and the gradient that a stage makes of a
// microbatch (or slice), the message of a send, and a rank's parts of a cut vocabulary's embedding, logits and gradient.
class Products {
 public:
  enum Kind : std::int32_t { Activation, Gradient, SentActivation, SentGradient, Embedded, Logits, HeadGradient, kKinds };

  // The schedule's shape must be sound (every stage in one chain, microbatches a multiple of the chains).
  explicit Products(const Schedule& schedule)
      : splits_(schedule.splits),
        microbatches_(microbatches_of_chain(schedule)),
        barriers_(schedule.vocabulary_barriers),
        ranks_(schedule.ranks),
        first_(schedule.chains.front().empty() ? 0 : schedule.chains.front().front()),
        last_(schedule.chains.front().empty() ? 0 : schedule.chains.front().back()),
        previous_(static_cast<std::size_t>(schedule.stages), -1),
        next_(static_cast<std::size_t>(schedule.stages), -1),
        turn_(ways_of_stages(schedule)) {
    for (const auto& chain : schedule.chains)
      for (std::size_t i = 1; i < chain.size(); ++i) {
        previous_[chain[i]] = chain[i - 1];
        next_[chain[i - 1]] = chain[i];
      }
    per_kind_ = static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(microbatches_ * splits_);
  }

  std::size_t count() const { return per_kind_ * (barriers_ > 0 ? kKinds : Embedded); }
  int microbatches() const { return microbatches_; }  // of each chain
  // Along the path of forwards; -1 = none.
  int previous(int stage) const { return runs_forward(stage) ? previous_[stage] : -1; }
  int next(int stage) const { return next_[stage] >= 0 && runs_forward(next_[stage]) ? next_[stage] : -1; }
  // The stages whose gradient a stage takes, and which takes its own; -1 = none.
  int gradient_from(int stage) const { return turn_.empty() ? next_[stage] : turn_[stage] == Way::Back ? previous_[stage] : -1; }
  int gradient_to(int stage) const { return turn_.empty() ? previous_[stage] : turn_[stage] == Way::Forth ? -1 : next_[stage]; }
  bool runs_forward(int stage) const { return turn_.empty() || turn_[stage] != Way::Back; }
  bool runs_backward(int stage) const { return turn_.empty() || turn_[stage] != Way::Forth; }

  // Numbers (stage, microbatch, split) from 0 to places() - 1.
  std::size_t place(int stage, int microbatch, int split) const {
    return (static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches_) + static_cast<std::size_t>(microbatch)) *
               static_cast<std::size_t>(splits_) +
           static_cast<std::size_t>(std::max(split, 0));
  }
  std::size_t places() const { return per_kind_; }
  std::size_t number(Kind kind, int stage, int microbatch, int split) const {
    return static_cast<std::size_t>(kind) * per_kind_ + place(stage, microbatch, split);
  }

  struct Product {
    Kind kind;
    std::int32_t stage, microbatch, split;
  };

  std::size_t number(const Product& p) const { return number(p.kind, p.stage, p.microbatch, p.split); }

  // The action that makes the product of a number: B where I does too.
  Action maker(std::size_t number) const {
    constexpr ActionKind kMakers[kKinds] = {ActionKind::F, ActionKind::B, ActionKind::SendF, ActionKind::SendB,
                                            ActionKind::E, ActionKind::S, ActionKind::T};
    const int place = static_cast<int>(number % per_kind_), slices = place / splits_;
    return {kMakers[number / per_kind_], GroupKind::None,       1, static_cast<std::int8_t>(splits_ > 1 ? place % splits_ : -1),
            slices / microbatches_,      slices % microbatches_};
  }

  // The number of the message that carries the product to another rank.
  std::size_t message(const Product& p) const {
    return number(p.kind == Activation ? SentActivation : SentGradient, p.stage, p.microbatch, p.split);
  }

  // Calls use(product) for each input of the action. With `receives`, the schedule contains receive actions: passes then take
  // inputs of other ranks from them, and a receive waits for its send.
  template <class Use>
  void for_inputs(const Action& a, bool receives, const std::vector<int>& rank_of, Use&& use) const {
    const auto away = [&](int other) { return rank_of[other] != rank_of[a.stage]; };
    switch (a.kind) {
      case ActionKind::F:
        if (const int from = previous(a.stage); from >= 0 && !(receives && away(from)))
          use(Product{Activation, from, a.microbatch, a.split});
        if (a.split > 0) use(Product{Activation, a.stage, a.microbatch, a.split - 1});
        if (barriers_ > 0 && previous(a.stage) < 0) for_all_ranks(Embedded, a, use);
        break;
      case ActionKind::I:
      case ActionKind::B:
        if (runs_forward(a.stage)) use(Product{Activation, a.stage, a.microbatch, a.split});
        if (const int from = gradient_from(a.stage); from >= 0 && !(receives && away(from)))
          use(Product{Gradient, from, a.microbatch, a.split});
        if (a.split >= 0 && a.split + 1 < splits_) use(Product{Gradient, a.stage, a.microbatch, a.split + 1});
        if (barriers_ > 0 && next(a.stage) < 0) for_all_ranks(barriers_ == 1 ? Logits : HeadGradient, a, use);
        break;
      case ActionKind::S:
        use(Product{Activation, last_, a.microbatch, a.split});
        break;
      case ActionKind::T:
        for_all_ranks(Logits, a, use);
        break;
      case ActionKind::G:
        use(Product{Gradient, first_, a.microbatch, a.split});
        break;
      case ActionKind::W:
      case ActionKind::SendB:
        use(Product{Gradient, a.stage, a.microbatch, a.split});
        break;
      case ActionKind::R:
        use(Product{Activation, runs_forward(a.stage) ? a.stage : before_turn(a.stage), a.microbatch, a.split});
        break;
      case ActionKind::SendF:
        use(Product{Activation, a.stage, a.microbatch, a.split});
        break;
      case ActionKind::RecvF:
        if (receives) use(Product{SentActivation, previous(a.stage), a.microbatch, a.split});
        break;
      case ActionKind::RecvB:
        if (receives) use(Product{SentGradient, gradient_from(a.stage), a.microbatch, a.split});
        break;
      default:
        break;
    }
  }

  // The number of the action's product, or count() if no action waits for it.
  std::size_t output(const Action& a) const {
    switch (a.kind) {
      case ActionKind::F:
        return number(Activation, a.stage, a.microbatch, a.split);
      case ActionKind::I:
      case ActionKind::B:
        return number(Gradient, a.stage, a.microbatch, a.split);
      case ActionKind::SendF:
        return number(SentActivation, a.stage, a.microbatch, a.split);
      case ActionKind::SendB:
        return number(SentGradient, a.stage, a.microbatch, a.split);
      case ActionKind::E:
        return number(Embedded, a.stage, a.microbatch, a.split);
      case ActionKind::S:
        return number(Logits, a.stage, a.microbatch, a.split);
      case ActionKind::T:
        return number(HeadGradient, a.stage, a.microbatch, a.split);
      default:
        return count();
    }
  }

 private:
  // The last stage that only runs forwards, on the path of a stage that only runs backwards.
  int before_turn(int stage) const {
    while (turn_[stage] != Way::Forth) stage = previous_[stage];
    return stage;
  }
  // A vocabulary's passes are named after the first stage of their rank, which has the rank's number.
  template <class Use>
  void for_all_ranks(Kind kind, const Action& a, Use&& use) const {
    for (int rank = 0; rank < ranks_; ++rank) use(Product{kind, rank, a.microbatch, a.split});
  }

  int splits_, microbatches_;
  int barriers_, ranks_, first_, last_;
  std::vector<int> previous_, next_;
  std::vector<Way> turn_;  // per stage; empty if every stage runs both
  std::size_t per_kind_ = 0;
};

// Where a run of all rows stopped.
struct Reached {
  std::vector<std::size_t> position;  // per rank: actions that it completed; all of them unless the order cannot finish
  struct Wait {
    std::size_t at = 0, event = 0;
  };
  std::vector<Wait> waits;  // per rank, if it did not: its action that waits, and for which event

  bool finishes(const Schedule& schedule) const {
    return std::equal(position.begin(), position.end(), schedule.order.begin(),
                      [](std::size_t at, const std::vector<Action>& row) { return at == row.size(); });
  }
};

// Runs every rank's row from unit to unit. Units wait for events, numbered below `events`, which other units make.
// step(rank, at, run) runs the unit that begins with action `at` and returns the action behind it; if it lacks an event, it
// returns run.wait(...), and is called again when that event was made.
class RowsRun {
 public:
  RowsRun(const Schedule& schedule, std::size_t events)
      : schedule_(schedule), made_(events, 0), waiter_(events, -1), next_waiter_(schedule.order.size(), -1) {}

  bool is_made(std::size_t event) const { return made_[event] != 0; }
  void make(std::size_t event) {
    made_[event] = 1;
    for (std::int32_t woken = std::exchange(waiter_[event], -1); woken >= 0; woken = next_waiter_[woken]) ready_.push_back(woken);
  }
  // The rank's unit at `unit` waits, because its action `at` lacks the event.
  std::size_t wait(std::int32_t rank, std::size_t unit, std::size_t at, std::size_t event) {
    reached_.waits[rank] = {at, event};
    next_waiter_[rank] = std::exchange(waiter_[event], rank);
    return unit;
  }

  template <class Step>
  Reached run(Step&& step) {
    reached_.position.assign(next_waiter_.size(), 0);
    reached_.waits.resize(next_waiter_.size());
    for (std::size_t rank = next_waiter_.size(); rank-- > 0;) ready_.push_back(static_cast<std::int32_t>(rank));
    while (!ready_.empty()) {
      const std::int32_t rank = ready_.back();
      ready_.pop_back();
      std::size_t& at = reached_.position[rank];
      while (at < schedule_.order[rank].size()) {
        const std::size_t next = step(rank, at, *this);
        if (next == at) break;
        at = next;
      }
    }
    return std::move(reached_);
  }

 private:
  const Schedule& schedule_;
  std::vector<std::uint8_t> made_;
  std::vector<std::int32_t> waiter_, next_waiter_;  // per event: a rank that waits for it; per rank: another that does
  std::vector<std::int32_t> ready_;
  Reached reached_;
};

// Runs units (lone actions and, unless split, whole groups) of all ranks as soon as their inputs exist, each rank in its order.
// Calls visit(rank, first, count) once per unit, never before the units it depends on. Events are numbers of products.
template <class Visit>
Reached walk(const Schedule& schedule, const Products& products, bool receives, bool split_groups, Visit&& visit) {
  const std::size_t none = products.count();
  return RowsRun(schedule, none + 1).run([&](std::int32_t rank, std::size_t at, RowsRun& run) {
    const Action* const row = schedule.order[rank].data();
    const std::size_t end = at + (split_groups ? 1 : row[at].cell_size());
    std::size_t missing = none;
    for (std::size_t i = at; i < end && missing == none; ++i)
      products.for_inputs(row[i], receives, schedule.stage_to_rank, [&](const Products::Product& p) {
        if (const std::size_t number = products.number(p); missing == none && !run.is_made(number)) missing = number;
      });
    if (missing != none) return run.wait(rank, at, at, missing);
    visit(rank, at, end - at);
    for (std::size_t i = at; i < end; ++i)
      if (const std::size_t made = products.output(row[i]); made != none) run.make(made);
    return end;
  });
}

// True if the rows contain receive actions of their own (PyTorch's compute_comms files).
bool has_receives(const Schedule& schedule);

}  // namespace panpipe
