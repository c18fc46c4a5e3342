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
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

using test::GraphMaker;
using test::TaskId;

constexpr int kTensor = 8, kLayers = 96;
constexpr Bytes kRingBytes{88080384};     // 2 x 7/8 x 50.3 MB: one microbatch's activations, hidden 12,288, all-reduced over 8
constexpr Bytes kHandOverBytes{6291456};  // an eighth of them

// One node of eight GPUs per (rank, data index): switch ports inside, one NIC per GPU outside.
class Nodes final : public Wiring {
 public:
  explicit Nodes(Cluster& cluster, int devices) {
    for (int d = 0; d < devices; ++d)
      for (const auto& [name, rate] : {std::pair{"switch.out", 300}, {"switch.in", 300}, {"nic.out", 25}, {"nic.in", 25}})
        cluster.resources.push_back({"gpu" + std::to_string(d) + "." + name, ResourceClass::SwitchPort, gb_per_s(rate)});
  }
  Route route(int from, int to) const override {
    const int kind = from / kTensor == to / kTensor ? 0 : 2;
    Route route;
    route.path = kind == 0 ? PathClass::Switch : PathClass::Network;
    route.bandwidth = gb_per_s(kind == 0 ? 300 : 25);
    route.hops = {{4 * from + kind, 1}, {4 * to + kind + 1, 1}};
    return route;
  }
};

struct Case {
  TaskGraph graph;
  Cluster cluster;
};

// 1F1B on `ranks` x `data` nodes; 96 layers of 4.5 ms of compute in two units each, forward and twice that backward.
Case gpt3_like(int ranks, int data, int microbatches) {
  GraphMaker maker(ranks, kTensor, data);
  const int ring = maker.flow(kRingBytes, gb_per_s(300));
  std::vector<ProgramStep> forward, backward;
  for (int unit = 0; unit < 2 * kLayers / ranks; ++unit) {
    forward.insert(forward.end(), {GraphMaker::compute(millis(1.5)), maker.collective(ring)});
    backward.insert(backward.end(), {GraphMaker::compute(millis(3)), maker.collective(ring)});
  }
  const int programs[] = {maker.program(forward), maker.program(backward)};
  const auto m = static_cast<std::size_t>(microbatches);
  std::vector<std::vector<TaskId>> pass[2];
  for (auto& of_rank : pass) of_rank.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto add = [&](int kind) {
      auto& list = pass[kind][rank];
      list.push_back(maker.pass(rank, programs[kind], static_cast<int>(list.size())));
    };
    for (int i = 0; i < std::min(ranks - 1 - rank, microbatches); ++i) add(0);
    while (pass[1][rank].size() < m) {
      if (pass[0][rank].size() < m) add(0);
      add(1);
    }
  }
  for (int rank = 0; rank + 1 < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const int down = maker.link(rank, rank + 1, kHandOverBytes, gb_per_s(25)),
              up = maker.link(rank + 1, rank, kHandOverBytes, gb_per_s(25));
    for (std::size_t i = 0; i < m; ++i) {
      maker.transfer(pass[0][r][i], pass[0][r + 1][i], down);
      maker.transfer(pass[1][r + 1][i], pass[1][r][i], up);
    }
  }
  if (data > 1) {
    const int gradients = maker.flow(Bytes(static_cast<std::int64_t>(9.6e9) / ranks * 8), gb_per_s(25));
    for (int rank = 0; rank < ranks; ++rank) maker.wait_for(maker.data_collective(rank, gradients), pass[1][rank].back());
  }
  Case result{maker.make(), {}};
  result.cluster.devices.resize(result.graph.devices.size());
  result.cluster.wiring = std::make_shared<Nodes>(result.cluster, result.graph.device_count());
  return result;
}

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
  add(
      "even_1f1b_64_gpus", [] { return gpt3_like(8, 1, 64); }, all_forms);
  add("even_1f1b_512_gpus", [] { return gpt3_like(8, 8, 64); }, {kMerged});
  add(
      "gpt3_175b_64_gpus", [] { return example({}); }, all_forms);
  add("gpt3_175b_1f1b_64_gpus",
      [] {
        return example({"schedule=1f1b", "parallel.virtual_stages=1"});
      },
      {kEveryActivity, kFolded});
  add("gpt3_175b_4096_gpus", [] { return example({"cluster.nodes=512", "parallel.data=64"}); }, {kFolded});
  for (int microbatches = 8; microbatches <= 4096; microbatches *= 2)  // linear in tasks: tools/plot_benchmark.py
    add("linear/microbatches:" + std::to_string(microbatches), [=] { return gpt3_like(8, 1, microbatches); }, {kMerged});
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
