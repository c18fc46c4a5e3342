// `recompute: selective`: the inside of attention is computed again in the backward, with the same dropout, and is not kept.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/stage/stage.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

// With dropout the CPU's attention is no fused kernel: it keeps its scores.
Workload with_dropout(const std::string& model, int tensor = 1) {
  WorkloadRequest request = small_request(model);
  request.dropout = 0.1;
  return make_workload(request,
                       {.microbatch = 2, .tensor_degree = tensor, .sequence_parallel = false, .precision = Precision::Fp32});
}

TEST(SelectiveRecompute, EqualsWhatKeepsEverything) {
  for (const std::string model : {"gpt", "llama", "bert"}) {
    const Workload workload = with_dropout(model), plain = small_model(model);
    const Trained one = train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, 4));
    EXPECT_NE(one.loss, train(*plain.graph, plan_of(*plain.graph, "gpipe", 1, 4)).loss) << "something is dropped";
    for (const std::string family : {"1f1b", "zb-h1", "zb-v"}) {
      SCOPED_TRACE(model + " " + family);
      const Schedule schedule = make_schedule(family, 2, 4, {});
      expect_equal(one, train(*workload.graph, plan_over(*workload.graph, schedule, 1, Recompute::Selective)));
    }
  }
}

TEST(SelectiveRecompute, EqualsOverTensorParallelRanks) {
  const Workload workload = with_dropout("gpt", 2);
  const Schedule schedule = make_schedule("1f1b", 2, 4, {});
  expect_equal(train(*workload.graph, plan_over(*workload.graph, schedule)),
               train(*workload.graph, plan_over(*workload.graph, schedule, 1, Recompute::Selective)));
}

// Bytes alive between a forward of the whole model and its backward.
std::int64_t kept(const OperatorGraph& graph, bool recompute_attention) {
  const Plan plan = plan_of(graph, "gpipe", 1, 1);
  const StageLayout layout = make_stage_layout(graph, plan);
  const SeededParameters parameters(graph, layout, {0}, 1);
  Stage stage(graph, 0, static_cast<int>(graph.operators.size()), {graph.loss}, parameters, layout.needs_gradient, false);
  std::vector<at::Tensor> inputs;
  for (const int input : stage.inputs())
    inputs.push_back(at::ones(graph.tensors[static_cast<std::size_t>(input)].shape, at::kLong));
  MemoryAccount account;
  stage.forward(0, inputs, {.seed = 1, .recompute_attention = recompute_attention});
  return account.live();
}

TEST(SelectiveRecompute, KeepsNoScores) {
  const Workload workload = with_dropout("gpt");
  // Four layers, two samples, four heads, 16 x 16 scores of four bytes: softmax's result and what dropout made of it, at least.
  const std::int64_t scores = 4 * 2 * 4 * 16 * 16 * 4;
  EXPECT_GE(kept(*workload.graph, false) - kept(*workload.graph, true), 2 * scores);
}

}  // namespace
}  // namespace panpipe::exec
