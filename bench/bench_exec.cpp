// Overhead of the executor: the time of a GPT's forward and backward, by the worker of a one-rank plan, over the time that the
// operators themselves take in the same program. Counters: `operators` per step, `overhead` = step / operators - 1.
#include <ATen/Parallel.h>
#include <ATen/ops/ones_like.h>
#include <benchmark/benchmark.h>

#include <chrono>

#include "exec/engine/parameters.hpp"
#include "exec/engine/training/synthetic_data.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {
namespace {

constexpr int kMicrobatches = 4;

Workload gpt(int hidden) {
  WorkloadRequest request;
  request.model = "gpt";
  request.layers = 4;
  request.hidden = hidden;
  request.heads = 4;
  request.vocabulary = 512;
  request.sequence = 64;
  return make_workload(request, {.degrees = {.tensor = 1, .micro = 2, .sequence_parallel = false}, .precision = Precision::Fp32});
}

struct OneRank {
  Workload workload;
  Plan plan;
  StageLayout layout;
  std::unique_ptr<SeededParameters> parameters;
  std::vector<std::unique_ptr<Transport>> transports = make_local_transports(1);

  explicit OneRank(int hidden) : workload(gpt(hidden)) {
    at::set_num_threads(1);
    plan.schedule = make_schedule("1f1b", 1, kMicrobatches, {});
    plan.stages.push_back({0, static_cast<int>(workload.graph->units.size()), Recompute::None});
    layout = make_stage_layout(*workload.graph, plan);
    parameters = std::make_unique<SeededParameters>(*workload.graph, layout, std::vector<int>{0}, 1);
  }
  void clear() {
    for (const auto& [root, value] : parameters->trained()) at::Tensor(value).mutable_grad() = at::Tensor();
  }
};

// The whole step, as a run does it.
void step(benchmark::State& state) {
  OneRank rank(static_cast<int>(state.range(0)));
  RankSite site{*rank.workload.graph, rank.plan, rank.layout, *rank.transports[0]};
  Worker worker(site, *rank.parameters, synthetic_data(*rank.workload.graph, 1), {});
  std::int64_t index = 0;
  for (auto _ : state) {
    rank.clear();
    benchmark::DoNotOptimize(worker.step(index++).loss_sum);
  }
  state.counters["operators"] = static_cast<double>(rank.workload.graph->operators.size()) * kMicrobatches;
}

// The same passes by the stage alone: operators and autograd, without worker, messages, spans and data.
void passes(benchmark::State& state) {
  OneRank rank(static_cast<int>(state.range(0)));
  const OperatorGraph& graph = *rank.workload.graph;
  const StageRange& range = rank.layout.stages[0];
  Stage stage(graph, range.first_operator, range.end_operator, range.outputs, *rank.parameters, rank.layout.needs_gradient);
  const DataSource data = synthetic_data(graph, 1);
  std::vector<at::Tensor> inputs;
  for (const int input : stage.inputs()) inputs.push_back(data(input, 0));
  for (auto _ : state) {
    rank.clear();
    for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
      const std::vector<at::Tensor> outputs = stage.forward(microbatch, inputs, {1, microbatch, std::nullopt});
      stage.backward(microbatch, {at::ones_like(outputs.back())});
    }
  }
}

// Forward only, with the time inside operator calls apart: what slots, handles and stacks cost.
class Stopwatch : public OperatorObserver {
 public:
  void before(int) override { began_ = std::chrono::steady_clock::now(); }
  void after(int, const std::vector<c10::IValue>&) override { inside += std::chrono::steady_clock::now() - began_; }
  std::chrono::steady_clock::duration inside{};

 private:
  std::chrono::steady_clock::time_point began_;
};

void forward_program(benchmark::State& state) {
  OneRank rank(static_cast<int>(state.range(0)));
  const OperatorGraph& graph = *rank.workload.graph;
  const StageRange& range = rank.layout.stages[0];
  const OperatorProgram program(graph, range.first_operator, range.end_operator, range.outputs);
  const DataSource data = synthetic_data(graph, 1);
  std::vector<at::Tensor> values;
  for (const int tensor : program.inputs()) {
    const TensorRole role = graph.tensors[tensor].role;
    values.push_back(role == TensorRole::Input ? data(tensor, 0) : rank.parameters->tensor(tensor));
  }
  Stopwatch watch;
  const auto began = std::chrono::steady_clock::now();
  for (auto _ : state) benchmark::DoNotOptimize(program.run(values, {.seed = 1, .observer = &watch}));
  const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  state.counters["overhead"] = whole / std::chrono::duration<double>(watch.inside).count() - 1;
  state.counters["operators"] = static_cast<double>(graph.operators.size());
}

BENCHMARK(step)->Arg(64)->Arg(256)->Arg(768)->Unit(benchmark::kMillisecond);
BENCHMARK(passes)->Arg(64)->Arg(256)->Arg(768)->Unit(benchmark::kMillisecond);
BENCHMARK(forward_program)->Arg(64)->Arg(256)->Arg(768)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace panpipe::exec

BENCHMARK_MAIN();
