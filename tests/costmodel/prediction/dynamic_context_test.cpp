// Samples with context degrees of their own, from a scenario's text to tasks and figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/scenario/dynamic_context.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

Experiment of(const std::string& lengths, const std::string& degrees, const std::string& batch = "micro: 1") {
  return Experiment(parse_scenario(
      "panpipe: 1\ncluster: h100x8\nworkload: {model: llama, layers: 4, hidden: 1024, heads: 16, ffn: 2816, vocabulary: 32000}\n"
      "batch: {" +
          batch + ", lengths: " + lengths + "}\nparallel: " + degrees + "\nprecision: bf16\nframework: flash-attn\n",
      "s.yaml", "."));
}

struct Passes {
  std::vector<double> forwards;  // seconds, of the first rank
  Metrics metrics;
};

Passes passes_of(const Experiment& experiment) {
  const Plan plan = experiment.plan("");
  const TaskGraph graph = lower(experiment.scenario, plan, experiment.model);
  Passes made{{}, predict(experiment, plan).metrics};
  for (const Task& task : graph.tasks)
    if (task.kind == TaskKind::Pass && task.rank == 0 && task.action.kind == ActionKind::F)
      made.forwards.push_back(to_duration(graph.programs[task.program].duration).base());
  return made;
}

// A pool of four ranks: 8192 tokens over all of them, then four samples of 2048 side by side. The first pass is that of a context
// of 4, the second that of four replicas without one.
TEST(DynamicContext, APassIsThatOfItsDegree) {
  const Passes dynamic =
      passes_of(of("{samples: [8192, 2048, 2048, 2048, 2048], context: dynamic}", "{pipeline: 2, context: 4}"));
  const Passes shared = passes_of(of("[8192]", "{pipeline: 2, context: 4}"));
  const Passes apart = passes_of(of("[2048, 2048, 2048, 2048]", "{pipeline: 2, data: 4}"));
  ASSERT_EQ(dynamic.forwards.size(), 2U);
  EXPECT_EQ(dynamic.forwards[0], shared.forwards.front());
  EXPECT_EQ(dynamic.forwards[1], apart.forwards.front());
  // Each sample counts once: the step has the operations of the two others together.
  EXPECT_NEAR(dynamic.metrics.model_flops, shared.metrics.model_flops + apart.metrics.model_flops,
              1e-9 * dynamic.metrics.model_flops);
  EXPECT_NEAR(dynamic.metrics.samples_per_s * dynamic.metrics.step_time_s, 5, 1e-9);
}

// Samples of one length are what a stated context makes of them.
TEST(DynamicContext, OfEqualSamplesIsTheStatedOne) {
  const Passes dynamic = passes_of(of("{samples: [8192, 8192, 8192], context: dynamic}", "{pipeline: 2, context: 4}"));
  const Passes stated = passes_of(of("[8192, 8192, 8192]", "{pipeline: 2, context: 4}"));
  EXPECT_EQ(dynamic.metrics.step_time_s, stated.metrics.step_time_s);
  EXPECT_EQ(dynamic.metrics.peak_memory_bytes, stated.metrics.peak_memory_bytes);
}

// One long sample and many short ones: the short ones exchange nothing, where a context for all divides them too.
TEST(DynamicContext, IsFasterThanOneForAll) {
  const std::string samples = "{samples: {lengths: [16384, 2048], shares: [10 %, 90 %], count: 40}";
  const Passes dynamic = passes_of(of(samples + ", context: dynamic}", "{pipeline: 1, context: 8}"));
  const Passes stated = passes_of(of(samples + ", tokens: 16384}", "{pipeline: 1, context: 8}"));
  EXPECT_LT(dynamic.metrics.step_time_s, stated.metrics.step_time_s);
}

TEST(DynamicContext, WhatItDoesNotGoWithIsNamed) {
  const auto message = [](const std::string& lengths, const std::string& degrees, const std::string& batch = "micro: 1") {
    return test::diagnostic_of([&] { of(lengths, degrees, batch); }).message;
  };
  const std::string samples = "{samples: [8192, 2048], context: dynamic}";
  EXPECT_THAT(message(samples, "{pipeline: 2, data: 4}"), testing::HasSubstr("data x context is 4 x 1"));
  EXPECT_THAT(message(samples, "{context: 2}", "micro: 2"), testing::HasSubstr("takes samples one by one"));
  EXPECT_THAT(message(samples, "{context: 2}", "micro: 1, order: searched"), testing::HasSubstr("stay in their order"));
  EXPECT_THAT(message("{samples: [8192, 8192], context: dynamic}", "{context: 2}", "micro: 1, microbatches: 1"),
              testing::HasSubstr("2 samples do not go into 1 microbatches of 2 ranks"));
  // Four ranks: the long sample takes one microbatch, the short ones half of another, and none is left for the rest.
  EXPECT_THAT(message("{samples: [8192, 512, 512], context: dynamic}", "{context: 4}", "micro: 1, microbatches: 4"),
              testing::HasSubstr("3 samples fill 2 of 4 microbatches"));
  // By rank and microbatch, in the first of which both ranks share 4096 tokens: the second names another sequence there.
  EXPECT_THAT(message("[4096, 512, 1024, 512]", "{context: 2}", "micro: 1, microbatches: 2"),
              testing::HasSubstr("name other sequences on ranks that would share one"));
}

}  // namespace
}  // namespace panpipe
