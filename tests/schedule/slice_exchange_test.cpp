// Which passes of slimpipe share their attention, and by how much.
#include "schedule/slice_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/error.hpp"

namespace panpipe {
namespace {

Schedule slim(int ranks, int microbatches, int slices, int chunks) {
  return make_schedule("slimpipe", ranks, microbatches,
                       {{"sequence_splits", std::to_string(slices)}, {"stages_per_rank", std::to_string(chunks)}});
}

// Each rank's passes of one direction.
std::vector<std::vector<Action>> passes_of(const Schedule& schedule, ActionKind kind) {
  std::vector<std::vector<Action>> passes(schedule.order.size());
  for (std::size_t rank = 0; rank < passes.size(); ++rank)
    std::copy_if(schedule.order[rank].begin(), schedule.order[rank].end(), std::back_inserter(passes[rank]),
                 [&](const Action& action) { return action.kind == kind; });
  return passes;
}

// Four ranks, eight slices, one stage each: while rank 0 runs slice 5, ranks 1 to 3 run slices 4, 3 and 2. 5 is paired with 2 and
// gives (5 - 2) / 2 = 1 slice of keys away; 4 with 3, which are even enough.
TEST(SliceExchange, PairsTheLongestWithTheShortest) {
  const SliceExchange exchange(slim(4, 2, 8, 1));
  const auto forward = [](int stage, int slice) {
    return Action{ActionKind::F, GroupKind::None, 1, static_cast<std::int8_t>(slice), stage, 0};
  };
  const SharedAttention* long_one = exchange.of(forward(0, 5));
  ASSERT_NE(long_one, nullptr);
  EXPECT_EQ(long_one->rank, 3);
  EXPECT_EQ(long_one->pass, forward(3, 2));
  EXPECT_EQ(long_one->slices, -1);
  ASSERT_NE(exchange.of(forward(3, 2)), nullptr);
  EXPECT_EQ(exchange.of(forward(3, 2))->slices, 1);
  EXPECT_EQ(exchange.of(forward(1, 4)), nullptr);
  EXPECT_EQ(exchange.of(forward(0, 2)), nullptr) << "rank 3 has not begun";
  Action again = forward(0, 5);
  again.kind = ActionKind::R;
  EXPECT_EQ(exchange.of(again), nullptr);
}

// At every time at which all ranks have a pass, all attend to equally many keys but for the rounding of a half, and both sides of
// a pair know of each other.
TEST(SliceExchange, EveryRankAttendsToEquallyMuch) {
  for (const auto& [ranks, slices, chunks] : {std::tuple{2, 4, 1}, {4, 8, 2}, {3, 6, 3}, {4, 6, 2}, {5, 5, 2}}) {
    const Schedule schedule = slim(ranks, 3, slices, chunks);
    const SliceExchange exchange(schedule);
    for (const ActionKind kind : {ActionKind::F, ActionKind::B}) {
      const auto passes = passes_of(schedule, kind);
      const int total = static_cast<int>(passes.front().size());
      for (int time = 0; time < total + ranks - 1; ++time) {
        std::vector<int> keys, slice;
        bool all = true, shares = false;
        for (int rank = 0; rank < ranks; ++rank) {
          const int k = time - (kind == ActionKind::F ? rank : ranks - 1 - rank);
          if (k < 0 || k >= total) {
            all = false;
            continue;
          }
          const Action& pass = passes[rank][k];
          const SharedAttention* shared = exchange.of(pass);
          shares = shares || shared != nullptr;
          slice.push_back(pass.split);
          keys.push_back(pass.split + (shared ? shared->slices : 0));
          if (shared == nullptr) continue;
          const SharedAttention* back = exchange.of(shared->pass);
          ASSERT_NE(back, nullptr);
          EXPECT_EQ(back->rank, rank);
          EXPECT_EQ(back->pass, pass);
          EXPECT_EQ(back->slices, -shared->slices);
        }
        if (!all) {
          EXPECT_FALSE(shares);
          continue;
        }
        // Sums of pairs differ where slices of two turns meet; within a pair half a slice is left at most.
        std::sort(slice.begin(), slice.end());
        std::sort(keys.begin(), keys.end());
        int most = 0;
        for (std::size_t i = 0; i < slice.size(); ++i) most = std::max(most, (slice[i] + slice[slice.size() - 1 - i] + 1) / 2);
        EXPECT_EQ(keys.back(), most);
      }
    }
  }
}

// What is exchanged cannot make ranks wait in a cycle: with every pass joined to its partner's, the times of a steady state, F at
// 2 (k + r) and B at 2 (k - r + c) + 1, increase along every row.
TEST(SliceExchange, PartnersMeetWithoutACycle) {
  for (const auto& [ranks, microbatches, slices, chunks] : {std::tuple{2, 1, 4, 1}, {4, 3, 8, 2}, {3, 1, 6, 3}, {4, 2, 5, 2}}) {
    const Schedule schedule = slim(ranks, microbatches, slices, chunks);
    for (int rank = 0; rank < ranks; ++rank) {
      int forwards = 0, backwards = 0, last = -1;
      for (const Action& action : schedule.order[rank]) {
        const int time = action.kind == ActionKind::F ? 2 * (forwards++ + rank)
                                                      : 2 * (backwards++ - rank + slices * chunks + 2 * (ranks - 1) - 1) + 1;
        EXPECT_GT(time, last) << rank << ": " << to_text(action);
        last = time;
      }
    }
  }
}

TEST(SliceExchange, IsAnOptionOfSlimPipe) {
  const Schedule schedule = slim(2, 2, 4, 2);
  EXPECT_TRUE(exchange_of(schedule, {}).any());
  EXPECT_TRUE(exchange_of(schedule, {{"exchange", "on"}}).any());
  EXPECT_FALSE(exchange_of(schedule, {{"exchange", "off"}}).any());
  EXPECT_FALSE(exchange_of(make_schedule("seq-1f1b", 2, 2), {}).any());
  EXPECT_THROW(make_schedule("slimpipe", 2, 2, {{"exchange", "half"}}), InputError);
  try {
    make_schedule("slimpipe", 4, 2, {{"sequence_splits", "3"}});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("use sequence_splits=4 or more"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace panpipe
