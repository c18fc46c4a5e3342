// Cost of a simulation by form (every GPU and transfer an activity, passes merged, copies folded), by back end and by size.
// CPU seconds are those of this process and of the children that SimGrid runs in, reported as manual time.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <string>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/workload/workload.hpp"
#include "sim/simulate.hpp"

namespace panpipe::sim {
namespace {

struct Case {
  TaskGraph graph;
  Cluster cluster;
};

// The GPT-3 175B example, lowered as the program does it: every unit's own costs, interleaved, 64 A100.
Case example(const std::vector<std::string>& changes) {
  const Scenario scenario = load_scenario(data_directory() + "/examples/gpt3-175b-a100x64.yaml", changes);
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  return {lower(scenario, make_plan(scenario, model), model), scenario.cluster};
}

double cpu_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use{};
    getrusage(who, &use);
    for (const timeval& t : {use.ru_utime, use.ru_stime})
      sum += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  return sum;
}

// `step_s` is the same for all forms and back ends of a case.
void simulation(benchmark::State& state, const std::function<Case()>& make_case, const Options& options) {
  if (!has_backend(options.backend)) return state.SkipWithError("this build has no SimGrid");
  const Case test = make_case();
  Statistics statistics;
  double step = 0;
  for (auto _ : state) {
    const double before = cpu_seconds();
    step = simulate(test.graph, test.cluster, options, &statistics).step_time.base();
    state.SetIterationTime(std::max(1e-6, cpu_seconds() - before));
  }
  state.counters["tasks"] = static_cast<double>(test.graph.tasks.size());
  state.counters["activities"] = static_cast<double>(statistics.activities);
  state.counters["flows"] = static_cast<double>(statistics.flows);
  state.counters["folded"] = statistics.folded_devices;
  state.counters["step_s"] = step;
  state.counters["activities/s"] =
      benchmark::Counter(static_cast<double>(statistics.activities), benchmark::Counter::kIsIterationInvariantRate);
}

struct Form {
  const char* name;
  bool merge, fold;
};
constexpr Form kEveryActivity{"every_activity", false, false}, kMerged{"merged", true, false},
    kFoldedNotMerged{"folded_not_merged", false, true}, kFolded{"folded", true, true};

void add(const std::string& name, const std::function<Case()>& make_case, std::initializer_list<Form> forms) {
  for (const Form& form : forms)
    for (const Backend backend : {Backend::SimGrid, Backend::FlowSolver}) {
      const std::string full = (backend == Backend::SimGrid ? "simgrid/" : "flow/") + name + "/" + form.name;
      const Options options{backend, form.merge, form.fold};
      benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) { simulation(state, make_case, options); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond)
          ->MinTime(0.1);
    }
}

}  // namespace
}  // namespace panpipe::sim

int main(int argc, char** argv) {
  using namespace panpipe::sim;
  const auto all_forms = {kEveryActivity, kMerged, kFoldedNotMerged, kFolded};
  const auto in_1f1b = [](std::vector<std::string> changes) {
    changes.insert(changes.end(), {"schedule=1f1b", "parallel.virtual_stages=1"});
    return example(changes);
  };
  add(
      "gpt3_175b_64_gpus", [] { return example({}); }, all_forms);
  add("gpt3_175b_1f1b_64_gpus", [=] { return in_1f1b({}); }, {kEveryActivity, kFolded});
  add("gpt3_175b_4096_gpus", [] { return example({"cluster.nodes=512", "parallel.data=64"}); }, {kFolded});
  for (int microbatches = 8; microbatches <= 4096; microbatches *= 2)  // linear in tasks: tools/plot_benchmark.py
    add("linear/microbatches:" + std::to_string(microbatches),
        [=] { return in_1f1b({"batch.microbatches=" + std::to_string(microbatches)}); }, {kMerged});
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
