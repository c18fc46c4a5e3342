// The vocabulary's work in units of its own: what stays in the stages, padded rows, and graphs that have no such form.
#include "costmodel/workload/vocabulary_apart.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

Workload workload_of(const std::string& model, int pipeline, bool apart, int tensor = 1) {
  WorkloadRequest request;
  request.model = model;
  WorkloadShape shape;
  shape.degrees.pipeline = pipeline;
  shape.degrees.tensor = tensor;
  shape.vocabulary_apart = apart;
  return make_workload(request, shape);
}

// GPT-2 has learned positions in front of its layers and a norm behind them, which stay in the stages; 50257 words on 8 ranks are
// padded to a multiple of 128 x 8: 51200.
TEST(VocabularyApart, LeavesPositionsAndNormInTheStages) {
  const Workload whole = workload_of("gpt2", 8, false), apart = workload_of("gpt2", 8, true);
  const OperatorGraph& graph = *apart.graph;
  graph.check();
  ASSERT_EQ(graph.units.size(), whole.graph->units.size() + 2);
  EXPECT_EQ(graph.units.front().name, "vocabulary.embedding");
  EXPECT_EQ(graph.units[1].name, "embedding");
  EXPECT_EQ(graph.units[graph.units.size() - 2].name, "head");
  EXPECT_EQ(graph.units.back().name, "vocabulary.head");
  EXPECT_EQ(graph.operators.size(), whole.graph->operators.size());
  const VocabularyTensors tensors = vocabulary_tensors(graph);
  EXPECT_EQ(tensors.words, 50257);
  EXPECT_EQ(tensors.padded, 51200);
  EXPECT_EQ(graph.tensors[tensors.head].shape, (Shape{51200, 768}));
  EXPECT_EQ(graph.tensors[tensors.head].tied_to, tensors.embedding);
  EXPECT_EQ(graph.tensors[tensors.hidden].shape, (Shape{1, 1024, 768}));
  EXPECT_EQ(graph.tensors[tensors.embedded].shape, (Shape{1, 1024, 768}));
  EXPECT_EQ(apart.parameters, whole.parameters);  // of the model, which has no padding
  EXPECT_EQ(apart.model_flops, whole.model_flops);
}

// Nothing stands between Llama's lookup and its first layer.
TEST(VocabularyApart, AUnitOfNothingElseIsReplaced) {
  const Workload whole = workload_of("llama2-7b", 6, false), apart = workload_of("llama2-7b", 6, true);
  EXPECT_EQ(apart.graph->units.size(), whole.graph->units.size() + 1);
  EXPECT_EQ(apart.graph->units[1].name, whole.graph->units[1].name);
  EXPECT_EQ(vocabulary_tensors(*apart.graph).padded, 32256);  // 32000 to a multiple of 128 x 6
}

TEST(VocabularyApart, OtherGraphsAreRefused) {
  EXPECT_NE(test::diagnostic_of([] { workload_of("vit-l-16", 4, true); }).message, "");
}

}  // namespace
}  // namespace panpipe
