// roundpipe against the orders and the times of the authors' simulator (pp-simulate/simulator.py of its artifact), and chains
// that go on behind their last forward.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "schedule/communication.hpp"
#include "schedule/schedule.hpp"
#include "schedule/semantics.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

struct Published {
  int ranks, microbatches, forward, backward;
  std::vector<double> forward_layers, backward_layers;
  double F, B, head_F, head_B, comm, makespan;
  std::vector<std::string> rows;
};

// A slot of the simulator: its number within the forward or the backward, and microbatches numbered over all rounds.
std::string as_published(const Schedule& schedule, int rank, int forward, int slots) {
  std::vector<std::string> cells;
  const int chains = static_cast<int>(schedule.chains.size());
  for (const Action& action : schedule.order[rank]) {
    const int chain = action.stage / slots, slot = action.stage % slots;
    const int round = action.microbatch / schedule.ranks * chains + chain;
    const int microbatch = round * schedule.ranks + action.microbatch % schedule.ranks;
    // The slot that turns runs F and B of a microbatch, and backward slots R and B: the simulator has one entry for both.
    if (action.kind == ActionKind::F && slot < forward) cells.push_back(fmt::format("{}F{}", slot, microbatch));
    if (action.kind == ActionKind::B) cells.push_back(fmt::format("{}B{}", slot - forward, microbatch));
  }
  return fmt::format("{}", fmt::join(cells, " "));
}

// The simulator lets the head's forward begin before its input is there if the rank is idle; no case here depends on that.
TEST(RoundPipe, OrdersAndTimesAreThePublishedOnes) {
  const std::vector<Published> cases = {
      {2,
       4,
       2,
       7,
       {3, 3},
       {0, 1, 1, 1, 1, 1, 1},
       1,
       2,
       1,
       2,
       0,
       57,
       {"0F0 0F1 0B0 0B1 2B0 2B1 4B0 4B1 6B0 6B1 1F2 1F3 1B2 1B3 3B2 3B3 5B2 5B3",
        "1F0 1F1 1B0 1B1 3B0 3B1 5B0 5B1 0F2 0F3 0B2 0B3 2B2 2B3 4B2 4B3 6B2 6B3"}},
      {3,
       6,
       1,
       4,
       {3},
       {0, 1, 1, 1},
       1,
       2,
       1,
       2,
       0,
       36,
       {"0F0 0F1 0F2 2B0 2B1 2B2 0B3 0B4 0B5 3B3 3B4 3B5", "0B0 0B1 0B2 3B0 3B1 3B2 1B3 1B4 1B5",
        "1B0 1B1 1B2 0F3 0F4 0F5 2B3 2B4 2B5"}},
      {4,
       8,
       2,
       5,
       {2, 2},
       {0, 1, 1, 1, 1},
       1,
       2.25,
       0,
       4.5,
       0.25,
       61,
       {"0F0 0F1 0F2 0F3 2B0 2B1 2B2 2B3 1F4 1F5 1F6 1F7 3B4 3B5 3B6 3B7",
        "1F0 1F1 1F2 1F3 3B0 3B1 3B2 3B3 0B4 0B5 0B6 0B7 4B4 4B5 4B6 4B7", "0B0 0B1 0B2 0B3 4B0 4B1 4B2 4B3 1B4 1B5 1B6 1B7",
        "1B0 1B1 1B2 1B3 0F4 0F5 0F6 0F7 2B4 2B5 2B6 2B7"}}};
  for (const Published& of : cases) {
    const Schedule schedule =
        make_schedule("roundpipe", of.ranks, of.microbatches,
                      {{"forward_slots", std::to_string(of.forward)}, {"backward_slots", std::to_string(of.backward)}});
    EXPECT_TRUE(check_schedule(schedule).empty());
    const int slots = of.forward + of.backward;
    PassCosts costs;
    costs.comm = of.comm;
    for (int stage = 0; stage < schedule.stages; ++stage) {
      const int slot = stage % slots, back = slot - of.forward;
      const double layers = back < 0 ? of.forward_layers[slot] : of.backward_layers[back];
      const double head_F = back == 0 ? of.head_F : 0, head_B = back == 0 ? of.head_B : 0;
      costs.stages.push_back({layers * of.F + head_F, layers * of.B + head_B, 0});
    }
    EXPECT_DOUBLE_EQ(evaluate(schedule, costs).makespan, of.makespan);
    for (int rank = 0; rank < of.ranks; ++rank) EXPECT_EQ(as_published(schedule, rank, of.forward, slots), of.rows[rank]) << rank;
  }
}

// All slots of time t: M / P rounds of K slots of P microbatches keep P ranks busy for K M / P slots of t each, and the last slot
// begins P - 1 turns of t behind the first: t (K M / P + P - 1). The last rank begins with a backward slot, whose recompute needs
// no gradient, and is as much earlier. Here t = 3, K = 8, M = 8, P = 4: 3 (16 + 3) - 1 = 56.
TEST(RoundPipe, EqualSlotsLeaveOnlyTheFirstWait) {
  const Schedule schedule = make_schedule("roundpipe", 4, 8, {{"forward_slots", "2"}, {"backward_slots", "6"}});
  EXPECT_EQ(schedule.chains.size(), 1U);  // 4 divides 8 slots: every round begins on rank 0
  PassCosts costs;
  for (int slot = 0; slot < 8; ++slot) costs.stages.push_back({slot < 2 ? 3.0 : 1.0, 2, 0});
  EXPECT_DOUBLE_EQ(evaluate(schedule, costs).makespan, 56);
}

TEST(RoundPipe, ActivationsLeaveWithTheForward) {
  const ScheduleEvaluation evaluation = evaluate(make_schedule("roundpipe", 4, 8), {});
  for (const int peak : evaluation.peak_activations) EXPECT_EQ(peak, 1);  // one microbatch of one slot at a time
}

// One rank that runs all microbatches of a slot before the next one.
TEST(RoundPipe, OneRoundRunsASlotAtATime) {
  const Schedule schedule = make_schedule("roundpipe", 1, 2, {{"forward_slots", "2"}, {"backward_slots", "2"}, {"round", "2"}});
  EXPECT_TRUE(check_schedule(schedule).empty());
  EXPECT_EQ(to_csv(schedule, false), "0F0,0F1,1F0,1F1,2F0,2B0,2F1,2B1,3R0,3B0,3R1,3B1\r\n");
  EXPECT_THROW(make_schedule("roundpipe", 4, 8, {{"forward_slots", "900000000"}}), InputError);
}

TEST(RoundPipe, SurvivesItsText) {
  const Schedule schedule = make_schedule("roundpipe", 3, 6);
  const Schedule again = read_schedule_csv(to_csv(schedule, false), "roundpipe");
  EXPECT_EQ(again.order, schedule.order);
  EXPECT_EQ(again.chains, schedule.chains);
  EXPECT_EQ(again.stage_to_rank, schedule.stage_to_rank);
  EXPECT_THROW(to_csv(schedule, true), InputError);
}

TEST(RoundPipe, TransfersFollowBothWays) {
  for (const int microbatches : {4, 8, 16}) {
    const Schedule schedule = make_schedule("roundpipe", 4, microbatches, {{"forward_slots", "2"}, {"backward_slots", "5"}});
    const Schedule sent = add_sends_and_receives(schedule, Receives::Late);
    EXPECT_TRUE(check_schedule(sent).empty());
    EXPECT_TRUE(message_order_faults(sent).empty());
  }
}

TEST(RoundPipe, NamesTheSizesThatItHasNoOrderFor) {
  EXPECT_NO_THROW(make_schedule("roundpipe", 4, 5));  // one chain: the last round is short
  EXPECT_NO_THROW(make_schedule("roundpipe", 4, 3, {{"forward_slots", "1"}, {"backward_slots", "4"}}));
  try {
    make_schedule("roundpipe", 4, 10, {{"forward_slots", "1"}, {"backward_slots", "4"}});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("a multiple of 12 microbatches, not 10"), std::string::npos) << error.what();
  }
}

// What leaves a stage after its forward would come back to a stage that has none.
TEST(RoundPipe, MovesNoActivationsByActions) {
  for (const char* option : {"offload", "recompute"})
    EXPECT_THROW(make_schedule("roundpipe", 4, 8, {{option, "full"}}), InputError) << option;
}

// Only a chain whose last stages have no forward, and whose first have no backward, goes on behind its turn.
TEST(WaysOfStages, AMissingPassStaysAFault) {
  Schedule schedule = make_schedule("roundpipe", 4, 4, {{"forward_slots", "1"}, {"backward_slots", "3"}});
  EXPECT_EQ(ways_of_stages(schedule), (std::vector<Way>{Way::Forth, Way::Turn, Way::Back, Way::Back}));
  std::erase_if(schedule.order[2], [](const Action& a) { return a.kind == ActionKind::B && a.microbatch == 3; });
  ASSERT_FALSE(check_schedule(schedule).empty());
  EXPECT_NE(check_schedule(schedule).front().message.find("is missing"), std::string::npos);
  Schedule plain = make_schedule("1f1b", 3, 4);
  EXPECT_TRUE(ways_of_stages(plain).empty());
  std::erase_if(plain.order[2], [](const Action& a) { return a.kind == ActionKind::F; });
  EXPECT_TRUE(ways_of_stages(plain).empty());
  EXPECT_FALSE(check_schedule(plain).empty());
}

}  // namespace
}  // namespace panpipe
