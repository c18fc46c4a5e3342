// How many configurations `panpipe plan --method auto` looks at in a second: GPT-3 175B, 1,536 samples a step, on DGX A100 nodes.
// `configurations` counts those evaluated: a bound of the step time and the memory of the fullest device computed, for given
// degrees, microbatch, stages a rank, schedule family, recompute, ZeRO stage and numbering of the devices. Configurations
// that a bound on work alone excluded are counted apart.
#include <benchmark/benchmark.h>

#include <ctime>
#include <string>

#include "planner/auto/enumerate.hpp"
#include "planner/methods.hpp"

namespace panpipe::planner {
namespace {

Scenario scenario_on(std::int64_t gpus) {
  const std::string text =
      "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, nodes: " + std::to_string(gpus / 8) +
      "}\nworkload: {model: gpt3-175b, sequence: 2048}\nbatch: {micro: auto, microbatches: 1536}\nprecision: fp16\n";
  return parse_scenario(text, "bench.yaml", ".");
}

SearchOptions options_with(std::int64_t threads) {
  SearchOptions options;
  options.threads = static_cast<int>(threads);
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
  const SearchOptions options = options_with(state.range(1));
  Tally tally;
  const double begin = cpu_seconds();
  for (auto _ : state) {
    const Space space = space_of(experiment);
    Common common(experiment, space, options);
    Enumeration enumeration(common);
    for (const int micro : {1, 2, 3, 4, 6, 8})
      for (std::vector<Degrees>& shapes : rounds_of(space, micro)) {
        Enumeration::Round round(std::move(shapes));
        enumeration.run_round(round, true, false, kInfinite);
      }
    benchmark::DoNotOptimize(enumeration.take().data());
    tally = enumeration.tally();
  }
  count(state, static_cast<double>(tally.evaluated), 0, cpu_seconds() - begin);
}
BENCHMARK(closed_forms)
    ->ArgsProduct({{64, 512, 4096}, {1, 2}})
    ->ArgNames({"GPUs", "threads"})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// The whole search up to the plan, without contention.
void whole_search(benchmark::State& state) {
  const Experiment experiment(scenario_on(state.range(0)));
  const SearchOptions options = options_with(state.range(1));
  Answer answer;
  const double begin = cpu_seconds();
  for (auto _ : state) answer = search_auto(experiment, options);
  count(state, static_cast<double>(answer.search.evaluated), static_cast<double>(answer.search.pruned), cpu_seconds() - begin);
  state.counters["step_s"] = answer.search.best;
}
BENCHMARK(whole_search)
    ->ArgsProduct({{64, 512, 4096}, {2}})
    ->ArgNames({"GPUs", "threads"})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace panpipe::planner

BENCHMARK_MAIN();
