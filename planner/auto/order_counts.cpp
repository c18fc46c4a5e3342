#include "planner/auto/order_counts.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe::planner {
namespace {

// The fullest moments so far: by activations, by activations and weight gradients together, and by activations where the last
// or the first stage runs its backward, whose temporaries may be the largest. Of equals the first.
class Fullest {
 public:
  void meet(const Moment& moment) {
    const int held = std::accumulate(moment.held.begin(), moment.held.end(), 0);
    keep(best_[0], moment, {held, moment.weights});
    keep(best_[1], moment, {held + moment.weights, held});
    if (moment.backward == static_cast<int>(moment.held.size()) - 1) keep(best_[2], moment, {held, moment.weights});
    if (moment.backward == 0) keep(best_[3], moment, {held, moment.weights});
  }

  std::vector<Moment> all() const {
    std::vector<Moment> moments;
    for (const Best& best : best_)
      if (best.score.first >= 0 && std::find(moments.begin(), moments.end(), best.moment) == moments.end())
        moments.push_back(best.moment);
    return moments;
  }

 private:
  using Score = std::pair<int, int>;
  struct Best {
    Score score{-1, 0};
    Moment moment;
  };
  static void keep(Best& best, const Moment& moment, Score score) {
    if (score > best.score) best = {score, moment};
  }
  std::array<Best, 4> best_;
};

class RankWalk {
 public:
  RankWalk(int ranks, int stages_per_rank) : ranks_(ranks) { now_.held.assign(at(stages_per_rank), 0); }

  // Members of a group overlap in a way that only their times decide: of a group its beginning is known, and its end.
  RankCounts walk(const std::vector<Action>& row) {
    for (std::size_t i = 0, end = 0; i < row.size(); i = end) {
      end = i + std::max<std::size_t>(1, row[i].group_size);
      if (end == i + 1) {
        run_alone(row[i]);
        continue;
      }
      meet_forward();
      fullest_.meet(now_);
      for (const ActionKind kind : {ActionKind::F, ActionKind::I, ActionKind::B, ActionKind::W})
        for (std::size_t member = i; member < end; ++member)
          if (row[member].kind == kind) run(row[member]);
      now_.forward = -1;
    }
    meet_forward();
    counts_.moments = fullest_.all();
    return std::move(counts_);
  }

 private:
  int chunk_of(const Action& action) const { return action.stage / ranks_; }

  void run_alone(const Action& action) {
    if (action.kind == ActionKind::I || action.kind == ActionKind::B) {
      now_.backward = chunk_of(action);
      now_.whole = action.kind == ActionKind::B;
      fullest_.meet(now_);
      now_.forward = now_.backward = -1;
      now_.whole = false;
    } else {
      meet_forward();
    }
    run(action);
  }

  // Of a forward with no backward right behind it.
  void meet_forward() {
    if (now_.forward >= 0) fullest_.meet(now_);
    now_.forward = -1;
  }

  void run(const Action& action) {
    std::int32_t& held = now_.held[at(chunk_of(action))];
    if (action.kind == ActionKind::F) {
      ++held;
      now_.forward = chunk_of(action);
      counts_.in_flight = std::max(counts_.in_flight, ++in_flight_);
    } else if (action.kind == ActionKind::W) {
      --now_.weights;
      ++counts_.weights_after;
    } else {
      --held;
      --in_flight_;
      now_.weights += action.kind == ActionKind::I ? 1 : 0;
      counts_.weights_after = 0;
    }
  }

  int ranks_, in_flight_ = 0;
  Moment now_;
  Fullest fullest_;
  RankCounts counts_;
};

// `last` continued by `steps` times what lies between it and `second`, where `first` lies as far from that.
class Line {
 public:
  Line(const OrderCounts& first, const OrderCounts& second, const OrderCounts& last, int steps) : counts(last), steps_(steps) {
    for (std::size_t r = 0; r < last.size(); ++r) add_rank(first[r], second[r], counts[r]);
  }
  OrderCounts counts;
  bool straight = true;

 private:
  void add_rank(const RankCounts& first, const RankCounts& second, RankCounts& last) {
    add(first.in_flight, second.in_flight, last.in_flight);
    add(first.weights_after, second.weights_after, last.weights_after);
    straight = straight && first.moments.size() == last.moments.size() && second.moments.size() == last.moments.size();
    for (std::size_t i = 0; straight && i < last.moments.size(); ++i)
      add_moment(first.moments[i], second.moments[i], last.moments[i]);
  }

  void add_moment(const Moment& first, const Moment& second, Moment& last) {
    const auto passes = [](const Moment& moment) { return std::tuple(moment.forward, moment.backward, moment.whole); };
    straight = straight && passes(first) == passes(last) && passes(second) == passes(last);
    add(first.weights, second.weights, last.weights);
    for (std::size_t c = 0; c < last.held.size(); ++c) add(first.held[c], second.held[c], last.held[c]);
  }

  void add(int first, int second, int& last) {
    straight = straight && last - second == second - first;
    last += steps_ * (last - second);
  }

  int steps_;
};

OrderCounts walked(const FamilyForm& form, int ranks, int stages_per_rank, int microbatches) {
  try {
    return counts_of(make_schedule(form.name, ranks, microbatches, form.options(stages_per_rank)));
  } catch (const InputError&) {  // too many actions: whoever makes the plan is told so
    return {};
  }
}

}  // namespace

OrderCounts counts_of(const Schedule& order) {
  OrderCounts counts;
  for (const std::vector<Action>& row : order.order)
    counts.push_back(RankWalk(order.ranks, order.stages / order.ranks).walk(row));
  return counts;
}

const OrderCounts& OrderBook::find(const FamilyForm& form, int ranks, int stages_per_rank, int microbatches) {
  Entry* entry = nullptr;
  {
    const std::lock_guard guard(lock_);
    entry = &known_[{&form, ranks, stages_per_rank, microbatches}];
  }
  std::call_once(entry->made, [&] {
    // The first size of the three: under way, and as many microbatches beyond whole rounds of the ranks.
    int first = 2 * ranks + microbatches % ranks;
    while (first < microbatches && !form.exists(ranks, stages_per_rank, first)) first += ranks;
    const int second = first + ranks, last = second + ranks;
    if (last < microbatches && form.exists(ranks, stages_per_rank, second) && form.exists(ranks, stages_per_rank, last)) {
      const Line line(find(form, ranks, stages_per_rank, first), find(form, ranks, stages_per_rank, second),
                      find(form, ranks, stages_per_rank, last), (microbatches - last) / ranks);
      if (line.straight) entry->counts = line.counts;
    }
    if (entry->counts.empty()) entry->counts = walked(form, ranks, stages_per_rank, microbatches);
  });
  return entry->counts;
}

}  // namespace panpipe::planner
