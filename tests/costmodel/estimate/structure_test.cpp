#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "costmodel/estimate/pipeline_order.hpp"
#include "costmodel/estimate/structure.hpp"
#include "tests/costmodel/estimate/pipeline_graph.hpp"

namespace panpipe {
namespace {

PipelineOrder two_ranks(const std::vector<PackedAction>& rank0, const std::vector<PackedAction>& rank1, int microbatches) {
  PipelineOrder order;
  order.stages = 2;
  order.microbatches = microbatches;
  order.stage_before = {-1, 0};
  order.stage_after = {1, -1};
  order.stage_to_rank = {0, 1};
  order.actions = rank0;
  order.actions.insert(order.actions.end(), rank1.begin(), rank1.end());
  order.rank_begin = {0, static_cast<std::uint32_t>(rank0.size()), static_cast<std::uint32_t>(order.actions.size())};
  return order;
}

TEST(Structure, OfTwoRanksAndOneMicrobatchIsTheChainWrittenOut) {
  const PipelineOrder order =
      two_ranks({pack(Pass::F, 0, 0), pack(Pass::B, 0, 0)}, {pack(Pass::F, 1, 0), pack(Pass::I, 1, 0), pack(Pass::W, 1, 0)}, 1);
  Structure s;
  ASSERT_TRUE(StructureBuilder().build(order, s));
  // Level 1: 0F0; 2: 1F0; 3: 1I0; 4: 0B0 and 1W0.
  ASSERT_EQ(s.tasks, 5u);
  EXPECT_THAT(s.lane_pred, ::testing::ElementsAre(0, 0, 0, 2, 1, 3));
  EXPECT_THAT(s.src, ::testing::ElementsAre(0, 0, 1, 0, 3, 0));
  EXPECT_THAT(s.cost, ::testing::ElementsAre(0, cost_entry(Pass::F, 0), cost_entry(Pass::F, 1), cost_entry(Pass::I, 1),
                                             cost_entry(Pass::B, 0), cost_entry(Pass::W, 1)));
  EXPECT_THAT(s.delay, ::testing::ElementsAre(0, 0, forward_delay_entry(0), 0, backward_delay_entry(1), 0));
  EXPECT_THAT(s.lane_last, ::testing::ElementsAre(4, 5));
}

TEST(Structure, EveryFamilyIsInLevelOrder) {
  for (const char* family : {"gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1"}) {
    for (const int p : {1, 2, 4, 7}) {
      for (const int m : {p, 2 * p, 3 * p}) {
        const PipelineOrder order = pack(make_schedule(family, p, m));
        Structure s;
        ASSERT_TRUE(StructureBuilder().build(order, s)) << family << " p" << p << " m" << m;
        ASSERT_EQ(s.tasks, order.actions.size());
        std::vector<std::uint32_t> level(s.tasks + 1, 0);
        for (std::uint32_t t = 1; t <= s.tasks; ++t) {
          ASSERT_LT(s.lane_pred[t], t);
          ASSERT_LT(s.src[t], t);
          level[t] = 1 + std::max(level[s.lane_pred[t]], level[s.src[t]]);
          EXPECT_GE(level[t] + 1, level[t - 1]);
        }
        std::multiset<std::uint32_t> wanted, got(s.cost.begin() + 1, s.cost.end());
        for (const PackedAction a : order.actions) wanted.insert(cost_entry(pass_of(a), stage_of(a)));
        EXPECT_EQ(wanted, got);
      }
    }
  }
}

TEST(Structure, ABuilderCanBeUsedAgain) {
  StructureBuilder builder;
  Structure big, small, fresh;
  ASSERT_TRUE(builder.build(pack(make_schedule("zb-h1", 8, 32)), big));
  ASSERT_TRUE(builder.build(pack(make_schedule("1f1b", 4, 8)), big));
  ASSERT_TRUE(StructureBuilder().build(pack(make_schedule("1f1b", 4, 8)), fresh));
  EXPECT_EQ(big.tasks, fresh.tasks);
  EXPECT_EQ(big.src, fresh.src);
  EXPECT_EQ(big.lane_pred, fresh.lane_pred);
  EXPECT_EQ(big.lane_last, fresh.lane_last);
}

TEST(Structure, RecycledSlotsAreAsManyAsValuesAreAlive) {
  Structure s;
  ASSERT_TRUE(StructureBuilder().build(pack(make_schedule("1f1b", 8, 64)), s));
  const SlotProgram slots = recycle_slots(s);
  EXPECT_EQ(slots.tasks, s.tasks);
  EXPECT_GE(slots.slots, 9u);  // the zero and the last end of each of eight ranks
  EXPECT_LE(slots.slots, 20u);
  // The same for any number of microbatches.
  ASSERT_TRUE(StructureBuilder().build(pack(make_schedule("1f1b", 8, 512)), s));
  EXPECT_EQ(recycle_slots(s).slots, slots.slots);
}

// Rank 0 wants the gradient of microbatch 0 before it sends microbatch 1, rank 1 wants microbatch 1 first.
TEST(Structure, AnOrderThatCannotFinishHasNone) {
  const PipelineOrder order = two_ranks({pack(Pass::F, 0, 0), pack(Pass::B, 0, 0), pack(Pass::F, 0, 1), pack(Pass::B, 0, 1)},
                                        {pack(Pass::F, 1, 1), pack(Pass::F, 1, 0), pack(Pass::B, 1, 0), pack(Pass::B, 1, 1)}, 2);
  Structure s;
  EXPECT_FALSE(StructureBuilder().build(order, s));
}

TEST(Structure, NorHasOneThatWaitsForWhatNobodyDoes) {
  const PipelineOrder order = two_ranks({pack(Pass::F, 0, 0), pack(Pass::B, 0, 0)}, {pack(Pass::F, 1, 0)}, 1);
  Structure s;
  EXPECT_FALSE(StructureBuilder().build(order, s));
}

TEST(Structure, NorOneWithAGradientBeforeItsForward) {
  const PipelineOrder order =
      two_ranks({pack(Pass::F, 0, 0), pack(Pass::B, 0, 0)}, {pack(Pass::B, 1, 0), pack(Pass::F, 1, 0)}, 1);
  Structure s;
  EXPECT_FALSE(StructureBuilder().build(order, s));
}

TEST(PipelineOrder, RefusesWhatItCannotHold) {
  Schedule schedule = make_schedule("1f1b", 2, 2);
  schedule.order[0][0].kind = ActionKind::R;
  EXPECT_THROW(pack(schedule), InputError);
}

}  // namespace
}  // namespace panpipe
