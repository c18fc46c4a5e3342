// How many configurations `panpipe plan --method auto` looks at in a second: GPT-3 175B, 1,536 samples a step, on DGX A100 nodes.
// `configurations` counts those whose step time and memory were computed; what a bound excluded unseen stands apart.
#include <benchmark/benchmark.h>

#include <ctime>
#include <limits>
#include <string>
#include <thread>

#include "planner/auto/sweep.hpp"
#include "planner/methods.hpp"

namespace panpipe::planner {
namespace {

Scenario scenario_on(std::int64_t gpus) {
  const std::string text =
      "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, nodes: " + std::to_string(gpus / 8) +
      "}\nworkload: {model: gpt3-175b, sequence: 2048}\nbatch: {micro: auto, microbatches: 1536}\nprecision: fp16\n";
  return parse_scenario(text, "bench.yaml", ".");
}

SearchOptions options_with_threads() {
  SearchOptions options;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return options;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// `per_core`: configurations per second of processor time, which neighbours on the machine do not change.
void count(benchmark::State& state, double evaluated, double excluded, double cpu) {
  state.counters["per_core"] = evaluated * static_cast<double>(state.iterations()) / cpu;
  state.counters["configurations"] = evaluated;
  state.counters["excluded"] = excluded;
  state.counters["configurations/s"] = benchmark::Counter(evaluated, benchmark::Counter::kIsIterationInvariantRate);
}

// Closed forms alone, workloads and their costs made anew each time; nothing is excluded.
void closed_forms(benchmark::State& state) {
  const Experiment experiment(scenario_on(state.range(0)));
  const SearchOptions options = options_with_threads();
  Tally tally;
  const double begin = cpu_seconds();
  for (auto _ : state) {
    const Space space = space_of(experiment);
    Common common(experiment, space);
    Sweep sweep(common, options);
    for (const int micro : {1, 2, 3, 4, 6, 8}) sweep.run(micro, true, std::numeric_limits<double>::infinity());
    benchmark::DoNotOptimize(sweep.take().data());
    tally = sweep.tally();
  }
  count(state, static_cast<double>(tally.evaluated), 0, cpu_seconds() - begin);
}
BENCHMARK(closed_forms)->Arg(64)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();

// The whole search up to the plan, without contention.
void whole_search(benchmark::State& state) {
  const Experiment experiment(scenario_on(state.range(0)));
  const SearchOptions options = options_with_threads();
  Answer answer;
  const double begin = cpu_seconds();
  for (auto _ : state) answer = search_auto(experiment, options);
  count(state, static_cast<double>(answer.search.evaluated), static_cast<double>(answer.search.pruned), cpu_seconds() - begin);
  state.counters["step_s"] = answer.search.best;
}
BENCHMARK(whole_search)->Arg(64)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();

}  // namespace
}  // namespace panpipe::planner

BENCHMARK_MAIN();
