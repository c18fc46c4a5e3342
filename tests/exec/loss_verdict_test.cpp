// Who is lost, from reports alone: no socket, no clock.
#include "exec/engine/transport/loss_verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

const Steady::time_point kNow = Steady::time_point(1000s);

RankState heard(Steady::duration ago, Steady::duration quiet, bool waits) {
  RankState state;
  state.received = kNow - ago;
  state.quiet = quiet;
  state.waits = waits;
  state.at = "F3";
  return state;
}

TEST(LossVerdict, WaitingIsNoLossHoweverLong) {
  // Rank 1 has waited for 90 s by its last report, 1 s ago; rank 0 computes: the world was quiet for 2 s.
  const Verdict verdict = judge({{0, heard(0s, 2s, false)}, {1, heard(1s, 90s, true)}}, kNow, 10s);
  EXPECT_EQ(verdict.loss, "");
  EXPECT_EQ(verdict.quiet, 2s);
  EXPECT_EQ(verdict.table, "rank 0 is at: F3; rank 1 waits: F3");
}

TEST(LossVerdict, SilenceAndStandstillAreLosses) {
  EXPECT_THAT(judge({{0, heard(0s, 0s, false)}, {1, heard(11s, 0s, true)}}, kNow, 10s).loss,
              testing::StartsWith("rank 1 is lost: nothing heard from it for 11 s"));
  EXPECT_EQ(judge({{0, heard(0s, 0s, false)}, {1, heard(0s, 11s, false)}}, kNow, 10s).loss,
            "rank 1 is stuck: no progress for 11 s at: F3");
  // The judge hears itself always; a rank that has left is nobody's loss.
  RankState gone = heard(50s, 50s, false);
  gone.left = true;
  EXPECT_EQ(judge({{0, heard(11s, 0s, true)}, {1, gone}}, kNow, 10s).loss, "");
}

TEST(LossVerdict, AnOperationHangsOnceAllItTakesAreInIt) {
  const auto in_operation = [](Steady::duration time, const char* sentence) {
    RankState state = heard(1s, 0s, true);
    state.operations = {{"send 0-1", 2, sentence, time}};
    return state;
  };
  // The last of the two came 8 s before its report, which is 1 s old: 9 s.
  EXPECT_EQ(judge({{0, in_operation(30s, "rank 0's message")}, {1, in_operation(8s, "")}}, kNow, 10s).loss, "");
  EXPECT_EQ(judge({{0, in_operation(30s, "rank 0's message")}, {1, in_operation(11s, "")}}, kNow, 10s).loss,
            "rank 0's message has stood still between the GPUs for 12 s");
  EXPECT_EQ(judge({{0, in_operation(30s, "rank 0's message")}, {1, heard(1s, 0s, true)}}, kNow, 10s).loss, "");
}

TEST(LossVerdict, AReportCarriesWhatTheJudgeReads) {
  RankState sent = heard(0s, 1500ms, true), taken;
  sent.operations = {{"all-reduce 7", 4, "the sum", 250ms}};
  take_report(report_of(2, sent), taken);
  EXPECT_EQ(taken.quiet, 1500ms);
  EXPECT_TRUE(taken.waits);
  EXPECT_EQ(taken.at, "F3");
  ASSERT_EQ(taken.operations.size(), 1u);
  EXPECT_EQ(taken.operations[0].members, 4);
  EXPECT_EQ(taken.operations[0].time, 250ms);
}

}  // namespace
}  // namespace panpipe::exec
