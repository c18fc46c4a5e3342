// Exact answers at small sizes: every way to spend each unit of time is followed, so that nothing shorter than what the search
// finds can exist.
//
// With whole costs and free transfers it is enough to start passes at whole times. Microbatches are alike, so they need no names:
// a stage may run its next forward when the stage before has ended more forwards than this one has started, and so on. Any order
// keeps these rules, and what keeps them becomes an order when every stage takes its microbatches in turn.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <unordered_set>
#include <vector>

#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

struct Case {
  int ranks, microbatches, chunks, memory, F, I, W;
};

constexpr int kMostStages = 6;

// After some whole time: passes that ended, passes that started (of weight gradients per rank only: which chunk they belong to
// matters to nobody), and how long each rank is still busy.
struct State {
  std::array<std::int8_t, kMostStages> f{}, i{}, f_started{}, i_started{};
  std::array<std::int8_t, kMostStages> w{}, w_started{}, busy{};
  bool operator==(const State&) const = default;
};
struct HashState {
  std::size_t operator()(const State& s) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&s), sizeof(State)});
  }
};
using States = std::unordered_set<State, HashState>;

class EveryOrder {
 public:
  explicit EveryOrder(const Case& c) : c_(c), stages_(c.ranks * c.chunks) {}

  bool finishes_by(int deadline) const {
    States now = {State{}};
    for (int time = 0; time < deadline && !now.empty(); ++time) {
      States next;
      for (const State& state : now) choose(state, 0, deadline - time, next);
      now = std::move(next);
      for (const State& state : now)
        if (std::all_of(state.w.begin(), state.w.begin() + c_.ranks, [&](int w) { return w == c_.chunks * c_.microbatches; }))
          return true;
    }
    return false;
  }

 private:
  using Index = std::size_t;

  int rank_of(int stage) const { return stage < c_.ranks ? stage : 2 * c_.ranks - 1 - stage; }

  // Goes through what rank r and those after it may do in this unit of time.
  void choose(const State& state, int r, int left, States& next) const {
    if (r == c_.ranks) {
      advance(state, left, next);
      return;
    }
    const auto rank = static_cast<Index>(r);
    choose(state, r + 1, left, next);  // goes on with what it runs, or waits
    if (state.busy[rank] > 0) return;
    int held = -state.w[rank], gradients = 0;
    for (int stage = 0; stage < stages_; ++stage)
      if (rank_of(stage) == r) {
        held += state.f_started[static_cast<Index>(stage)];
        gradients += state.i[static_cast<Index>(stage)];
      }
    for (int s = 0; s < stages_; ++s) {
      if (rank_of(s) != r) continue;
      const auto stage = static_cast<Index>(s);
      const int inputs = s == 0 ? c_.microbatches : state.f[stage - 1];
      if (state.f_started[stage] < inputs && held < c_.memory) {
        State with = state;
        ++with.f_started[stage];
        with.busy[rank] = static_cast<std::int8_t>(c_.F);
        choose(with, r + 1, left, next);
      }
      const int arrived = s + 1 == stages_ ? state.f[stage] : state.i[stage + 1];
      if (state.i_started[stage] < std::min<int>(arrived, state.f[stage])) {
        State with = state;
        ++with.i_started[stage];
        with.busy[rank] = static_cast<std::int8_t>(c_.I);
        choose(with, r + 1, left, next);
      }
    }
    if (state.w_started[rank] < gradients) {
      State with = state;
      ++with.w_started[rank];
      with.busy[rank] = static_cast<std::int8_t>(c_.W);
      choose(with, r + 1, left, next);
    }
  }

  // One unit of time passes; states that cannot do the rest of a rank's work in time are dropped.
  void advance(State state, int left, States& next) const {
    for (int r = 0; r < c_.ranks; ++r) {
      const auto rank = static_cast<Index>(r);
      if (state.busy[rank] > 0 && --state.busy[rank] == 0) {
        state.w[rank] = state.w_started[rank];
        for (int s = 0; s < stages_; ++s)
          if (rank_of(s) == r) {
            state.f[static_cast<Index>(s)] = state.f_started[static_cast<Index>(s)];
            state.i[static_cast<Index>(s)] = state.i_started[static_cast<Index>(s)];
          }
      }
      int work = state.busy[rank] + c_.W * (c_.chunks * c_.microbatches - state.w_started[rank]);
      for (int s = 0; s < stages_; ++s)
        if (rank_of(s) == r)
          work += c_.F * (c_.microbatches - state.f_started[static_cast<Index>(s)]) +
                  c_.I * (c_.microbatches - state.i_started[static_cast<Index>(s)]);
      if (work > left - 1) return;
    }
    next.insert(state);
  }

  Case c_;
  int stages_;
};

TEST(SearchedExactly, NothingIsShorter) {
  for (const Case& c :
       {Case{2, 3, 1, 1, 1, 1, 1}, Case{2, 4, 1, 2, 1, 1, 1}, Case{2, 4, 1, 2, 2, 3, 1}, Case{2, 5, 1, 3, 1, 2, 2},
        Case{3, 3, 1, 2, 1, 1, 1}, Case{3, 4, 1, 3, 1, 1, 1}, Case{3, 4, 1, 4, 1, 2, 1}, Case{2, 2, 2, 2, 1, 1, 1},
        Case{2, 3, 2, 3, 1, 1, 1}, Case{2, 3, 2, 4, 1, 2, 1}, Case{2, 4, 2, 3, 1, 1, 1}, Case{3, 2, 2, 3, 1, 1, 1},
        Case{3, 3, 2, 4, 1, 1, 1}, Case{3, 3, 2, 5, 1, 2, 1}, Case{3, 6, 1, 3, 2, 2, 1}, Case{4, 4, 1, 3, 1, 1, 1},
        Case{4, 5, 1, 4, 1, 2, 1}, Case{2, 5, 2, 4, 2, 3, 1}, Case{3, 4, 2, 3, 1, 1, 1}, Case{3, 4, 2, 4, 1, 1, 2}}) {
    SCOPED_TRACE(
        fmt::format("p={} m={} chunks={} memory={} F={} I={} W={}", c.ranks, c.microbatches, c.chunks, c.memory, c.F, c.I, c.W));
    const PassCosts costs{double(c.F), double(c.I), double(c.W), std::nullopt, 0};
    const Schedule schedule = make_schedule(c.chunks == 1 ? "zb-auto" : "v-auto", c.ranks, c.microbatches,
                                            {{"memory", std::to_string(c.memory)}}, costs);
    const int found = static_cast<int>(evaluate(schedule, costs).makespan);
    EXPECT_TRUE(EveryOrder(c).finishes_by(found));  // the enumeration knows ours
    EXPECT_FALSE(EveryOrder(c).finishes_by(found - 1));
    EXPECT_LE(*schedule.lower_bound, found);
  }
}

}  // namespace
}  // namespace panpipe
