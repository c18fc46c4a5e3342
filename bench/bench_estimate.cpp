// How fast a step is estimated: replay of one plan and of eight, building the structure, bounds. Counters: tasks per second
// (passes; eight plans count eight times).
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "costmodel/estimate/pipeline_order.hpp"
#include "costmodel/estimate/replay.hpp"

namespace panpipe {
namespace {

struct Case {
  std::string name, family;
  int ranks, microbatches;
};

const std::array<Case, 4> kCases{{{"1f1b/p8/m64", "1f1b", 8, 64},
                                  {"interleaved-v2/p8/m64", "interleaved-1f1b", 8, 64},
                                  {"zb-h1/p64/m1024", "zb-h1", 64, 1024},
                                  {"gpipe/p4/m8", "gpipe", 4, 8}}};

PipelineOrder order_of(const Case& c) { return pack(make_schedule(c.family, c.ranks, c.microbatches)); }

Structure structure_of(const PipelineOrder& order) {
  Structure structure;
  StructureBuilder().build(order, structure);
  return structure;
}

// Whole picoseconds near 1 ms (passes) and 50 us (transfers), uneven by 20 %.
std::vector<double> table(std::uint32_t entries, double middle, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> factor(0.8, 1.2);
  std::vector<double> values(entries);
  for (std::uint32_t i = 1; i < entries; ++i) values[i] = std::nearbyint(middle * factor(random));
  return values;
}

std::vector<Eight> table_of_eight(std::uint32_t entries, double middle) {
  std::vector<Eight> values(entries);
  for (int k = 0; k < kBatch; ++k) {
    const std::vector<double> one = table(entries, middle, static_cast<unsigned>(k));
    for (std::uint32_t i = 0; i < entries; ++i) values[i].value[k] = one[i];
  }
  return values;
}

void count(benchmark::State& state, double tasks_per_iteration) {
  const double tasks = tasks_per_iteration * static_cast<double>(state.iterations());
  state.counters["tasks"] = tasks_per_iteration;
  state.counters["tasks_per_second"] = benchmark::Counter(tasks, benchmark::Counter::kIsRate);
  state.counters["s_per_task"] = benchmark::Counter(tasks, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void single(benchmark::State& state, const Case& c) {
  const Structure structure = structure_of(order_of(c));
  const auto costs = table(structure.cost_entries, 1e9, 1), delays = table(structure.delay_entries, 5e7, 2);
  std::vector<double> ends(structure.tasks + 1);
  for (auto _ : state) benchmark::DoNotOptimize(replay(structure, costs.data(), delays.data(), ends.data()));
  count(state, structure.tasks);
}

void batch(benchmark::State& state, const Case& c, BatchProgram::Values kind) {
  const Structure structure = structure_of(order_of(c));
  const BatchProgram program(structure, kind);
  const auto costs = table_of_eight(structure.cost_entries, 1e9), delays = table_of_eight(structure.delay_entries, 5e7);
  std::vector<Eight> values(program.values());
  for (auto _ : state) benchmark::DoNotOptimize(program.replay(costs.data(), delays.data(), values.data()));
  count(state, kBatch * static_cast<double>(structure.tasks));
  state.counters["values"] = static_cast<double>(program.values());
  state.SetLabel(program.recycles() ? "recycled values" : "a value per task");
}

void build(benchmark::State& state, const Case& c) {
  const PipelineOrder order = order_of(c);
  StructureBuilder builder;
  Structure structure;
  for (auto _ : state) {
    if (!builder.build(order, structure)) state.SkipWithError("deadlock");
    benchmark::DoNotOptimize(structure.src.data());
  }
  count(state, structure.tasks);
}

void register_all() {
  for (const Case& c : kCases) {
    benchmark::RegisterBenchmark(("single/" + c.name).c_str(), single, c);
    benchmark::RegisterBenchmark(("batch8/" + c.name).c_str(), batch, c, BatchProgram::Values::Automatic);
    benchmark::RegisterBenchmark(("batch8_keep_all/" + c.name).c_str(), batch, c, BatchProgram::Values::KeepAll);
    benchmark::RegisterBenchmark(("batch8_recycle/" + c.name).c_str(), batch, c, BatchProgram::Values::Recycle);
    benchmark::RegisterBenchmark(("build/" + c.name).c_str(), build, c);
  }
  // Cost is linear in tasks: the rates stay the same while microbatches grow.
  for (int m = 16; m <= 4096; m *= 4) {
    const Case c{"1f1b/p8/m" + std::to_string(m), "1f1b", 8, m};
    benchmark::RegisterBenchmark(("linear/single/" + c.name).c_str(), single, c);
    benchmark::RegisterBenchmark(("linear/batch8/" + c.name).c_str(), batch, c, BatchProgram::Values::Automatic);
    benchmark::RegisterBenchmark(("linear/build/" + c.name).c_str(), build, c);
  }
}

}  // namespace
}  // namespace panpipe

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  panpipe::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
