// How fast orders are made, checked, evaluated, written and read, at the largest size that people ask for: 64 ranks, 1024
// microbatches. A searched family is left out here: it has a benchmark of its own. Counter: actions per second.
#include <benchmark/benchmark.h>

#include <string>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {
namespace {

constexpr int kRanks = 64, kMicrobatches = 1024;

void count(benchmark::State& state, const Schedule& schedule) {
  double actions = 0;
  for (const auto& row : schedule.order) actions += static_cast<double>(row.size());
  state.counters["actions"] = actions;
  state.counters["actions_per_second"] =
      benchmark::Counter(actions * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void make(benchmark::State& state, const std::string& family) {
  try {
    make_schedule(family, kRanks, kMicrobatches);
  } catch (const InputError& error) {  // one that cuts sequences has more actions than are taken
    return state.SkipWithError(error.diagnostics().front().message.c_str());
  }
  for (auto _ : state) benchmark::DoNotOptimize(make_schedule(family, kRanks, kMicrobatches));
  count(state, make_schedule(family, kRanks, kMicrobatches));
}

void check(benchmark::State& state, const std::string& family) {
  const Schedule schedule = make_schedule(family, kRanks, kMicrobatches);
  for (auto _ : state) benchmark::DoNotOptimize(check_schedule(schedule));
  count(state, schedule);
}

void evaluation(benchmark::State& state, const std::string& family) {
  const Schedule schedule = make_schedule(family, kRanks, kMicrobatches);
  for (auto _ : state) benchmark::DoNotOptimize(evaluate(schedule, {}));
  count(state, schedule);
}

void text(benchmark::State& state, const std::string& family) {
  const Schedule schedule = make_schedule(family, kRanks, kMicrobatches);
  for (auto _ : state) benchmark::DoNotOptimize(read_schedule_csv(to_csv(schedule, false), "order.csv"));
  count(state, schedule);
}

}  // namespace
}  // namespace panpipe

int main(int argc, char** argv) {
  for (const panpipe::ScheduleFamily& family : panpipe::schedule_families()) {
    if (family.searched()) continue;
    const std::string name(family.name);
    benchmark::RegisterBenchmark(("make/" + name).c_str(), [name](benchmark::State& state) {
      panpipe::make(state, name);
    })->Unit(benchmark::kMillisecond);
  }
  for (const char* name : {"1f1b", "zb-v", "stp"}) {
    const auto add = [&](const char* what, void (*run)(benchmark::State&, const std::string&)) {
      benchmark::RegisterBenchmark((std::string(what) + "/" + name).c_str(), [=](benchmark::State& state) {
        run(state, name);
      })->Unit(benchmark::kMillisecond);
    };
    add("check", panpipe::check);
    add("evaluate", panpipe::evaluation);
    add("write_and_read", panpipe::text);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
