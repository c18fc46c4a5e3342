// How long a plan takes to make and to lower: the GPT-3 175B example (tensor 8 x pipeline 8, 64 microbatches, interleaved), whole
// and by parts, and the balanced partition that searches call again and again.
#include <benchmark/benchmark.h>

#include <random>
#include <string>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {
namespace {

Scenario large_scenario() { return load_scenario(data_directory() + "/examples/gpt3-175b-a100x64.yaml"); }

Workload large_workload(const Scenario& scenario) {
  return make_workload(scenario.workload, {.degrees = scenario.degrees, .precision = scenario.precision});
}

void count_tasks(benchmark::State& state, const TaskGraph& graph) {
  const auto tasks = static_cast<double>(graph.tasks.size());
  state.counters["tasks"] = tasks;
  state.counters["tasks/s"] = benchmark::Counter(tasks, benchmark::Counter::kIsIterationInvariantRate);
}

// From resolved scenario and workload to tasks: costs of every unit, partition, schedule with its legality check, lowering.
void costs_plan_and_tasks(benchmark::State& state) {
  const Scenario scenario = large_scenario();
  const Workload workload = large_workload(scenario);
  TaskGraph graph;
  for (auto _ : state) {
    const CostModel model(scenario, workload);
    graph = lower(scenario, make_plan(scenario, model), model);
    benchmark::DoNotOptimize(graph.tasks.data());
  }
  count_tasks(state, graph);
}
BENCHMARK(costs_plan_and_tasks)->Unit(benchmark::kMillisecond);

void costs_only(benchmark::State& state) {
  const Scenario scenario = large_scenario();
  const Workload workload = large_workload(scenario);
  for (auto _ : state) {
    const CostModel model(scenario, workload);
    benchmark::DoNotOptimize(model.workload(0).units.data());
  }
}
BENCHMARK(costs_only)->Unit(benchmark::kMillisecond);

void plan_only(benchmark::State& state) {
  const Scenario scenario = large_scenario();
  const Workload workload = large_workload(scenario);
  const CostModel model(scenario, workload);
  for (auto _ : state) benchmark::DoNotOptimize(make_plan(scenario, model).stages.data());
}
BENCHMARK(plan_only)->Unit(benchmark::kMillisecond);

void lower_only(benchmark::State& state) {
  const Scenario scenario = large_scenario();
  const Workload workload = large_workload(scenario);
  const CostModel model(scenario, workload);
  const Plan plan = make_plan(scenario, model);
  TaskGraph graph;
  for (auto _ : state) {
    graph = lower(scenario, plan, model);
    benchmark::DoNotOptimize(graph.tasks.data());
  }
  count_tasks(state, graph);
}
BENCHMARK(lower_only)->Unit(benchmark::kMillisecond);

// Units of random length on as many stages as asked for.
void partition(benchmark::State& state) {
  std::mt19937 random(1);
  std::vector<Duration> units(state.range(0));
  for (Duration& unit : units) unit = micros(100 + random() % 900);
  for (auto _ : state) benchmark::DoNotOptimize(balanced_partition(units, static_cast<int>(state.range(1))).data());
}
BENCHMARK(partition)->Args({200, 8})->Args({200, 64})->Args({2000, 64})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace panpipe

BENCHMARK_MAIN();
