// Communication written into orders, and what kinds of transfers make of it. The same orders against PyTorch's own functions:
// torch_communication.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "schedule/communication.hpp"
#include "schedule/semantics.hpp"
#include "tests/fault.hpp"
#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using test::from_rows;
using test::rows_of;
using Rows = std::vector<std::string>;

// 1F1B on two ranks. Sweeps over the ranks, a cell each: 0F0 (sends) 1F0 | 0F1 (sends) 1B0 (sends) | 0B0 1F1 | - 1B1 (sends) |
// 0B1.
TEST(Communication, ReceivesStandWhereTheSenderEmits) {
  const Schedule passes = make_schedule("1f1b", 2, 2);
  EXPECT_EQ(rows_of(add_sends_and_receives(passes, Receives::Early)),
            (Rows{"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1"}));
  EXPECT_EQ(rows_of(add_sends_and_receives(passes, Receives::Late)),
            (Rows{"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1"}));
}

TEST(Communication, NeighboursOnOneRankHandOverWithoutMessages) {
  // V placement: stages 1 and 2 both live on rank 1. The sends of a group follow it.
  const Schedule passes = from_rows({"0F0 0F1 3F0 (3F1;3B0)OVERLAP_F_B 0B0 3B1 0B1", "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1"});
  const Rows rows = rows_of(add_sends_and_receives(passes, Receives::Early));
  EXPECT_EQ(
      rows[0],
      "0F0 0SEND_F0 0F1 0SEND_F1 3RECV_F0 3F0 3RECV_F1 (3F1;3B0)OVERLAP_F_B 3SEND_B0 0RECV_B0 0B0 3B1 3SEND_B1 0RECV_B1 0B1");
  EXPECT_EQ(rows[1], "1RECV_F0 1F0 1RECV_F1 2F0 2SEND_F0 1F1 2F1 2SEND_F1 2RECV_B0 2B0 1B0 1SEND_B0 2RECV_B1 2B1 1B1 1SEND_B1");
}

TEST(Communication, OrdersThatCannotBeLoweredAreRefused) {
  const auto message = [](const Schedule& schedule) {
    return test::fault_of([&] { add_sends_and_receives(schedule, Receives::Early); });
  };
  EXPECT_EQ(message(from_rows({"0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"})),
            "error: no sends and receives for an order that cannot finish: rank 0 is blocked at 0B0");
  EXPECT_EQ(message(add_sends_and_receives(make_schedule("1f1b", 2, 2), Receives::Late)),
            "error: the order has sends and receives of its own (0SEND_F0)");
}

// Look-ahead of three stages: at 0F0 {0,1,2}, at 1F0 {1,2,3}, the same until 2B0 {2,1,0}, then {1,0}, {0}.
TEST(Communication, UnshardLooksThreeStagesAhead) {
  EXPECT_EQ(rows_of(add_unshard(from_rows({"0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0"}))),
            (Rows{"0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 2F0 3F0 3B0 3RESHARD 0UNSHARD 2B0 2RESHARD 1B0 1RESHARD "
                  "0B0 0RESHARD"}));
}

TEST(Communication, AStageReducesAfterItsLastWeightGradient) {
  EXPECT_EQ(rows_of(add_reductions(from_rows({"0F0 0F1 0I0 0I1 0W1 0W0", "1F0 1B0 1F1 1B1"}))),
            (Rows{"0F0 0F1 0I0 0I1 0W1 0W0 0REDUCE_GRAD", "1F0 1B0 1F1 1B1 1REDUCE_GRAD"}));
}

TEST(Communication, MessagesThatOvertakeAreFound) {
  const Schedule mixed =
      from_rows({"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", "1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1"});
  EXPECT_EQ(test::message_of(message_order_faults(mixed)),
            "1:0 1RECV_F1 is receive 0 from rank 0, whose send 0 is 0SEND_F0: without tags the messages are mixed up");
}

// F=1, B=2, comm=1 on the two orders of the first test.
// Buffered: r0 F0 0-1, F1 1-2; r1 F0 2-3, B0 3-5, F1 5-6, B1 6-8; r0 B0 6-8, B1 9-11.
// Blocking, early: 0SEND_F0 1-2, 0F1 2-3, 0SEND_F1 3-4 holds both; r1 B0 4-6, sends 6-7, F1 7-8, B1 8-10, sends 10-11; r0 B1
// 11-13. Blocking, late: 0SEND_F1 waits for 1RECV_F1, which stands after 1SEND_B0, which waits for 0RECV_B0 after 0SEND_F1.
// Batched, early: 0SEND_F1 and 0RECV_B0 are one group, over when the gradient is there at 7; then as blocking: 13.
// Batched, late: r0 posts {0SEND_F1, 0RECV_B0} at 3, r1 {1SEND_B0, 1RECV_F1} at 5: both over at 6. r1 F1 6-7, B1 7-9; r0 B1
// 10-12.
TEST(TransferSemantics, TwoRanksByHand) {
  const Schedule passes = make_schedule("1f1b", 2, 2);
  const PassCosts costs{1, 1, 1, std::nullopt, 1};
  const Schedule early = add_sends_and_receives(passes, Receives::Early), late = add_sends_and_receives(passes, Receives::Late);
  EXPECT_EQ(run_transfers(early, costs, TransferSemantics::Asynchronous).makespan, 11);
  EXPECT_EQ(run_transfers(early, costs, TransferSemantics::Buffered).makespan, 11);
  EXPECT_EQ(run_transfers(early, costs, TransferSemantics::Blocking).makespan, 13);
  EXPECT_EQ(run_transfers(early, costs, TransferSemantics::Batched).makespan, 13);
  EXPECT_EQ(run_transfers(late, costs, TransferSemantics::Asynchronous).makespan, 11);
  EXPECT_EQ(run_transfers(late, costs, TransferSemantics::Buffered).makespan, 11);
  EXPECT_EQ(run_transfers(late, costs, TransferSemantics::Batched).makespan, 12);
  // Blocking, early: r0 is held 1-2, 3-4, 4-7 and 9-11, r1 0-2, 3-4, 6-7 and 10-11.
  EXPECT_EQ(run_transfers(early, costs, TransferSemantics::Blocking).held, (std::vector<double>{7, 5}));
}

TEST(TransferSemantics, ADeadlockUnderOneAloneNamesItsCycle) {
  const Schedule late = add_sends_and_receives(make_schedule("1f1b", 2, 2), Receives::Late);
  ASSERT_EQ(test::message_of(check_schedule(late)), "legal");
  const TransferOutcome outcome = run_transfers(late, {}, TransferSemantics::Blocking);
  EXPECT_FALSE(outcome.finishes);
  ASSERT_EQ(outcome.deadlock.size(), 2U);
  EXPECT_EQ(
      test::message_of(outcome.deadlock),
      "0:3 0SEND_F1 the order cannot finish: rank 0 waits at 0SEND_F1 for 1RECV_F1, cell 4 of rank 1; rank 1 waits at 1SEND_B0 "
      "for 0RECV_B0, cell 4 of rank 0: a cycle");
  EXPECT_EQ(outcome.deadlock[1].rank, 1);
  EXPECT_EQ(outcome.deadlock[1].message, "waits for 0RECV_B0, cell 4 of rank 0, which stands at 0SEND_F1, cell 3");
}

// Every family, at sizes that most of them exist for: the orders with communication are legal, run the same passes, keep the
// order of messages, and finish. Early receives pair each send with its receive in one order of all ranks, so no semantics can
// stop them.
TEST(TransferSemantics, EveryFamily) {
  const PassCosts costs{10, 12, 8, std::nullopt, 1};
  int orders = 0;
  for (const ScheduleFamily& family : schedule_families())
    for (const auto& [ranks, microbatches] : {std::pair{2, 4}, {4, 8}, {4, 12}, {6, 24}}) {
      if (family.searched() && ranks > 2) continue;  // searches take their time
      Schedule passes;
      try {
        passes = make_schedule(family.name, ranks, microbatches);
      } catch (const InputError&) {
        continue;  // not defined for these sizes
      }
      if (!check_schedule(passes).empty() || family.name == "pipeless") continue;
      bool has_transfers = false;
      for (const auto& row : passes.order)
        for (const Action& action : row) has_transfers |= action.kind >= ActionKind::SendF && action.kind <= ActionKind::RecvB;
      if (has_transfers) continue;
      SCOPED_TRACE(fmt::format("{} p={} m={}", family.name, ranks, microbatches));
      ++orders;
      double before = evaluate(passes, costs).makespan;
      for (const Receives receives : {Receives::Early, Receives::Late}) {
        const Schedule with = add_sends_and_receives(add_reductions(add_unshard(passes)), receives);
        EXPECT_EQ(test::message_of(check_schedule(with)), "legal");
        EXPECT_EQ(test::message_of(message_order_faults(with)), "legal");
        Schedule without = with;
        for (auto& row : without.order) std::erase_if(row, [](const Action& action) { return !action.is_compute(); });
        EXPECT_EQ(without.order, passes.order);
        double last = 0;
        for (const TransferSemantics semantics :
             {TransferSemantics::Asynchronous, TransferSemantics::Buffered, TransferSemantics::Blocking}) {
          const TransferOutcome outcome = run_transfers(with, costs, semantics);
          if (receives == Receives::Early || semantics != TransferSemantics::Blocking) {
            EXPECT_TRUE(outcome.finishes);
          }
          if (!outcome.finishes) continue;
          EXPECT_GE(outcome.makespan, last) << name_of(semantics);
          last = outcome.makespan;
          before = std::min(before, outcome.makespan);
        }
        if (receives == Receives::Early) {
          EXPECT_TRUE(run_transfers(with, costs, TransferSemantics::Batched).finishes);
        }
      }
      EXPECT_EQ(before, evaluate(passes, costs).makespan) << "asynchronous transfers cost what plain evaluation says";
    }
  EXPECT_GT(orders, 30);
}

}  // namespace
}  // namespace panpipe
