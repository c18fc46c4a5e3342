#include "planner/auto/order_counts.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe::planner {
namespace {

// The fullest moments so far: by activations, by activations and weight gradients together, and by activations where the last or
// the first stage runs its backward, whose temporaries may be the largest. The first of equal ones.
class PeakMoments {
 public:
  // `held`: the sum over its stages.
  void add(const Moment& moment, int held) {
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
    if (score <= best.score) return;
    best.score = score;
    best.moment = moment;
  }
  std::array<Best, 4> best_;
};

class RankWalk {
 public:
  RankWalk(const std::vector<int>& chunk_of_stage, int chunks) : chunk_of_stage_(chunk_of_stage) {
    now_.held.assign(at(chunks), 0);
  }

  // Members of a group overlap in a way that only their times decide: of a group its beginning is known, and its end.
  RankCounts walk(const std::vector<Action>& row) {
    for (std::size_t i = 0, end = 0; i < row.size(); i = end) {
      end = i + row[i].cell_size();
      if (end == i + 1) {
        run_alone(row[i]);
        continue;
      }
      add_forward();
      peaks_.add(now_, in_flight_);
      for (const ActionKind kind : {ActionKind::F, ActionKind::I, ActionKind::B, ActionKind::W})
        for (std::size_t member = i; member < end; ++member)
          if (row[member].kind == kind) run(row[member]);
      now_.forward = -1;
    }
    add_forward();
    counts_.moments = peaks_.all();
    return std::move(counts_);
  }

 private:
  int chunk_of(const Action& action) const { return chunk_of_stage_[action.stage]; }

  void run_alone(const Action& action) {
    if (starts_backward(action.kind)) {
      now_.backward = chunk_of(action);
      now_.whole = action.kind == ActionKind::B;
      peaks_.add(now_, in_flight_);
      now_.forward = now_.backward = -1;
      now_.whole = false;
    } else if (action.kind == ActionKind::W) {
      add_forward();  // behind another forward more is held
    }
    run(action);
  }

  // Adds the moment of a forward with no backward right after it.
  void add_forward() {
    if (now_.forward >= 0) peaks_.add(now_, in_flight_);
    now_.forward = -1;
  }

  void run(const Action& action) {
    std::int32_t& held = now_.held[chunk_of(action)];
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

  const std::vector<int>& chunk_of_stage_;
  int in_flight_ = 0;
  Moment now_;
  PeakMoments peaks_;
  RankCounts counts_;
};

bool same_place(const Moment& a, const Moment& b) {
  return a.held.size() == b.held.size() && a.forward == b.forward && a.backward == b.backward && a.whole == b.whole;
}

// The line through three counts, `steps` behind the last; empty where they lie on none, or differ in what is no number.
OrderCounts continued(const OrderCounts& first, const OrderCounts& second, const OrderCounts& last, int steps) {
  OrderCounts line = last;
  bool straight = first.size() == last.size() && second.size() == last.size();
  const auto go_on = [&](std::int32_t& number, std::int32_t x, std::int32_t y) {
    const std::int32_t growth = number - y;
    straight = straight && growth == y - x;
    number += steps * growth;
  };
  for (std::size_t r = 0; r < line.size() && straight; ++r) {
    const RankCounts &x = first[r], &y = second[r];
    RankCounts& rank = line[r];
    go_on(rank.in_flight, x.in_flight, y.in_flight);
    go_on(rank.weights_after, x.weights_after, y.weights_after);
    straight = straight && x.moments.size() == rank.moments.size() && y.moments.size() == rank.moments.size();
    for (std::size_t m = 0; m < rank.moments.size() && straight; ++m) {
      const Moment &a = x.moments[m], &b = y.moments[m];
      Moment& moment = rank.moments[m];
      straight = same_place(a, moment) && same_place(b, moment);
      go_on(moment.weights, a.weights, b.weights);
      for (std::size_t h = 0; h < moment.held.size() && straight; ++h) go_on(moment.held[h], a.held[h], b.held[h]);
    }
  }
  return straight ? line : OrderCounts();
}

OrderCounts walked(const FamilyForm& form, int ranks, int stages_per_rank, int microbatches) {
  try {
    return counts_of(make_schedule(form.name, ranks, microbatches, form.options(stages_per_rank)));
  } catch (const InputError&) {  // too many actions: making the plan reports that
    return {};
  }
}

}  // namespace

OrderCounts counts_of(const Schedule& order) {
  std::vector<int> chunk_of_stage(at(order.stages));
  for (int s = 0; s < order.stages; ++s) chunk_of_stage[s] = s / order.ranks;
  OrderCounts counts;
  for (const std::vector<Action>& row : order.order)
    counts.push_back(RankWalk(chunk_of_stage, order.stages / order.ranks).walk(row));
  return counts;
}

OrderCounts any_order(int ranks, int stages_per_rank) {
  Moment moment;
  moment.held.assign(at(stages_per_rank), 1);
  RankCounts counts;
  counts.moments.push_back(moment);
  return OrderCounts(at(ranks), counts);
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
    if (last < microbatches && form.exists(ranks, stages_per_rank, second) && form.exists(ranks, stages_per_rank, last))
      entry->counts = continued(find(form, ranks, stages_per_rank, first), find(form, ranks, stages_per_rank, second),
                                find(form, ranks, stages_per_rank, last), (microbatches - last) / ranks);
    if (entry->counts.empty()) entry->counts = walked(form, ranks, stages_per_rank, microbatches);
  });
  return entry->counts;
}

}  // namespace panpipe::planner
