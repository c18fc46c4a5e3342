// Two hosts: network namespaces with a cable between them, real addresses, a process on each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/cli/program.hpp"
#include "tests/exec/processes.hpp"

namespace panpipe::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

bool shell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

class TwoHosts : public testing::Test {
 protected:
  // Names of this process alone: tests may run side by side.
  std::string first_ = "pp-a-" + std::to_string(getpid()), second_ = "pp-b-" + std::to_string(getpid());

  void SetUp() override {
    const std::string a = "va" + std::to_string(getpid()), b = "vb" + std::to_string(getpid());
    const bool made = shell("ip netns add " + first_) && shell("ip netns add " + second_) &&
                      shell("ip link add " + a + " netns " + first_ + " type veth peer name " + b + " netns " + second_) &&
                      shell("ip -n " + first_ + " addr add 10.77.0.1/24 dev " + a) &&
                      shell("ip -n " + second_ + " addr add 10.77.0.2/24 dev " + b) &&
                      shell("ip -n " + first_ + " link set lo up") && shell("ip -n " + second_ + " link set lo up") &&
                      shell("ip -n " + first_ + " link set " + a + " up") &&
                      shell("ip -n " + second_ + " link set " + b + " up") && shell("ip netns exec " + first_ + " true");
    if (!made) GTEST_SKIP() << "network namespaces cannot be made here (root and iproute2 are needed)";
    cable_ = a;
  }
  void TearDown() override {
    shell("ip netns del " + first_);
    shell("ip netns del " + second_);
  }
  void cut() { ASSERT_TRUE(shell("ip -n " + first_ + " link set " + cable_ + " down")); }

  Started start(int rank, const std::string& options, const std::string& master = "10.77.0.1") {
    return Started({"ip", "netns", "exec", rank == 0 ? first_ : second_, std::string(std::getenv("PANPIPE_BIN")) + "/panpipe",
                    "run", small_scenario(), "--deadline", "2", "--no-progress", "--threads", "1", "--steps", options, "--json"},
                   {{"RANK", std::to_string(rank)},
                    {"WORLD_SIZE", "2"},
                    {"LOCAL_RANK", "0"},
                    {"LOCAL_WORLD_SIZE", "1"},
                    {"MASTER_ADDR", master},
                    {"MASTER_PORT", "29611"}},
                   "");
  }
  std::string cable_;
};

TEST_F(TwoHosts, TrainTogether) {
  Started zero = start(0, "3"), one = start(1, "3");
  const Ended first = zero.end(), second = one.end();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.out, HasSubstr("\"kind\": \"measured\""));
}

TEST_F(TwoHosts, ACutCableIsFoundOnBothSides) {
  Started zero = start(0, "1000000"), one = start(1, "1000000");
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

TEST_F(TwoHosts, AHostThatAnswersNothingIsNamed) {
  const Ended second = start(1, "1", "10.77.0.9").end();
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_EQ(second.err,
            "panpipe: this machine cannot: rank 1 cannot reach the master at 10.77.0.9 port 29611 within 2 s: is rank 0 running, "
            "and are "
            "MASTER_ADDR and MASTER_PORT those of its host?\n");
}

}  // namespace
}  // namespace panpipe::test
