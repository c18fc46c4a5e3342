// How long the searched families take at the largest size that people ask for, and at a common one. Counters: how much longer the
// order's step is than the bound at most, in percent.
#include <benchmark/benchmark.h>

#include <string>

#include "schedule/schedule.hpp"

namespace panpipe {
namespace {

struct Case {
  const char* family;
  int ranks, microbatches;
  PassCosts costs;
  const char* costs_name;
};

void search(benchmark::State& state, const Case& c) {
  double makespan = 0, bound = 0;
  for (auto _ : state) {
    const Schedule schedule = make_schedule(c.family, c.ranks, c.microbatches, {}, c.costs);
    state.PauseTiming();
    makespan = evaluate(schedule, c.costs).makespan;
    bound = *schedule.lower_bound;
    state.ResumeTiming();
  }
  state.counters["gap_percent"] = 100 * (makespan / bound - 1);
}

void add(const Case& c) {
  const std::string name =
      std::string(c.family) + "/" + std::to_string(c.ranks) + "x" + std::to_string(c.microbatches) + "/" + c.costs_name;
  benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& state) { search(state, c); })->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace panpipe

int main(int argc, char** argv) {
  const panpipe::PassCosts even, uneven{10, 14, 6, std::nullopt, 2};
  for (const char* family : {"zb-auto", "zb-v-auto", "v-half", "v-min"}) {
    panpipe::add({family, 8, 32, uneven, "uneven"});
    panpipe::add({family, 64, 1024, even, "even"});
    panpipe::add({family, 64, 1024, uneven, "uneven"});
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
