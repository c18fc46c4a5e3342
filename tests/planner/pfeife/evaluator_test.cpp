// The fast evaluation of cuts is that of lower + estimate.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/peak_memory.hpp"
#include "planner/pfeife/cut_search.hpp"
#include "tests/planner/pfeife/layer_chains.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::test {
namespace {

Cuts random_cuts(std::mt19937& random, int units, int stages) {
  std::vector<int> places;
  for (int c = 1; c < units; ++c) places.push_back(c);
  std::shuffle(places.begin(), places.end(), random);
  Cuts cuts(places.begin(), places.begin() + stages - 1);
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// Times, bound and memory of random cuts against the timeline of the lowered plan.
void compare(const Experiment& experiment, const std::string& family, const ScheduleOptions& options, double tolerance) {
  SCOPED_TRACE(family);
  const planner::SearchSpace space(experiment);
  const Scenario& scenario = experiment.scenario;
  const Schedule schedule = make_schedule(family, scenario.degrees.pipeline, scenario.degrees.microbatches, options);
  std::mt19937 random(5);
  planner::CutEvaluator evaluator(space, schedule, random_cuts(random, space.units(), schedule.stages));
  const planner::CutBound bound(evaluator);
  std::vector<Cuts> many;
  for (int i = 0; i < 21; ++i) many.push_back(random_cuts(random, space.units(), schedule.stages));
  std::vector<double> times, floors;
  evaluator.replay(many, times);
  for (std::size_t i = 0; i < many.size(); ++i) {
    const Plan plan = space.plan(schedule, many[i]);
    const Timeline timeline = estimate(lower(scenario, plan, experiment.model));
    EXPECT_NEAR(times[i] * 1e-12, timeline.step_time.base(), tolerance * timeline.step_time.base());
    double time = 0;
    const planner::PathWeights path = evaluator.critical_path(many[i], time);
    EXPECT_EQ(time, times[i]);
    planner::CutBound::Tables tables;
    bound.fill(path, tables);
    EXPECT_LE(tables.minimum(), time * (1 + 1e-9));
    bound.floors({many[i].begin(), many[i].end()}, floors);
    double length = 0;
    for (std::size_t k = 0; k < path.size(); ++k) length += path[k] * floors[k];
    EXPECT_LE(length, time * (1 + 1e-9));
    const std::vector<PeakMemory> memory = peak_memory(scenario, plan, space.costs());
    for (const DeviceTimeline& device : timeline.devices) EXPECT_EQ(memory[device.rank].peak, device.peak);
  }
}

TEST(CutEvaluator, IsTheEstimateOfMeasuredLayers) {
  LayersCase made;
  for (int u = 0; u < 30; ++u) made.layers.push_back({1 + u % 7 * 0.37, 1000 + 17 * u, 50 * (u % 3), 64 * u});
  for (int u = 0; u + 1 < 30; ++u) made.edges.emplace_back(u, u + 1, 1000 * (1 + u % 5));
  made.edges.emplace_back(2, 27, 5000);  // skip connections, as in a U-Net
  made.edges.emplace_back(5, 22, 4000);
  made.edges.emplace_back(5, 23, 4000);
  made.devices = 3;
  made.microbatches = 6;
  made.link = "{latency: 0.1 ms, bandwidth: 20 MB/s}";
  made.backward_ratio = -1.7;
  for (const char* model : {"pfeife", "full"}) {
    made.extra = std::string("optimizer: adam\nmemory_model: ") + model + "\n";
    const auto experiment = experiment_of(made);
    compare(*experiment, "pfeife", {{"stages_per_rank", "2"}, {"loop_batch", "3"}, {"prefetch", "2"}}, 1e-12);
    compare(*experiment, "pfeife", {{"stages_per_rank", "2"}, {"loop_batch", "6"}, {"prefetch", "3,0,1"}}, 1e-12);
    compare(*experiment, "zb-h1", {}, 1e-12);
    compare(*experiment, "zb-v", {}, 1e-12);
    compare(*experiment, "interleaved-1f1b", {{"stages_per_rank", "3"}}, 1e-12);
  }
}

// A profiled transport, whose ends compute; a chain and skip connections.
TEST(CutEvaluator, IsTheEstimateWhereMessagesTakeTime) {
  const std::string file =
      scratch().write("messages.yaml",
                      "panpipe: 1\nkind: profile\nmeasured: {}\n"
                      "transfers:\n- {transport: gloo, from: 0, to: 1, table: [[0 B, 60 us], [1 KiB, 1 ms]]}\n"
                      "collectives:\n- {kind: message, members: 2, table: [[0 B, 20 us], [1 KiB, 0.4 ms]]}\n");
  LayersCase made;
  for (int u = 0; u < 12; ++u) made.layers.push_back({1 + u % 7 * 0.37, 1000 + 17 * u, 50 * (u % 3), 64 * u});
  for (int u = 0; u + 1 < 12; ++u) made.edges.emplace_back(u, u + 1, 1000 * (1 + u % 5));
  made.devices = 3;
  made.microbatches = 6;
  made.link = "{latency: 0.1 ms, bandwidth: 20 MB/s}";
  made.backward_ratio = -1.7;
  made.extra = "profile: " + file + "\n";
  for (const bool skips : {false, true}) {
    if (skips) made.edges.emplace_back(2, 9, 5000);
    const auto experiment = experiment_of(made);
    compare(*experiment, "pfeife", {{"stages_per_rank", "2"}, {"loop_batch", "3"}, {"prefetch", "2"}}, 1e-12);
    compare(*experiment, "zb-h1", {}, 1e-12);
  }
  std::filesystem::remove(file);
}

// Blocking sends, links of different speed, launches, an optimizer step, a tied embedding.
TEST(CutEvaluator, IsTheEstimateOfAModelOnGpus) {
  const Experiment experiment(load_scenario(std::string(PANPIPE_SCENARIOS) + "/examples/gpt2-large-rtx3090x8.yaml"));
  compare(experiment, "pfeife", {{"stages_per_rank", "2"}, {"loop_batch", "8"}, {"prefetch", "2"}}, 1e-10);
  compare(experiment, "zb-h1", {}, 1e-10);
}

// Ten units that keep 10 kB each of a microbatch, two devices, 1F1B: the first rank has two microbatches open, the second one. Of
// 70.1 kB the first stage can hold 3 units (60 kB), the second 7 (70 kB): only the cut at 3 is left, and the bound knows it.
TEST(MemoryReach, IsWhatOpenMicrobatchesLeave) {
  LayersCase made;
  made.layers.assign(10, {1, 10000, 0, 0});
  made.memory = 70100;
  made.extra = "memory_model: pfeife\nschedule: {name: pfeife, stages_per_rank: 1, prefetch: 0}\n";
  const auto experiment = experiment_of(made);
  const planner::SearchSpace space(*experiment);
  const Schedule schedule = make_schedule("pfeife", 2, 4, {{"loop_batch", "4"}, {"prefetch", "0"}});
  const planner::CutEvaluator evaluator(space, schedule, {5});
  const planner::MemoryReach reach(evaluator);
  EXPECT_TRUE(reach.binds());
  EXPECT_EQ(reach.of(0, 0), 3);
  EXPECT_EQ(reach.of(1, 0), 7);
  EXPECT_EQ(reach.of(1, 2), 9);
  EXPECT_EQ(reach.of(1, 3), 10);
  const planner::Answer answer = plan_pfeife(*experiment);
  ASSERT_FALSE(answer.candidates.empty());
  EXPECT_EQ(answer.candidates.front().stages[1].operators.front(), "op3");
  EXPECT_TRUE(answer.search.proved_optimal);
  // With free transfers 7 + 14 ms of the second rank, four times, behind 3 ms and before 6 ms of the first.
  EXPECT_NEAR(answer.search.lower_bound, 0.093, 1e-12);
  made.memory = 69000;  // 6 units are the most then: 3 + 6 < 10
  const auto none = experiment_of(made);
  const planner::Answer refused = plan_pfeife(*none);
  EXPECT_TRUE(refused.candidates.empty());
  EXPECT_EQ(refused.reason.substr(0, 22), "memory is in the way: ");
}

TEST(EvenCuts, LeaveAUnitForEveryStage) {
  // 10 of 12 lie in the first unit: goals 3, 6 and 9 all do, so that the cuts follow one another.
  EXPECT_EQ(planner::even_cuts({0, 10, 11, 11.5, 12}, 4), (Cuts{1, 2, 3}));
  EXPECT_EQ(planner::even_cuts({0, 1, 2, 3, 4, 5, 6}, 3), (Cuts{2, 4}));
}

}  // namespace
}  // namespace panpipe::test
