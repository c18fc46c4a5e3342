// A whole call of estimate: a scenario by name and its overrides to a prediction with its figures. bench/python_calls.py times the
// same call from Python beside this one.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "costmodel/prediction/prediction.hpp"

namespace panpipe {
namespace {

constexpr const char* kScenario = "examples/gpt3-175b-a100x64.yaml";

void estimate_call(benchmark::State& state) {
  for (auto _ : state) {
    const Experiment experiment(load_scenario(kScenario));
    const Prediction prediction = predict(experiment, experiment.plan(""));
    benchmark::DoNotOptimize(prediction.metrics.step_time_s);
  }
}
BENCHMARK(estimate_call)->Unit(benchmark::kMicrosecond);

void read_scenario(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(load_scenario(kScenario).micro);
}
BENCHMARK(read_scenario)->Unit(benchmark::kMicrosecond);

void make_experiment(benchmark::State& state) {
  const Scenario scenario = load_scenario(kScenario);
  for (auto _ : state) benchmark::DoNotOptimize(Experiment(scenario).scenario.micro);
}
BENCHMARK(make_experiment)->Unit(benchmark::kMicrosecond);

void make_the_plan(benchmark::State& state) {
  const Experiment experiment(load_scenario(kScenario));
  for (auto _ : state) benchmark::DoNotOptimize(experiment.plan("").pipeline);
}
BENCHMARK(make_the_plan)->Unit(benchmark::kMicrosecond);

void predict_plan(benchmark::State& state) {
  const Experiment experiment(load_scenario(kScenario));
  const Plan plan = experiment.plan("");
  for (auto _ : state) benchmark::DoNotOptimize(predict(experiment, plan).metrics.step_time_s);
}
BENCHMARK(predict_plan)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace panpipe

BENCHMARK_MAIN();
