// How long the multidimensional programme takes to find and prove the best plan, on look-alikes of the published inputs, and on
// the inputs themselves where PANPIPE_PIPER_INPUTS names their folder. Counters: time per sample, and megabytes of the process so
// far.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "planner/piper/piper_file.hpp"
#include "planner/piper/problem_of.hpp"
#include "planner/piper/solve.hpp"
#include "tests/planner/piper/look_alikes.hpp"

namespace panpipe::planner::piper {
namespace {

namespace fs = std::filesystem;

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void solve(benchmark::State& state, const PlanningProblem& problem, Objective objective, int threads) {
  SolveOptions options;
  options.threads = threads;
  Solution found;
  for (auto _ : state) found = objective == Objective::Step ? least_step(problem, options) : least_load(problem, options);
  state.counters["objective"] = found.objective;
  state.counters["proved"] = found.proved ? 1 : 0;
  state.counters["peak_MiB"] = peak_megabytes();
}

void add(const std::string& name, const PlanningProblem& problem, Objective objective = Objective::TimePerSample,
         int threads = 1) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { solve(state, problem, objective, threads); })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

// Least time per sample for 8, 16 ... 2048 devices: one table of what more devices buy.
void curve(benchmark::State& state, PlanningProblem problem) {
  for (auto _ : state)
    for (problem.devices = 8; problem.devices <= 2048; problem.devices *= 2)
      benchmark::DoNotOptimize(least_load(problem, {}).objective);
}

class Published {
 public:
  explicit Published(fs::path folder) : inputs_(std::move(folder)) {}

  void add_input(const std::string& name, const std::string& file, int devices, int microbatches, double memory_gib) const {
    const fs::path path = inputs_ / file;
    if (!fs::exists(path)) return;
    ImportOptions options;
    options.devices = devices;
    options.microbatches = microbatches;
    options.memory = Bytes(static_cast<std::int64_t>(memory_gib * (1LL << 30)));
    options.bandwidth = Bandwidth(25.0 * (1LL << 30));
    const fs::path folder = fs::temp_directory_path() / ("bench_piper-" + std::to_string(getpid()));
    fs::create_directories(folder);
    const Imported imported = import_piper(read_piper_file(path.string()), options, "layers.yaml");
    std::ofstream(folder / "layers.yaml") << imported.layers;
    const Experiment experiment(parse_scenario(imported.scenario, "in.yaml", folder.string()));
    const PlanningProblem problem = pose(experiment, Objective::TimePerSample).problem;
    fs::remove_all(folder);
    add(name, problem);
    if (name.rfind("gnmt", 0) == 0) add(name + "/2-threads", problem, Objective::TimePerSample, 2);
    if (name.rfind("bert", 0) == 0) add(name + "/step", problem, Objective::Step);
  }

 private:
  fs::path inputs_;
};

}  // namespace
}  // namespace panpipe::planner::piper

int main(int argc, char** argv) {
  using namespace panpipe::planner::piper;
  const double gib = 1LL << 30;
  add("bert-like/K=64", bert_like(32, 64, 1920, 8 * gib));
  add("bert-like/K=2048", bert_like(32, 2048, 1920, 8 * gib));
  add("bert-like/K=64/step", bert_like(32, 64, 1920, 8 * gib), Objective::Step);
  add("resnet-like/K=8", resnet_like(8, 7680, 4 * gib));
  add("resnet-like/K=512", resnet_like(512, 7680, 4 * gib));
  add("gnmt-like/K=8", gnmt_like(8, 256, 4e9));
  add("gnmt-like/K=8/2-threads", gnmt_like(8, 256, 4e9), Objective::TimePerSample, 2);
  benchmark::RegisterBenchmark("bert-like/curve of 9", [](benchmark::State& state) {
    curve(state, bert_like(32, 8, 1920, 8.0 * (1LL << 30)));
  })->Unit(benchmark::kMillisecond);
  if (const char* folder = std::getenv("PANPIPE_PIPER_INPUTS")) {
    const Published published(folder);
    for (const int devices : {64, 512, 2048})
      published.add_input("bert32/K=" + std::to_string(devices), "bert32a100.json", devices, 1920, 8);
    published.add_input("resnet/K=8", "resnet.json", 8, 7680, 4);
    for (const double memory : {1.2, 2.5})
      published.add_input("gnmt/K=8/M=" + std::to_string(memory).substr(0, 3), "gnmt.json", 8, 256, memory);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
