// Experts over ranks in both engines: equal times where all-to-alls share no link, the sharing where they do.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "sim/simulate.hpp"

namespace panpipe::sim {
namespace {

struct Both {
  double estimated = 0, simulated = 0;
};
Both predicted(const std::string& parallel, int nodes, const std::string& more = "") {
  const Experiment experiment(parse_scenario(
      fmt::format("panpipe: 1\ncluster: {{file: clusters/h100x8.yaml, nodes: {}}}\nworkload: {{config: {{model_type: mixtral, "
                  "hidden_size: 2048, num_hidden_layers: 4, num_attention_heads: 16, num_key_value_heads: 4, intermediate_size: "
                  "4096, num_local_experts: 8, vocab_size: 8192}}, sequence: 2048}}\nbatch: {{micro: 1, microbatches: "
                  "8}}\nprecision: bf16\nparallel: {{{}}}\n{}{}\n",
                  nodes, parallel, more.starts_with("framework") ? "" : "framework: megatron-core\n", more),
      "test", "."));
  const TaskGraph graph = lower(experiment.scenario, make_plan(experiment.scenario, experiment.model), experiment.model);
  Both both;
  both.estimated = estimate(graph).step_time.base();
  for (const bool fold : {false, true}) {
    both.simulated = simulate(graph, experiment.scenario.cluster, {Backend::FlowSolver, true, fold}).step_time.base();
    EXPECT_NEAR(simulate(graph, experiment.scenario.cluster, {Backend::FlowSolver, false, fold}).step_time.base(), both.simulated,
                1e-9 * both.simulated)
        << parallel;
  }
  return both;
}

// Behind a switch every device has a port of its own.
TEST(Experts, BothEnginesAgreeInANode) {
  for (const char* parallel :
       {"pipeline: 1, data: 8, expert: 8", "pipeline: 1, data: 8, expert: 2, zero: 1", "pipeline: 2, data: 4, expert: 4",
        "pipeline: 1, tensor: 2, data: 4, expert: 4, sequence_parallel: true",
        "pipeline: 1, tensor: 2, data: 4, expert: 8, expert_tensor: 1, sequence_parallel: true",
        "pipeline: 1, tensor: 4, data: 2, expert: 2, expert_tensor: 1, sequence_parallel: true"}) {
    const Both both = predicted(parallel, 1);
    EXPECT_NEAR(both.simulated, both.estimated, 1e-6 * both.estimated) << parallel;
  }
  double even = 0;
  for (const char* more : {"", "experts: {tokens: [250, 150, 150, 50, 80, 70, 30, 20], placement: balanced}",
                           "experts: {tokens: [250, 150, 150, 50, 80, 70, 30, 20]}",
                           "framework: {name: megatron-core, expert_dispatch: low-latency, cuda_graphs: full}"}) {
    const Both both = predicted("pipeline: 1, data: 8, expert: 4", 1, more);
    EXPECT_NEAR(both.simulated, both.estimated, 1e-6 * both.estimated) << more;
    if (std::string(more).starts_with("experts")) {
      EXPECT_GT(both.estimated, even) << more;  // each is less even than before
    }
    even = both.estimated;
  }
}

// Over two nodes the members' ways out are shared with whatever else runs: never quicker than alone.
TEST(Experts, AllToAllsContendBetweenNodes) {
  for (const char* parallel :
       {"pipeline: 1, data: 16, expert: 8", "pipeline: 2, data: 8, expert: 8", "pipeline: 1, data: 16, expert: 4"}) {
    const Both both = predicted(parallel, 2);
    EXPECT_GE(both.simulated, both.estimated * (1 - 1e-9)) << parallel;
    EXPECT_LT(both.simulated, both.estimated * 1.5) << parallel;
  }
}

}  // namespace
}  // namespace panpipe::sim
