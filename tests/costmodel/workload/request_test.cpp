// `workload:` of a scenario: what is read, what is derived. What is refused stands in tests/input_errors.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

WorkloadRequest read(const std::string& flow, ReadLog& log) {
  const NodePtr document = parse_document("workload: " + flow + "\n", "test.yaml", data_directory());
  const WorkloadRequest request = read_workload(*document->find("workload"), log);
  log.throw_if_errors();
  return request;
}

WorkloadRequest read(const std::string& flow) {
  ReadLog log;
  return read(flow, log);
}

TEST(Request, ABuiltInModelWithItsDefaults) {
  ReadLog log;
  const WorkloadRequest request = read("{model: gpt2-large, sequence: 512}", log);
  EXPECT_EQ(request.model, "gpt2-large");
  EXPECT_EQ(request.sequence, 512);
  EXPECT_EQ(request.layers, 0);
  bool layers = false;
  for (const ResolvedValue& value : log.resolved_values())
    if (value.path == "workload.layers") {
      layers = true;
      EXPECT_EQ(value.value, "36");
      EXPECT_EQ(value.origin, "derived: model gpt2-large");
    }
  EXPECT_TRUE(layers);
}

TEST(Request, LayersIsACountWithAModelAndAFileWithout) {
  EXPECT_EQ(read("{model: gpt, layers: 24, hidden: 128, heads: 4}").layers, 24);
  const WorkloadRequest table = read("{layers: workloads/six-layers-with-skip.yaml}");
  EXPECT_EQ(table.layers, 0);
  EXPECT_EQ(table.layers_file, data_directory() + "/workloads/six-layers-with-skip.yaml");
  const Workload workload = make_workload(table, {});
  ASSERT_TRUE(workload.layers);
  EXPECT_EQ(workload.layers->layers.size(), 6U);
  EXPECT_FALSE(workload.graph);
}

TEST(Request, DimensionsReachTheGraph) {
  const WorkloadRequest request = read(
      "{model: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, vocabulary: 100, sequence: 16, "
      "tied_embedding: true, dropout: 0.1}");
  const Workload workload = make_workload(request, {.degrees = {.micro = 3}});
  // V h (tied) + L (2 h^2 + 2 h (h/2) + 3 h f + 2 h) + h
  EXPECT_EQ(workload.parameters, 100 * 64 + 2 * (3 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 64);
  EXPECT_EQ(workload.graph->tensors[workload.graph->inputs[0]].shape, (Shape{3, 16}));
  int dropouts = 0;
  for (const Operator& op : workload.graph->operators) dropouts += op.target == "aten::dropout";
  EXPECT_EQ(dropouts, 4);
}

TEST(Request, AnArchiveThatIsNotThereIsNamed) {
  WorkloadRequest request;
  request.pt2_file = "model.pt2";
  EXPECT_EQ(test::fault_of([&] { make_workload(request, {}); }), "error: model.pt2: the file cannot be read");
}

}  // namespace
}  // namespace panpipe
