// Orders that are legal, and wrong ones that a family makes or that have more than one fault: the others stand in
// tests/input_errors (order_*).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using test::from_rows;
using test::message_of;

TEST(Legality, OrdersThatAreLegal) {
  for (const std::vector<std::string>& rows : {std::vector<std::string>{"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"},
                                               {"0F0.0 0F0.1 0B0.1 0B0.0"},
                                               {"0F0 0OFFLOAD0 0F1 0B1 0RELOAD0 0B0"},
                                               {"0F0 0I0 0OFFLOAD0 0RELOAD0 0W0"},  // what W needs may leave in between
                                               // One rank of a V: stage 0, then stage 1.
                                               {"0F0 0F1 (1F0;1F1)OVERLAP_F_F 1B0 1B1 0B0 0B1"},
                                               {"0F0 1F0 0F1 (1F1;1I0)OVERLAP_F_B (0I0;1W0)OVERLAP 1B1 0W0 0B1"},
                                               {"0F0 1F0 1I0 0I0 (0F1;1W0)OVERLAP_F_W (1F1;0W0)OVERLAP_F_B 1B1 0B1"}})
    EXPECT_EQ(message_of(check_schedule(from_rows(rows))), "legal") << rows.front();
}

TEST(Legality, AStpOrderOfFewerMicrobatchesThanItExistsFor) {
  // STP's generator emits microbatch 10 of 10 for 4 ranks: its steady state has fewer than no groups. Ours refuses to make it.
  EXPECT_EQ(test::fault_of([&] { make_schedule("stp", 4, 10); }),
            "error: stp needs at least 3P-1 = 11 microbatches on 4 ranks, not 10: rank 0 runs that many forwards of its first "
            "stage before its steady state begins");
}

TEST(Legality, StagesPlacedInALoopWhereAVIsMeant) {  // torchtitan #774: ZB-V's rows with stages placed 0, 1, 0, 1
  const std::string placed_in_a_v = to_csv(make_schedule("zb-v", 2, 4), false);
  EXPECT_EQ(message_of(check_schedule(read_schedule_csv(placed_in_a_v, "order.csv"))), "legal");
  EXPECT_EQ(message_of(check_schedule(read_schedule_csv("#place 0,1,0,1\n" + placed_in_a_v, "order.csv"))),
            "0:3 3F0 stage 3 lives on rank 1");
}

TEST(Legality, EachRankThatWaitsIsReported) {
  // Rank 0 wants the gradient of microbatch 0 before it forwards microbatch 1; rank 1 wants microbatch 1 first.
  const auto problems = check_schedule(from_rows({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}));
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[1].message, "waits for 0F1, cell 2 of rank 0, which stands at 0B0, cell 1");
}

// Members of Pfeife's family that order themselves into a cycle: the short last group of the rank that turns back is behind
// backwards that wait for it. (MerHS/pfeife a5a85ca enumerates the first two.)
TEST(Legality, PfeifesDeadlocksAreFound) {
  struct Case {
    int ranks, microbatches, stages_per_rank, loop_batch, prefetch;
  };
  for (const Case& c : {Case{8, 12, 2, 8, 6}, Case{4, 5, 3, 4, 3}}) {
    const Schedule schedule = make_schedule("pfeife", c.ranks, c.microbatches,
                                            {{"stages_per_rank", std::to_string(c.stages_per_rank)},
                                             {"loop_batch", std::to_string(c.loop_batch)},
                                             {"prefetch", std::to_string(c.prefetch)}});
    const auto problems = check_schedule(schedule);
    ASSERT_FALSE(problems.empty());
    EXPECT_THAT(problems[0].message, testing::HasSubstr("the order cannot finish: rank "));
    EXPECT_THAT(problems[0].message, testing::HasSubstr(": a cycle"));
    EXPECT_LE(problems.size(), static_cast<std::size_t>(c.ranks));
  }
}

TEST(Legality, ChainsOfTwoDirections) {  // one stage each way: rank 0 starts chain 0, rank 1 starts chain 1
  const std::string header = "#chain 0,1\n#chain 2,3\n";
  EXPECT_EQ(message_of(check_schedule(from_rows({"0F0 3F0 3B0 0B0", "2F0 1F0 1B0 2B0"}, header))), "legal");
  EXPECT_EQ(from_rows({"0F0 3F0 3B0 0B0", "2F0 1F0 1B0 2B0"}, header).microbatches, 2);
}

TEST(Legality, AScheduleWithoutShapeIsNotIndexed) {
  Schedule schedule;
  EXPECT_EQ(message_of(check_schedule(schedule)), "-1:-1  ranks, stages, microbatches and splits must be positive");
  schedule = make_schedule("1f1b", 2, 2);
  schedule.stage_to_rank[1] = 7;
  EXPECT_EQ(message_of(check_schedule(schedule)), "-1:-1  a stage is placed on rank 7 of 2");
  schedule = make_schedule("1f1b", 2, 2);
  schedule.chains = {{0, 0}};
  EXPECT_EQ(message_of(check_schedule(schedule)), "-1:-1  stage 0 is in 2 chains, not in one");
}

}  // namespace
}  // namespace panpipe
