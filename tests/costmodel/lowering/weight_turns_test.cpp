// Weights that come for the turns of their stages: when they come, what they move, and what a device holds of them.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/plan/slots.hpp"
#include "costmodel/plan/streamed_weights.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

std::vector<WeightTurn> turns_of(const std::string& family, int ranks, int microbatches, const ScheduleOptions& options,
                                 int rank) {
  return weight_turns(make_schedule(family, ranks, microbatches, options).order[rank]);
}

TEST(WeightTurns, AStageThatStaysComesOnce) {
  const std::vector<WeightTurn> turns = turns_of("1f1b", 4, 8, {}, 1);
  ASSERT_EQ(turns.size(), 1U);
  EXPECT_TRUE(turns[0].comes && turns[0].leaves);
  EXPECT_EQ(turns[0].room_after, -1);
}

// One card, four stages, all microbatches of a stage at once: 0 1 2 3 forwards, 3 2 1 0 backwards. Both passes of 3 are one turn.
// The device holds two stages, so 2 is still there for its backward, and 1 and 0 come again.
TEST(WeightTurns, LoopsFetchWhatTheTurnBeforeLastDidNotLeave) {
  const std::vector<WeightTurn> turns = turns_of("looped-bfs", 1, 3, {{"stages_per_rank", "4"}}, 0);
  std::vector<int> stages, rooms;
  std::vector<bool> comes;
  for (const WeightTurn& turn : turns) {
    stages.push_back(turn.stage);
    comes.push_back(turn.comes);
    rooms.push_back(turn.room_after);
  }
  EXPECT_EQ(stages, (std::vector<int>{0, 1, 2, 3, 2, 1, 0}));
  EXPECT_EQ(comes, (std::vector<bool>{true, true, true, true, false, true, true}));
  EXPECT_EQ(rooms, (std::vector<int>{-1, -1, 0, 1, -1, 3, 4}));
}

// In an interleaved order the two stages of a rank change with every pass and both stay.
TEST(WeightTurns, TwoStagesThatTakeTurnsStay) {
  int fetched = 0;
  for (const WeightTurn& turn : turns_of("interleaved-1f1b", 2, 4, {}, 0)) fetched += turn.comes ? 1 : 0;
  EXPECT_EQ(fetched, 2);
}

// A round of roundpipe takes a rank's slots one after another: each comes once a round.
TEST(WeightTurns, SlotsComeOnceARound) {
  for (int rank = 0; rank < 4; ++rank) {
    int fetched = 0;
    for (const WeightTurn& turn : turns_of("roundpipe", 4, 8, {{"forward_slots", "4"}, {"backward_slots", "12"}}, rank))
      fetched += turn.comes ? 1 : 0;
    EXPECT_EQ(fetched, 2 * 4) << rank;  // rounds x slots of a rank
  }
}

std::vector<SlotUnit> units(int count, double forward, double backward) {
  return std::vector<SlotUnit>(static_cast<std::size_t>(count), {"", Duration(forward), Duration(backward)});
}

// Twelve units of 1 and 3 seconds in 2 forward slots and 6 backward ones: two units turn (6 s), 10 are left: forwards of 5 s each
// and backwards of two units, 6 s.
TEST(SlotRanges, AllSlotsTakeTheSameTime) {
  const std::vector<UnitRange> ranges = slot_ranges(units(12, 1, 3), 2, 6);
  std::vector<std::pair<int, int>> found;
  for (const UnitRange& range : ranges) found.emplace_back(range.first, range.end);
  EXPECT_EQ(found, (std::vector<std::pair<int, int>>{{0, 5}, {5, 10}, {10, 12}, {8, 10}, {6, 8}, {4, 6}, {2, 4}, {0, 2}}));
}

TEST(SlotRanges, NamesTheSlotsWhereUnitsAreTooFew) {
  EXPECT_NO_THROW(slot_ranges(units(4, 1, 3), 1, 4));
  EXPECT_THROW(slot_ranges(units(3, 1, 3), 1, 4), InputError);
}

}  // namespace
}  // namespace panpipe
