// Runs over two hosts: they train together, and each finds out that the other cannot be reached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/exec/two_hosts.hpp"

namespace panpipe::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class TwoHostsOfCpus : public TwoHosts {
 protected:
  Started start_rank(int rank, const std::string& options, const std::string& master = "10.77.0.1") {
    return start(rank,
                 {std::string(std::getenv("PANPIPE_BIN")) + "/panpipe", "run", small_scenario(), "--deadline", "2",
                  "--no-progress", "--threads", "1", "--steps", options, "--json"},
                 {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}, master);
  }
};

TEST_F(TwoHostsOfCpus, TrainTogether) {
  Started zero = start_rank(0, "3"), one = start_rank(1, "3");
  const Ended first = zero.end(), second = one.end();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.out, HasSubstr("\"kind\": \"measured\""));
}

TEST_F(TwoHostsOfCpus, ACutCableIsFoundOnBothSides) {
  Started zero = start_rank(0, "1000000"), one = start_rank(1, "1000000");
  zero.wait_for_rank_at_work(0);
  one.wait_for_rank_at_work(1);
  cut();
  const Ended first = zero.end(), second = one.end();
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(
      first.err,
      ContainsRegex(
          "panpipe: rank 0: .*rank 1 is lost: nothing heard from it for [12]\\.?[0-9]* s \\(stopped, or its host cannot be "
          "reached\\); it was last seen at: "));
  EXPECT_THAT(second.err, ContainsRegex("panpipe: rank 1: .*rank 0 is lost: nothing heard from it for [12]"));
  EXPECT_THAT(first.left_behind, testing::IsEmpty());
  EXPECT_THAT(second.left_behind, testing::IsEmpty());
}

TEST_F(TwoHostsOfCpus, AHostThatAnswersNothingIsNamed) {
  const Ended second = start_rank(1, "1", "10.77.0.9").end();
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_EQ(second.err,
            "panpipe: this machine cannot: rank 1 cannot reach the master at 10.77.0.9 port 29611 within 2 s: is rank 0 running, "
            "and are "
            "MASTER_ADDR and MASTER_PORT those of its host?\n");
}

}  // namespace
}  // namespace panpipe::test
