// A result compared with itself, by microbatches: time and per-microbatch rate. The rate stays where the work is linear.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "study/compare/compare.hpp"

namespace panpipe {
namespace {

present::ResultDocument predicted(std::int64_t microbatches) {
  const Experiment experiment(load_scenario(PANPIPE_SCENARIOS "/examples/gpt2-large-rtx3090x8.yaml",
                                            {fmt::format("batch.microbatches={}", microbatches), "schedule=1f1b"}));
  const Timeline timeline = estimate(lower(experiment.scenario, experiment.plan(""), experiment.model));
  return parse_result(to_result_json(timeline, metrics(timeline), {}, true), "made");
}

void compare_with_itself(benchmark::State& state) {
  const present::ResultDocument result = predicted(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(compare(result, result, {}).waits.data());
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(compare_with_itself)->RangeMultiplier(4)->Range(64, 16384)->Unit(benchmark::kMillisecond)->Complexity();

}  // namespace
}  // namespace panpipe

BENCHMARK_MAIN();
