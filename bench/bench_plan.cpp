// The planners: a whole search, as panpipe plan does it, without reading the files.
//
// Chains of measured layers as those that Pfeife's planner takes seconds to minutes for (two cores, run on a CPU: 406 operators,
// 4 devices, 4 microbatches 18.8 s; 160 operators, 8 microbatches 43 to 70 s; SDXL's U-Net with 1,645 operators on 8 devices 5 to
// 10 minutes, ICML 2025, section 4.3).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "costmodel/prediction/experiment.hpp"
#include "planner/planner.hpp"

namespace panpipe {
namespace {

namespace fs = std::filesystem;

struct Sizes {
  int layers = 0, devices = 0, microbatches = 0;
  bool skips = false;  // as in a U-Net: a layer of the first half feeds its mirror image
  const char* schedule = "pfeife";
  int threads = 1;
};

// Layers of 0.5 to 3 ms over links of 0.2 ms and 20 GB/s.
std::unique_ptr<Experiment> chain(const Sizes& sizes) {
  const fs::path folder = fs::temp_directory_path();
  const std::string path = (folder / fmt::format("panpipe_bench_{}_{}.yaml", sizes.layers, sizes.skips)).string();
  std::ofstream file(path);
  file << "panpipe: 1\nkind: layers\nsource: made up\nlayers:\n";
  std::mt19937 random(1);
  const auto between = [&](int low, int high) { return low + static_cast<int>(random() % static_cast<unsigned>(high - low)); };
  for (int i = 0; i < sizes.layers; ++i) {
    const int us = between(500, 3000);
    file << fmt::format(
        "- {{name: op{}, forward: {} us, input_gradient: {} us, weight_gradient: {} us, saved: {} MiB, parameters: 1 MiB}}\n", i,
        us, us, us, between(1, 8));
  }
  file << "edges:\n";
  for (int i = 0; i + 1 < sizes.layers; ++i) file << fmt::format("- {{from: op{}, to: op{}, bytes: 4 MiB}}\n", i, i + 1);
  for (int i = 10; sizes.skips && i < sizes.layers / 2 - 20; i += sizes.layers / 24)
    file << fmt::format("- {{from: op{}, to: op{}, bytes: 4 MiB}}\n", i, sizes.layers - i);
  file.close();
  return std::make_unique<Experiment>(parse_scenario(
      fmt::format(
          "panpipe: 1\ncluster: {{devices: {}, memory: 64 GiB, usable: 85 %, link: {{latency: 0.2 ms, bandwidth: 20 GB/s}}}}\n"
          "workload: {{layers: {}}}\nbatch: {{micro: 1, microbatches: {}}}\nschedule: {}\n",
          sizes.devices, path, sizes.microbatches, sizes.schedule),
      "bench.yaml", folder.string()));
}

void plan(benchmark::State& state, const Experiment& experiment, int threads) {
  planner::SearchOptions options;
  options.method = planner::Method::Pfeife;
  options.threads = threads;
  planner::Answer answer;
  for (auto round : state) {
    answer = planner::search(experiment, options);
    benchmark::DoNotOptimize(answer);
  }
  if (answer.candidates.empty()) return state.SkipWithError("no plan");
  state.counters["step_ms"] = answer.search.best * 1e3;
  state.counters["gap_%"] = answer.search.lower_bound > 0 ? 100 * (answer.search.best / answer.search.lower_bound - 1) : -1;
  state.counters["evaluated"] = static_cast<double>(answer.search.evaluated);
}

void pfeife(benchmark::State& state, const Sizes& sizes) { plan(state, *chain(sizes), sizes.threads); }

BENCHMARK_CAPTURE(pfeife, chain406_devices4_microbatches4, Sizes{406, 4, 4})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(pfeife, chain160_devices4_microbatches8, Sizes{160, 4, 8})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(pfeife, chain1645_devices8_microbatches8, Sizes{1645, 8, 8})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(pfeife, unet1645_devices8_microbatches8, Sizes{1645, 8, 8, true})->Unit(benchmark::kMillisecond);
// On two cores: time, and processor time of both.
BENCHMARK_CAPTURE(pfeife, two_threads_chain406, Sizes{406, 4, 4, false, "pfeife", 2})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(pfeife, two_threads_chain160, Sizes{160, 4, 8, false, "pfeife", 2})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(pfeife, two_threads_unet1645, Sizes{1645, 8, 8, true, "pfeife", 2})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
// Every other family over the same cuts too.
BENCHMARK_CAPTURE(pfeife, chain406_all_families, Sizes{406, 4, 4, false, "auto"})->Unit(benchmark::kMillisecond);

void gpt2_large(benchmark::State& state) {
  const Experiment experiment(
      load_scenario(std::string(PANPIPE_SCENARIOS) + "/examples/gpt2-large-rtx3090x8.yaml", {"schedule=auto", "partition=auto"}));
  plan(state, experiment, 1);
}
BENCHMARK(gpt2_large)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace panpipe

BENCHMARK_MAIN();
