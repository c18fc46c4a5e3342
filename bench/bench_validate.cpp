// How many published rows a second one thread predicts; and the time of a row's figures, with and without its timeline.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "costmodel/prediction/prediction.hpp"
#include "validation/runs/run_prediction.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe {
namespace {

void published_rows(benchmark::State& state) {
  const std::vector<validation::RunRow> rows = validation::read_runs(PANPIPE_PUBLISHED_RUNS);
  validation::PredictionOptions options;
  options.threads = 1;
  for (auto _ : state) benchmark::DoNotOptimize(predict(rows, options).data());
  state.counters["rows/s"] = benchmark::Counter(static_cast<double>(rows.size()), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(published_rows)->Unit(benchmark::kMillisecond);

// The GPT-3 175B example: tensor 8 x pipeline 8, 64 microbatches, interleaved.
struct Lowered {
  const Experiment experiment{load_scenario(data_directory() + "/examples/gpt3-175b-a100x64.yaml")};
  const Plan plan = experiment.plan("");
  const TaskGraph graph = lower(experiment.scenario, plan, experiment.model);
};

void figures_of_a_row(benchmark::State& state) {
  const Lowered lowered;
  for (auto _ : state)
    benchmark::DoNotOptimize(step_figures(lowered.graph, lowered.experiment.scenario, lowered.plan).step_time_s);
}
BENCHMARK(figures_of_a_row)->Unit(benchmark::kMillisecond);

void figures_with_a_timeline(benchmark::State& state) {
  const Lowered lowered;
  for (auto _ : state)
    benchmark::DoNotOptimize(predict(lowered.graph, lowered.experiment.scenario, lowered.plan).metrics.step_time_s);
}
BENCHMARK(figures_with_a_timeline)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace panpipe

BENCHMARK_MAIN();
