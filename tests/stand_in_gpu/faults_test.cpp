// Faults of runs on GPUs that are not in hanging_test.cpp: every rank ends in time, and the user reads which rank it was and what
// it was at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;

class FaultsOnGpus : public testing::Test {
 protected:
  Ended run(const Settings& settings, const std::string& options = "") {
    Ended ended = on_stand_in(
        "run " + small_scenario() + " --transport nccl --device cuda --deadline 8 --no-progress --threads 1 --steps 3 " + options,
        settings);
    EXPECT_THAT(ended.left_behind, IsEmpty());
    return ended;
  }
  static Settings fault(const std::string& kind, const std::string& action) {
    return {{"PANPIPE_FAULT", "rank=1,step=1,kind=" + kind + ",action=" + action}};
  }
};

TEST_F(FaultsOnGpus, AStoppedRankIsNamed) {
  const Ended ended = run(fault("stop", "1F1"));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err,
              ContainsRegex("panpipe: rank 0: .*rank 1 is lost: nothing heard from it for [0-9.]* s \\(stopped, or its host"));
}

TEST_F(FaultsOnGpus, AStuckRankIsNamed) {
  const Ended ended = run(fault("stuck", "1F1"));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, ContainsRegex("panpipe: rank 0: .* on rank 1: .*1F1 of step 1"));
}

TEST_F(FaultsOnGpus, AFailingOperatorIsNamed) {
  const Ended ended = run(fault("fail", "1B1"));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("panpipe: rank 1 failed at 1B1 of step 1: a fault was asked for (PANPIPE_FAULT)\n"));
}

// The model needs about 0.2 MiB, in blocks of 2 MiB of the caching allocator: less than one.
TEST_F(FaultsOnGpus, ARankThatRunsOutOfMemoryIsNamed) {
  const Ended ended = run({{"STAND_IN_MEMORY_MIB", "1"}});
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err, ContainsRegex("panpipe: rank [01].*CUDA out of memory"));
}

}  // namespace
}  // namespace panpipe::test
