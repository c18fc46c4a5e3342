// --method piper on models of our own: profiles from the cost model, plans that engines take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "planner/piper/problem_of.hpp"
#include "planner/planner.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::planner {
namespace {

using testing::HasSubstr;

Experiment gpt(const std::vector<std::string>& overrides = {}) {
  return Experiment(parse_scenario(R"(panpipe: 1
cluster: clusters/dgx-a100-80g.yaml
workload: {model: gpt, layers: 8, hidden: 1024, heads: 16, sequence: 512}
batch: {micro: 2, microbatches: 16}
precision: bf16
)",
                                   "in.yaml", ".", overrides));
}

SearchOptions with_piper(const std::string& objective = "", std::size_t candidates = 5) {
  SearchOptions options;
  options.method = Method::Piper;
  options.objective = objective;
  options.candidates = candidates;
  return options;
}

double metric(const Candidate& candidate, const std::string& key) {
  for (const auto& [name, value] : candidate.metrics)
    if (name == key) return value;
  ADD_FAILURE() << "no " << key;
  return 0;
}

TEST(SearchPiper, OurModelsHaveProfilesForAllDegrees) {
  const Experiment experiment = gpt();
  const piper::Posed posed = piper::pose(experiment, piper::Objective::TimePerSample);
  EXPECT_EQ(posed.problem.degrees, (std::vector<int>{1, 2, 4, 8}));
  EXPECT_EQ(posed.problem.microbatches, 16);
  ASSERT_FALSE(posed.problem.layers.empty());
  for (const piper::Layer& layer : posed.problem.layers) {
    ASSERT_EQ(layer.choices.size(), 4U);
    for (const auto& choices : layer.choices) {
      ASSERT_EQ(choices.size(), 2U);  // recompute none and full
      EXPECT_LE(choices[0].time, choices[1].time);
      EXPECT_GE(choices[0].in_flight, choices[1].in_flight);
    }
  }
}

TEST(SearchPiper, WhatTheScenarioStatesStaysFixed) {
  const Experiment experiment = gpt({"parallel={pipeline: 2, tensor: 2, data: 2}", "recompute=full", "batch.microbatches=4"});
  const piper::PlanningProblem problem = piper::pose(experiment, piper::Objective::TimePerSample).problem;
  EXPECT_EQ(problem.stages, 2);
  EXPECT_EQ(problem.degrees, std::vector<int>{2});
  EXPECT_EQ(problem.microbatches, 8);  // of both replicas
  EXPECT_EQ(problem.least_data, 2);
  EXPECT_EQ(problem.most_data, 2);
  EXPECT_EQ(problem.layers[0].choices[0].size(), 1U);
  EXPECT_TRUE(problem.layers[0].choices[0][0].recompute);
}

TEST(SearchPiper, PlansAreTakenByTheEstimate) {
  const Experiment experiment = gpt();
  const Answer answer = search(experiment, with_piper());
  ASSERT_GT(answer.candidates.size(), 1U);
  EXPECT_TRUE(answer.search.proved_optimal);
  int runnable = 0;
  double last = 0;
  for (const Candidate& candidate : answer.candidates) {
    EXPECT_GE(metric(candidate, "time_per_sample"), last * (1 - 1e-12));
    last = metric(candidate, "time_per_sample");
    if (!candidate.plan) continue;
    ++runnable;
    EXPECT_EQ(candidate.plan->stages.size(), candidate.stages.size());
    // The step of 1F1B is at least what the slowest stage takes for all microbatches, transfers hidden or not.
    EXPECT_GT(metric(candidate, "step_time_s"), 0.5 * metric(candidate, "steady_step_time"));
    EXPECT_LT(metric(candidate, "step_time_s"), 3 * metric(candidate, "synchronous_step_time"));
  }
  EXPECT_GT(runnable, 0);
}

TEST(SearchPiper, TheStepObjectiveIsNeverWorseAtStep) {
  const Experiment experiment = gpt();
  const Answer load = search(experiment, with_piper("", 1));
  const Answer step = search(experiment, with_piper("step", 1));
  EXPECT_EQ(step.objective, "synchronous_step_time");
  EXPECT_TRUE(step.search.proved_optimal);
  EXPECT_LE(metric(step.candidates[0], "synchronous_step_time"),
            metric(load.candidates[0], "synchronous_step_time") * (1 + 1e-12));
  EXPECT_GE(metric(step.candidates[0], "time_per_sample"), metric(load.candidates[0], "time_per_sample") * (1 - 1e-12));
}

TEST(SearchPiper, AnUnknownObjectiveIsRefused) {
  EXPECT_EQ(test::fault_of([&] { search(gpt(), with_piper("speed")); }),
            "--objective: error: there is no 'speed'; there are time_per_sample, step");
}

// Two layers on one card: 1 ms and 6 GB as they are, or 2 ms and 3 GB by a profile that `lean` describes.
Answer two_layers(const std::string& lean, const std::string& memory) {
  const test::TemporaryFolder folder;
  const std::string profiles =
      "  profiles:\n  - {name: fast, time: 1 ms, in_flight: 6 GB}\n  - {time: 2 ms, in_flight: 3 GB, " + lean + "}\n";
  folder.write("layers.yaml",
               "panpipe: 1\nkind: layers\nlayers:\n- name: a\n  output: 1 B\n" + profiles + "- name: b\n" + profiles);
  return search(Experiment(parse_scenario("panpipe: 1\ncluster: {devices: 1, memory: " + memory +
                                              ", usable: 100 %, link: {latency: 0 s, bandwidth: unlimited}}\n"
                                              "workload: {layers: layers.yaml}\n"
                                              "batch: {micro: 1, microbatches: 1}\noptimizer: none\n",
                                          "in.yaml", folder.path().string())),
                with_piper());
}

// Both layers by the fast profile need 12 GB. The best plan takes one of them by the lean one, 1 + 2 = 3 ms in 6 + 3 = 9 GB;
// a plan file would have both run by the first.
TEST(SearchPiper, AProfileThatNoPlanStatesIsNoPlanFile) {
  const Answer mixed = two_layers("name: lean", "10 GB");
  ASSERT_EQ(mixed.candidates.size(), 1U);  // none that engines run: by the first profiles the model does not fit
  EXPECT_DOUBLE_EQ(metric(mixed.candidates[0], "time_per_sample"), 3e-3);
  EXPECT_EQ(mixed.candidates[0].plan, nullptr);
  EXPECT_THAT(mixed.notes, testing::Contains(HasSubstr("takes its profile 'lean', and the engines run it by 'fast'")));
  const Answer first = two_layers("name: lean", "12 GB");
  EXPECT_DOUBLE_EQ(metric(first.candidates[0], "time_per_sample"), 2e-3);
  EXPECT_NE(first.candidates[0].plan, nullptr);
}

// Both layers as they are take 12 GB, one of them recomputed 9 GB, both 6 GB. What engines run of it is the last.
TEST(SearchPiper, APlanOfWholeStagesKeepsItsRecompute) {
  const Answer answer = two_layers("name: again, recompute: true", "10 GB");
  ASSERT_EQ(answer.candidates.size(), 2U);
  EXPECT_DOUBLE_EQ(metric(answer.candidates[0], "time_per_sample"), 3e-3);
  EXPECT_EQ(answer.candidates[0].plan, nullptr);
  ASSERT_NE(answer.candidates[1].plan, nullptr);
  EXPECT_EQ(answer.candidates[1].plan->stages[0].recompute, Recompute::Full);
  EXPECT_EQ(metric(answer.candidates[1], "fits"), 1);
}

TEST(SearchPiper, WhereRecomputeIsStatedPlansKeepIt) {
  const Answer answer = search(gpt({"recompute=full"}), with_piper());
  ASSERT_FALSE(answer.candidates.empty());
  for (const Candidate& candidate : answer.candidates) {
    if (!candidate.plan) continue;
    for (const StagePlan& stage : candidate.plan->stages) EXPECT_EQ(stage.recompute, Recompute::Full) << candidate.summary;
  }
}

TEST(SearchPiper, TooLittleMemoryIsAnAnswer) {
  const Answer answer = search(gpt({"cluster={file: clusters/dgx-a100-80g.yaml, device: {memory: 1 GiB}}"}), with_piper());
  EXPECT_TRUE(answer.candidates.empty());
  EXPECT_TRUE(answer.search.proved_optimal);
  EXPECT_THAT(answer.reason, HasSubstr("memory: "));
}

}  // namespace
}  // namespace panpipe::planner
