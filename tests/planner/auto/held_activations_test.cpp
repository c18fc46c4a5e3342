// What a search gives to families whose orders are searched within a memory: limits, and copies to the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/auto/open_offload.hpp"
#include "planner/candidate.hpp"
#include "planner/planner.hpp"
#include "tests/fault.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Four GH200, whose hosts lie behind NVLink. 16 layers of 32,768 tokens: two stages a rank of two layers each hold about 10 GiB
// for a microbatch, and the devices have 96 GB.
Scenario long_sequences(const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\n"
      "cluster: clusters/gh200x4.yaml\n"
      "workload: {model: llama, layers: 16, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 32000, sequence: "
      "32768}\n"
      "batch: {micro: 1, microbatches: 12}\nprecision: bf16\nschedule: auto\nrecompute: auto\n"
      "parallel: {pipeline: 4, tensor: 1, data: 1, context: 1}\n",
      "long.yaml", ".", overrides);
}

Answer answer_of(const Scenario& scenario) {
  const Answer answer = search(Experiment(scenario), {});
  EXPECT_FALSE(answer.candidates.empty()) << answer.reason;
  return answer;
}

double step_of(const Candidate& candidate) { return *figure_named(candidate.metrics, "step_time_s"); }

TEST(HeldActivations, CopiesWhereTheyAreFaster) {
  const Candidate copying = answer_of(long_sequences()).candidates.front();
  const Candidate recomputing = answer_of(long_sequences({"offload={activations: none}"})).candidates.front();
  EXPECT_THAT(copying.settings, Contains(Pair("schedule.ways", "both")));
  EXPECT_THAT(recomputing.settings, Not(Contains(Pair("schedule.ways", "both"))));
  EXPECT_THAT(copying.summary, HasSubstr("activations copied to the host"));
  EXPECT_LT(step_of(copying), 0.98 * step_of(recomputing));
  EXPECT_TRUE(testing::expect_again(copying, long_sequences).fits);
}

TEST(HeldActivations, CopiesOnlyWhereTheScenarioMayHaveThem) {
  EXPECT_TRUE(may_copy_activations(long_sequences()));
  EXPECT_TRUE(may_copy_activations(long_sequences({"offload={activations: auto}"})));
  for (const char* stated : {"offload={activations: none}", "offload={activations: full}", "trainer=torch",
                             "cluster={devices: 4, memory: 96 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}"})
    EXPECT_FALSE(may_copy_activations(long_sequences({stated}))) << stated;
}

// Stale gradients train something else: no search takes them unasked, nor from a list.
TEST(HeldActivations, StaleGradientsOnlyIfStated) {
  const std::vector<std::string> small = {"workload.layers=8", "workload.sequence=2048"};
  const auto with = [&](const char* schedule) {
    std::vector<std::string> overrides = small;
    overrides.emplace_back(schedule);
    return long_sequences(overrides);
  };
  for (const Candidate& candidate : answer_of(with("schedule=auto")).candidates) EXPECT_NE(candidate.schedule, "pipedream-2bw");
  const Answer stated = answer_of(with("schedule=pipedream-2bw"));
  EXPECT_EQ(stated.candidates.front().schedule, "pipedream-2bw");
  // Its figure is the period: less than a step of the same order with a flush.
  EXPECT_LT(step_of(stated.candidates.front()), step_of(answer_of(with("schedule=1f1b")).candidates.front()));
  EXPECT_THAT(test::diagnostic_of([&] { search(Experiment(with("schedule=[1f1b, pipedream-2bw]")), {}); }).message,
              AllOf(HasSubstr("pipedream-2bw changes what is trained"), HasSubstr("no search chooses it among others")));
}

}  // namespace
}  // namespace panpipe::planner
