// How often a rank's host waits for its GPU: a wait keeps the host from running ahead, and the GPU then waits for the host.
#include <gtest/gtest.h>

#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

// Waits of a rank's host in one step, as the difference between runs of 4 and of 2 steps: what happens once cancels out.
std::map<int, double> waits_per_step(int microbatches) {
  const std::string scenario = scenario_file(small_gpt({4}, "", 4, microbatches));
  const auto waits = [&](const std::string& steps) {
    std::map<int, double> found;
    const Trained run = train_on_stand_in(scenario, "--steps " + steps, {{"STAND_IN_JITTER_US", "0"}});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    for (const auto& [rank, counts] : run.counts) found[rank] = counts.value("host_waits", 0.0);
    return found;
  };
  std::map<int, double> few = waits("2"), many = waits("4");
  EXPECT_EQ(many.size(), 4u);
  for (auto& [rank, number] : many) number = (number - few[rank]) / 2;
  return many;
}

// A step may wait for its result; a microbatch may not. So the number does not grow with the microbatches.
TEST(HostWaits, AreAsManyForEightMicrobatchesAsForFour) {
  const std::map<int, double> four = waits_per_step(4), eight = waits_per_step(8);
  for (const auto& [rank, number] : four) EXPECT_EQ(eight.at(rank), number) << "rank " << rank;
}

}  // namespace
}  // namespace panpipe::test
