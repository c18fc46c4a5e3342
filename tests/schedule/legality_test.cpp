// Orders that are wrong, and their messages: the first fault, whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using test::from_rows;
using test::message_of;

std::string fault(const std::vector<std::string>& rows, const std::string& header = "") {
  return message_of(check_schedule(from_rows(rows, header)));
}

TEST(Legality, PyTorchsMisnumbered1f1bIsRefused) {  // torch 2.14.1 dump of Schedule1F1B, 2 ranks
  EXPECT_EQ(fault({"0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3 0REDUCE_GRAD", "1F1 1B0 1F2 1B1 1F3 1B2 1F4 1B3 1REDUCE_GRAD"}),
            "1:1 1B0 comes before 1F0, its forward");
}

TEST(Legality, WhatIsOutOfOrderOnARank) {
  EXPECT_EQ(fault({"0B0 0F0"}), "0:0 0B0 comes before 0F0, its forward");
  EXPECT_EQ(fault({"0F0 0W0 0I0"}), "0:1 0W0 comes before 0I0, whose input gradient it starts from");
  EXPECT_EQ(fault({"0F0 0I0 0W0 0B0"}), "0:3 0B0 repeats the backward: 0I0 is in cell 1");
  EXPECT_EQ(fault({"0F0 0B0 0F1 0I1 0W1 0W0"}), "0:5 0W0 repeats part of the full backward B of the same microbatch");
  EXPECT_EQ(fault({"0F0 0B0 0R0"}), "0:2 0R0 comes after the backward it is for");
  EXPECT_EQ(fault({"0F0 0REDUCE_GRAD 0B0"}), "0:1 0REDUCE_GRAD comes before the last weight gradient of stage 0");
  EXPECT_EQ(fault({"0F0 OPT 0B0"}), "0:1 OPT comes before the last weight gradient of the rank");
  EXPECT_EQ(fault({"0F0 0OFFLOAD0 0B0 0RELOAD0"}), "0:2 0B0 comes before 0RELOAD0, which brings its activations back");
  EXPECT_EQ(fault({"0F0 (0F1;0B1)OVERLAP_F_B 0B0"}), "0:1 0B1 is in one group with 0F1, its forward");
}

TEST(Legality, WhatIsMissingOrTooMuch) {
  EXPECT_EQ(fault({"0F0 0F1 0B0"}), "0:-1 0B1 is missing (as B, or as I and W)");
  EXPECT_EQ(fault({"0F0 0I0 0F1 0I1 0W1"}), "0:-1 0W0 is missing: its input gradient I runs");
  EXPECT_EQ(fault({"0F0 0F1 0B0 0B1", "1F0 1B0"}), "1:-1 1F1 is missing: every stage runs every microbatch once");
  EXPECT_EQ(fault({"0F0 0B0", "1F0 1B0 1B1"}), "1:2 1B1 microbatch 1 does not exist: there are 1, numbered from 0");
  EXPECT_EQ(fault({"0F0 0B0 1F0 1B0", "1F0 1B0"}, "#place 0,1\n"), "0:2 1F0 stage 1 lives on rank 1");
}

TEST(Legality, SendsAndReceives) {
  const std::string rank0 = "0F0 0SEND_F0 0RECV_B0 0B0";
  EXPECT_EQ(fault({rank0, "1RECV_F0 1F0 1B0 1SEND_B0"}), "legal");
  EXPECT_EQ(fault({rank0, "1F0 1RECV_F0 1B0 1SEND_B0"}), "1:0 1F0 comes before 1RECV_F0, which brings its input");
  EXPECT_EQ(fault({rank0, "1RECV_F0 1F0 1SEND_B0 1B0"}), "1:2 1SEND_B0 comes before 1I0, whose result it sends");
  EXPECT_EQ(fault({rank0, "1RECV_F0 1F0 1B0"}), "0:2 0RECV_B0 waits for 1SEND_B0, which rank 1 never runs");
  EXPECT_EQ(fault({"0RECV_F0 " + rank0, "1RECV_F0 1F0 1B0 1SEND_B0"}),
            "0:0 0RECV_F0 has no sender: stage 0 is the first of its chain");
}

TEST(Legality, SequenceSplits) {
  EXPECT_EQ(fault({"0F0.0 0F0.1 0B0.1 0B0.0"}), "legal");
  EXPECT_EQ(fault({"0F0.1 0F0.0 0B0.1 0B0.0"}), "0:0 0F0.1 comes before 0F0.0, whose keys and values it attends to");
  EXPECT_EQ(fault({"0F0.0 0F0.1 0B0.0 0B0.1"}), "0:2 0B0.0 comes before 0B0.1, whose gradients of keys and values it needs");
  EXPECT_EQ(fault({"0F0.0 0F0 0B0.1 0B0.0"}, "#pipeline seq_splits=2\n"),
            "0:1 0F0 must name one of the 2 sequence splits, numbered from 0");
}

TEST(Legality, OffloadAndReload) {
  EXPECT_EQ(fault({"0F0 0OFFLOAD0 0F1 0B1 0RELOAD0 0B0"}), "legal");
  EXPECT_EQ(fault({"0F0 0I0 0OFFLOAD0 0RELOAD0 0W0"}), "legal");  // what W needs may leave in between
  EXPECT_EQ(fault({"0F0 0I0 0OFFLOAD0 0W0"}), "0:3 0W0 comes before 0RELOAD0, which brings its activations back");
  EXPECT_EQ(fault({"0F0 0OFFLOAD0 0I0 0RELOAD0 0W0"}), "0:2 0I0 comes before 0RELOAD0, which brings its activations back");
  EXPECT_EQ(fault({"0F0 0B0 0OFFLOAD0 0RELOAD0"}), "0:2 0OFFLOAD0 comes after 0B0, which has freed its activations");
  EXPECT_EQ(fault({"0F0 0RELOAD0 0B0"}), "0:1 0RELOAD0 comes before 0OFFLOAD0, which it undoes");
  EXPECT_EQ(fault({"0OFFLOAD0 0F0 0RELOAD0 0B0"}), "0:0 0OFFLOAD0 comes before 0F0, whose activations it moves");
}

TEST(Legality, GroupsOfEveryKind) {
  // One rank of a V: stage 0, then stage 1.
  EXPECT_EQ(fault({"0F0 0F1 (1F0;1F1)OVERLAP_F_F 1B0 1B1 0B0 0B1"}), "legal");
  EXPECT_EQ(fault({"0F0 1F0 0F1 (1F1;1I0)OVERLAP_F_B (0I0;1W0)OVERLAP 1B1 0W0 0B1"}), "legal");
  EXPECT_EQ(fault({"0F0 1F0 1I0 0I0 (0F1;1W0)OVERLAP_F_W (1F1;0W0)OVERLAP_F_B 1B1 0B1"}), "legal");
  EXPECT_EQ(fault({"(0F0;1F0)OVERLAP_F_F 1B0 0B0"}), "0:0 1F0 is in one group with 0F0, whose result it needs");
  EXPECT_EQ(fault({"0F0 1F0 (0B0;1B0)OVERLAP"}), "0:2 0B0 is in one group with 1B0, whose result it needs");
  EXPECT_EQ(fault({"0F0 (0I0;0W0)OVERLAP"}), "0:1 0W0 is in one group with 0I0, whose input gradient it starts from");
  EXPECT_EQ(fault({"(0F0.0;0F0.1)OVERLAP_F_F 0B0.1 0B0.0"}), "0:0 0F0.1 is in one group with 0F0.0, whose result it needs");
  EXPECT_EQ(fault({"0F0 0F1 (0B0;0B1)OVERLAP_F_W"}),
            "0:2 0B0 does not belong into OVERLAP_F_W, which runs forwards with weight gradients");
  EXPECT_EQ(fault({"0F0 (0F1;0B0)OVERLAP_F_F 0B1"}), "0:1 0B0 does not belong into OVERLAP_F_F, which runs forwards only");
}

// The published defects of others' files and orders, as a reader finds them.
TEST(Legality, OrdersThatPyTorchsValidatorLetsThrough) {
  // It collects passes in sets: repeated passes, microbatches out of range and orders that wait for each other all pass there.
  EXPECT_EQ(fault({"0F0 0F2 0B0 0B2", "1F0 1F2 1B0 1B2"}), "0:1 0F2 microbatch 2 does not exist: there are 2, numbered from 0");
  EXPECT_EQ(fault({"0F0 0B0 0F1 0B1", "1F1 1F0 1B0 1B1"}),
            "0:1 0B0 the order cannot finish: rank 0 waits at 0B0 for 1B0, cell 2 of rank 1; rank 1 waits at 1F1 for 0F1, cell 2 "
            "of rank 0: a cycle");
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

TEST(Legality, TwoRanksThatWaitForEachOther) {
  // Rank 0 wants the gradient of microbatch 0 before it forwards microbatch 1; rank 1 wants microbatch 1 first.
  EXPECT_EQ(fault({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}),
            "0:1 0B0 the order cannot finish: rank 0 waits at 0B0 for 1B0, cell 2 of rank 1; rank 1 waits at 1F1 for 0F1, cell 2 "
            "of rank 0: a cycle");
  const auto problems = check_schedule(from_rows({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}));
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[1].message, "waits for 0F1, cell 2 of rank 0, which stands at 0B0, cell 1");
}

TEST(Legality, AGroupThatWaitsIsNamedWhole) {
  // Rank 0 braids 0F1 with the gradient of 0, rank 1 wants 1F1 before it makes that.
  EXPECT_EQ(fault({"0F0 (0F1;0B0)OVERLAP_F_B 0B1", "1F0 1F1 1B0 1B1"}),
            "0:1 (0F1;0B0)OVERLAP_F_B the order cannot finish: rank 0 waits at (0F1;0B0)OVERLAP_F_B for 1B0, cell 2 of rank 1; "
            "rank 1 waits at 1F1 for 0F1, cell 1 of rank 0: a cycle");
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
  EXPECT_EQ(fault({"0F0 3F0 3B0 0B0", "2F0 1F0 1B0 2B0"}, header), "legal");
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
