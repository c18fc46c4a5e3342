// Prices without tasks are those of the tasks.
#include "costmodel/lowering/prices.hpp"

#include <gtest/gtest.h>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {
namespace {

// Tied embeddings, gradients in buckets (points inside passes), ZeRO's gathers, sequence splits, copies to the host, woven
// groups.
TEST(Prices, AreThoseOfTheLoweredPlan) {
  for (const std::string choices :
       {"parallel: {pipeline: 4}\n", "parallel: {pipeline: 2, data: 2}\noverlap_gradients: true\n",
        "parallel: {pipeline: 2, data: 2, zero: 3}\n", "parallel: {pipeline: 2, tensor: 2}\nschedule: zb-h1\n",
        "parallel: {pipeline: 2}\nschedule: {name: seq-1f1b, sequence_splits: 2}\n",
        "parallel: {pipeline: 4}\nschedule: {name: slimpipe, sequence_splits: 8}\n",
        "parallel: {pipeline: 2}\nschedule: {name: 1f1b, offload: full}\n",
        "parallel: {pipeline: 2, tensor: 2}\nschedule: {name: interleaved-1f1b, combined: true}\n"}) {
    SCOPED_TRACE(choices);
    const Scenario scenario = parse_scenario(
        "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml}\nbatch: {micro: 1, microbatches: 8}\nprecision: bf16\n"
        "workload: {model: gpt, layers: 8, hidden: 1024, heads: 16, sequence: 1024, vocabulary: 32000}\n" +
            choices,
        "s.yaml", data_directory());
    const Workload workload = make_workload(scenario);
    const CostModel model(scenario, workload);
    const Plan plan = make_plan(scenario, model);
    const Prices alone = prices_of(scenario, plan, model), lowered = prices_of(lower(scenario, plan, model));
    EXPECT_FALSE(alone.programs.empty());
    EXPECT_EQ(alone.programs, lowered.programs);
    EXPECT_EQ(alone.flows, lowered.flows);
    EXPECT_EQ(alone.links, lowered.links);
    EXPECT_EQ(alone.points, lowered.points);
  }
}

}  // namespace
}  // namespace panpipe
