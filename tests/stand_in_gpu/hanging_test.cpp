// Runs over NCCL in which an operation never ends or a rank is lost: they end, in time, and with their own message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Time to load LibTorch on a busy machine, and time enough to distinguish a hang from that.
std::string endless(const std::string& scenario) {
  return "run " + scenario_file(scenario) +
         " --transport nccl --device cuda --steps 1000000 --deadline 6 --no-progress --threads 1";
}

void expect_reported(const Ended& run, const std::string& what) {
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, ContainsRegex(what));
  EXPECT_THAT(run.err, Not(HasSubstr("frame #"))) << "no traces of LibTorch's";
  EXPECT_THAT(run.left_behind, testing::IsEmpty());
}

// A host that waits for its device spins, which is processor time, or sleeps.
class Hanging : public testing::TestWithParam<const char*> {
 protected:
  Settings hang(const std::string& where) const { return {{"STAND_IN_HANG", where}, {"STAND_IN_SPIN", GetParam()}}; }
};

TEST_P(Hanging, AMessageIsNamedWithItsRanksAndItsAction) {
  const Ended run = on_stand_in(endless(small_gpt({2})), hang("1,9,send"));
  expect_reported(run,
                  "rank 1 is stuck: its message to rank 0 at 1B[0-3] of step [0-9]+ has stood still between the GPUs for [56]");
}

// Experts whose rows are counted on the GPU: the host is about to read the counts behind a message that never comes. It ends by
// itself, and not by its watch a deadline later.
TEST_P(Hanging, ARankThatReadsCountsOfExpertsEndsByItself) {
  const std::string scenario = scenario_file(small_model(kQwenMoe, 2, "{pipeline: 2}"));
  const Ended run = on_stand_in("run " + scenario +
                                    " --transport nccl --device cuda --steps 1000000 --deadline 6 --no-progress "
                                    "--threads 1",
                                hang("0,9,send"));
  expect_reported(run,
                  "rank 0 is stuck: its message to rank 1 at 0F[0-3] of step [0-9]+ has stood still between the GPUs for [56]");
  EXPECT_THAT(run.err, Not(HasSubstr("did not end by itself")));
}

TEST_P(Hanging, ASumIsNamedWithItsRanks) {
  const Ended run = on_stand_in(endless(small_gpt({1, 2})), hang("1,3,allreduce"));
  expect_reported(run, "ranks 0, 1 are stuck: their sum at .* has stood still between the GPUs for [56]");
}

INSTANTIATE_TEST_SUITE_P(Host, Hanging, testing::Values("0", "1"),
                         [](const auto& of) { return std::string(of.param) == "1" ? "Spins" : "Sleeps"; });

TEST(Losing, AKilledRankIsReportedInOurWords) {
  const Ended run = on_stand_in(endless(small_gpt({2})), {{"PANPIPE_FAULT", "rank=1,step=1,kind=kill,action=1F2"}});
  // Ranks report where they are a few times a second, and a step is shorter: it may have been seen anywhere in one.
  expect_reported(run, "panpipe: rank 0: .*rank 1 is lost: its process ended; it was last seen at: [1-9a-z]");
  EXPECT_THAT(run.err, HasSubstr("panpipe: rank 1 was killed by signal 9 (Killed)\n"));
  for (const char* of_others : {"ProcessGroupNCCL", "TCPStore", "c10d", "watchdog"})
    EXPECT_THAT(run.err, Not(HasSubstr(of_others)));
}

TEST(Losing, ALossThatIsNoNumberIsReportedFirst) {
  const Ended run = on_stand_in(endless(small_gpt({2})), {{"PANPIPE_FAULT", "rank=1,step=1,kind=nan,action=1F2"}});
  expect_reported(run, "step 2: the loss of microbatch 2 is nan \\(rank 1, replica 0\\)");
  EXPECT_THAT(run.err, Not(HasSubstr("killed by signal"))) << "healthy ranks end by themselves";
}

}  // namespace
}  // namespace panpipe::test
