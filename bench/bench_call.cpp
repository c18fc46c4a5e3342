// A whole call of estimate: a scenario by name and its overrides to a prediction with its figures. bench/python_calls.py times
// the same call from Python and compares.
#include <malloc.h>

#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/files/files_read.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/prediction/estimated_step.hpp"
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
// The same call if the scenario was read, planned and lowered before, so that only its files are compared with their earlier
// content.
void estimate_kept(benchmark::State& state) {
  const FilesRead files;
  const Experiment experiment(load_scenario(kScenario));
  const Plan plan = experiment.plan("");
  const TaskGraph graph = lower(experiment.scenario, plan, experiment.model);
  std::vector<std::string> texts;
  for (const std::string& path : files.paths()) texts.push_back(read_text_file(path));
  for (auto _ : state) {
    for (std::size_t i = 0; i < texts.size(); ++i) benchmark::DoNotOptimize(read_text_file(files.paths()[i]) == texts[i]);
    benchmark::DoNotOptimize(estimated_step(graph, experiment.scenario, plan).metrics.step_time_s);
  }
}
BENCHMARK(estimate_kept)->Unit(benchmark::kMicrosecond);

BENCHMARK(estimate_call)->Unit(benchmark::kMicrosecond);

void read_scenario(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(load_scenario(kScenario).degrees.micro);
}
BENCHMARK(read_scenario)->Unit(benchmark::kMicrosecond);

void make_experiment(benchmark::State& state) {
  const Scenario scenario = load_scenario(kScenario);
  for (auto _ : state) benchmark::DoNotOptimize(Experiment(scenario).scenario.degrees.micro);
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

// As the Python module does (python/binding/module.cpp): the allocator keeps what a call gives back.
int main(int argc, char** argv) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
#endif
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
