// The search against brute force, closed forms and its own promises.
#include "planner/piper/solve.hpp"

#include <atomic>
#include <cmath>
#include <new>

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "planner/piper/label_search.hpp"
#include "tests/fault.hpp"
#include "tests/planner/piper/brute_force.hpp"
#include "tests/planner/piper/look_alikes.hpp"

namespace panpipe::planner::piper {
namespace {

Choice choice(double time, double in_flight, double fixed, double parameters = 0, bool recompute = false) {
  return {recompute ? "recompute" : "plain", recompute, time, parameters, in_flight, fixed, {}, {}};
}

// A chain of layers with one choice each.
PlanningProblem chain(const std::vector<double>& times, int devices, int microbatches) {
  PlanningProblem problem;
  problem.degrees = {1};
  problem.devices = devices;
  problem.microbatches = microbatches;
  problem.memory = 1e9;
  problem.bandwidth = 1e9;
  for (std::size_t i = 0; i < times.size(); ++i) {
    problem.layers.push_back({"l" + std::to_string(i), {{choice(times[i], 1, 1)}}});
    if (i > 0) problem.edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i), 0});
  }
  return problem;
}

TEST(Solve, EqualsBruteForceOnRandomProblems) {
  int feasible = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const PlanningProblem problem = random_problem(seed);
    const BruteForce expected = brute_force(problem);
    const Solution found = least_load(problem, {});
    ASSERT_EQ(!found.stages.empty(), expected.feasible) << "seed " << seed;
    EXPECT_TRUE(found.proved) << "seed " << seed;
    EXPECT_EQ(found.reason.empty(), expected.feasible) << "seed " << seed;
    if (!expected.feasible) continue;
    ++feasible;
    EXPECT_NEAR(found.objective, expected.least_load, 1e-12 * expected.least_load) << "seed " << seed;
    EXPECT_EQ(found.lower_bound, found.objective);
    for (const StageChoice& stage : found.stages) EXPECT_LE(stage.memory, problem.memory);
  }
  EXPECT_GT(feasible, 300);
}

TEST(Solve, StepEqualsBruteForceOnRandomProblems) {
  for (unsigned seed = 1000; seed < 1400; ++seed) {
    const PlanningProblem problem = random_problem(seed);
    const BruteForce expected = brute_force(problem);
    const Solution found = least_step(problem, {});
    ASSERT_EQ(!found.stages.empty(), expected.feasible) << "seed " << seed;
    EXPECT_TRUE(found.proved) << "seed " << seed;
    if (!expected.feasible) continue;
    EXPECT_NEAR(found.objective, expected.least_step, 1e-12 * expected.least_step) << "seed " << seed;
    EXPECT_NEAR(step_time(problem, found.stages), found.objective, 1e-12 * found.objective);
  }
}

// Four layers that feed none, on two devices: 3 + 1 on each, or the runs 3 and 3 + 1 + 1.
TEST(Solve, ContiguousStagesAreRunsOfTheLayers) {
  PlanningProblem problem = chain({3, 3, 1, 1}, 2, 2);
  problem.edges.clear();
  problem.most_data = 1;
  EXPECT_EQ(least_load(problem, {}).objective, 4);
  problem.contiguous = true;
  EXPECT_EQ(least_load(problem, {}).objective, 5);
}

TEST(Solve, AStatedNumberOfStagesIsHeld) {
  int feasible = 0, other = 0;
  for (unsigned seed = 2000; seed < 2400; ++seed) {
    PlanningProblem problem = random_problem(seed);
    const bool any = brute_force(problem).feasible;
    problem.stages = 1 + static_cast<int>(seed % 4);
    const BruteForce expected = brute_force(problem);
    const Solution load = least_load(problem, {}), step = least_step(problem, {});
    ASSERT_EQ(!load.stages.empty(), expected.feasible) << "seed " << seed;
    ASSERT_EQ(!step.stages.empty(), expected.feasible) << "seed " << seed;
    EXPECT_TRUE(load.proved && step.proved) << "seed " << seed;
    if (!expected.feasible) {
      EXPECT_EQ(load.reason.rfind("stages: ", 0) == 0, any) << "seed " << seed << ": " << load.reason;
      other += any ? 1 : 0;
      continue;
    }
    ++feasible;
    EXPECT_EQ(static_cast<int>(load.stages.size()), problem.stages);
    EXPECT_EQ(static_cast<int>(step.stages.size()), problem.stages);
    EXPECT_NEAR(load.objective, expected.least_load, 1e-12 * expected.least_load) << "seed " << seed;
    EXPECT_NEAR(step.objective, expected.least_step, 1e-12 * expected.least_step) << "seed " << seed;
  }
  EXPECT_GT(feasible, 80);
  EXPECT_GT(other, 80);
}

// Two layers make no three stages, though either layer would fit.
TEST(Solve, ReportsThatTheNumberOfStagesIsInTheWay) {
  PlanningProblem problem = chain({6, 6}, 4, 4);
  problem.stages = 3;
  EXPECT_EQ(least_load(problem, {}).reason,
            "stages: there are plans with other numbers of stages, for instance 1, and none with 3");
}

// 6 + 2 + 4 on two devices, one microbatch split nowhere: {6}, {2, 4} balance at 6. With two replicas of one stage: 12 / 2 = 6
// too.
TEST(Solve, BalancesAChain) {
  const Solution found = least_load(chain({6, 2, 4}, 2, 2), {});
  EXPECT_DOUBLE_EQ(found.objective, 6);
  EXPECT_TRUE(found.proved);
}

// Three devices and four microbatches (degrees 1, 2, 4): two replicas hold layer 0 (6 / 2 = 3), the third holds 3.
TEST(Solve, GivesTheSlowStageReplicas) {
  const Solution found = least_load(chain({6, 3}, 3, 4), {});
  ASSERT_EQ(found.stages.size(), 2U);
  EXPECT_DOUBLE_EQ(found.objective, 3);
  EXPECT_EQ(found.stages[0].data, 2);
  EXPECT_EQ(found.stages[1].data, 1);
  EXPECT_EQ(found.stages[0].in_flight, 2);  // ceil((2 + 1) / 2)
}

// One layer on four devices: data 4 reduces 100 bytes of gradients at 4 (d - 1) / d / (N B) a byte, 4 * 3 / 4 * 100 / (4 * 100) =
// 0.75, in addition to 8 / 4 = 2.
TEST(Solve, OneLayerIsAProblem) {
  PlanningProblem problem = chain({8}, 4, 4);
  problem.bandwidth = 100;
  problem.layers[0].choices[0][0].parameters = 100;
  const Solution found = least_load(problem, {});
  EXPECT_DOUBLE_EQ(found.objective, 2.75);
}

TEST(Solve, LayersWithoutEdgesMayBeGroupedFreely) {
  PlanningProblem problem = chain({5, 1, 4}, 2, 2);
  problem.edges.clear();
  problem.most_data = 1;
  const Solution found = least_load(problem, {});
  EXPECT_DOUBLE_EQ(found.objective, 5);  // {5}, {1, 4}
}

// The transfer over the cut costs both stages 2 * 10 / 5 = 4 s, so that two devices lose against one: 3 + 4 > 6.
TEST(Solve, ChargesATransferToBothEnds) {
  PlanningProblem problem = chain({3, 3}, 2, 2);
  problem.most_data = 1;
  problem.bandwidth = 5;
  problem.edges[0].bytes = 10;
  EXPECT_DOUBLE_EQ(least_load(problem, {}).objective, 6);
  problem.edges[0].bytes = 5;  // 3 + 2
  EXPECT_DOUBLE_EQ(least_load(problem, {}).objective, 5);
}

// Fill and drain: two stages of 3 with two microbatches take 2 * 3 + 3 = 9, one replica of all 2 * 6 = 12, two replicas of all 6.
TEST(Solve, StepCountsFillAndDrain) {
  PlanningProblem problem = chain({3, 3}, 2, 2);
  EXPECT_DOUBLE_EQ(least_step(problem, {}).objective, 6);
  problem.most_data = 1;
  EXPECT_DOUBLE_EQ(least_step(problem, {}).objective, 9);
}

TEST(Solve, ReportsWhichLayerFitsNowhere) {
  PlanningProblem problem = chain({1, 1}, 2, 2);
  problem.memory = 1000;
  problem.layers[1].choices[0] = {choice(1, 400, 900), choice(2, 100, 1000, 0, true)};
  const Solution found = least_load(problem, {});
  EXPECT_TRUE(found.proved);
  EXPECT_EQ(found.reason,
            "memory: layer 'l1' needs 1100 B (1.074 KiB) with one microbatch in flight, 100 B (100 B) more than the 1000 B (1000 "
            "B) of a device");
}

TEST(Solve, ReportsThatAllDevicesTogetherAreTooSmall) {
  PlanningProblem problem = chain({1, 1, 1}, 2, 2);
  problem.memory = 1000;
  for (Layer& layer : problem.layers) layer.choices[0] = {choice(1, 0, 800)};
  EXPECT_EQ(
      least_load(problem, {}).reason,
      "memory: the model needs at least 2400 B (2.344 KiB) with one microbatch in flight everywhere, 400 B (400 B) more than the "
      "2000 B (1.953 KiB) of 2 devices");
}

// Two microbatches in flight before the last stage: 2 * 500 + 100 > 1000, while one would fit.
TEST(Solve, ReportsThatStagesDoNotFitTogether) {
  PlanningProblem problem = chain({1, 1}, 2, 2);
  problem.memory = 1000;
  problem.most_data = 1;
  for (Layer& layer : problem.layers) layer.choices[0] = {choice(1, 500, 100)};
  EXPECT_EQ(least_load(problem, {}).reason,
            "memory: stages that fit into the 1000 B (1000 B) of a device need more than 2 devices for all 2 layers, with the "
            "microbatches that they have in flight");
}

TEST(Solve, ReportsThatNoDataDegreeDivides) {
  PlanningProblem problem = chain({1, 1}, 8, 6);
  problem.least_data = problem.most_data = 4;
  EXPECT_EQ(least_load(problem, {}).reason, "no data-parallel degree from 4 to 4 divides the 6 microbatches");
}

TEST(Solve, MoreDevicesAndMoreMemoryNeverHurt) {
  double last = INFINITY;
  for (const int devices : {8, 12, 16, 32, 64, 128}) {
    const Solution found = least_load(bert_like(16, devices, 480, 8e9), {});
    ASSERT_FALSE(found.stages.empty()) << devices;
    EXPECT_LE(found.objective, last) << devices;
    last = found.objective;
  }
  last = INFINITY;
  for (const double memory : {2e9, 4e9, 8e9, 16e9, 80e9}) {
    const Solution found = least_load(bert_like(16, 32, 480, memory), {});
    if (found.stages.empty()) continue;
    EXPECT_LE(found.objective, last) << memory;
    last = found.objective;
  }
  EXPECT_LT(last, INFINITY);
}

TEST(Solve, ThreadsDoNotChangeTheAnswer) {
  const PlanningProblem problem = gnmt_like(8, 256, 16e9);
  SolveOptions one, three;
  three.threads = 3;
  const Solution a = least_load(problem, one), b = least_load(problem, three);
  ASSERT_EQ(a.stages.size(), b.stages.size());
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    EXPECT_EQ(a.stages[s].layers, b.stages[s].layers);
    EXPECT_EQ(a.stages[s].choice, b.stages[s].choice);
    EXPECT_EQ(a.stages[s].data, b.stages[s].data);
  }
  EXPECT_EQ(a.objective, b.objective);
  EXPECT_EQ(a.counts.evaluated, b.counts.evaluated);
  EXPECT_EQ(a.counts.pruned, b.counts.pruned);
}

// As a machine without memory does, in the middle of the walk.
class FailingWalk : public LabelSearch {
 public:
  using LabelSearch::LabelSearch;
  void run() {
    walk(kInfinity, nullptr, [](const Stage&, const Label&, std::size_t, Labels& labels, Counts&) {
      if (labels.size() > 2) throw std::bad_alloc();
      labels.push_back({});
    });
  }
};

TEST(Solve, AFailureInAnyThreadReachesTheCaller) {
  const PlanningProblem problem = gnmt_like(8, 256, 16e9);
  const Suffixes suffixes(problem, 1'000'000);
  ASSERT_GT(suffixes.size(), 1500U) << "fewer are walked by one thread";
  const SuffixCosts costs(problem, suffixes);
  for (const int threads : {1, 3}) EXPECT_THROW(FailingWalk(costs, threads, 0).run(), std::bad_alloc) << threads;
}

TEST(Solve, StopsWithTheBestSoFarAndABound) {
  std::atomic<bool> stop{false};
  SolveOptions options;
  options.stop = &stop;
  options.progress = [&](double best, double, const Counts&) { stop = best > 0; };
  const Solution found = least_load(resnet_like(8, 256, 4e9), options);
  ASSERT_FALSE(found.stages.empty());
  EXPECT_TRUE(found.interrupted);
  EXPECT_FALSE(found.proved);
  EXPECT_GT(found.lower_bound, 0);
  const Solution whole = least_load(resnet_like(8, 256, 4e9), {});
  EXPECT_LE(found.lower_bound, whole.objective);
  EXPECT_GE(found.objective, whole.objective);
}

// Between any two stages, not only between sets of layers, of which branches have very many.
TEST(Solve, AStopIsSeenAtOnce) {
  const std::atomic<bool> stop{true};
  SolveOptions options;
  options.stop = &stop;
  for (const Solution& found : {least_load(gnmt_like(8, 256, 4e9), options), least_step(gnmt_like(8, 256, 4e9), options)}) {
    EXPECT_TRUE(found.interrupted);
    EXPECT_TRUE(found.stages.empty());
    EXPECT_EQ(found.counts.evaluated, 0);
  }
}

TEST(Solve, TooManyBranchesAreRefused) {
  PlanningProblem problem = chain(std::vector<double>(20, 1), 2, 2);
  problem.edges.clear();  // 2^20 ways
  EXPECT_EQ(
      test::fault_of<NoAnswer>([&] { least_load(problem, {}); }),
      "the 20 layers can be split in two in more than 100000 ways, too many for an exact search: parallel branches multiply; "
      "join the layers of a branch into one");
}

TEST(LookAlikes, HaveThePublishedSizes) {
  EXPECT_EQ(resnet_like(8, 256, 1e10).layers.size(), 177U);
  EXPECT_EQ(resnet_like(8, 256, 1e10).edges.size(), 192U);
  EXPECT_EQ(gnmt_like(8, 256, 1e10).layers.size(), 78U);
}

}  // namespace
}  // namespace panpipe::planner::piper
