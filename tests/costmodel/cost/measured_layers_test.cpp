// Measured layers become units as they are.
#include <gtest/gtest.h>

#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {
namespace {

class MeasuredLayers : public testing::Test {
 protected:
  MeasuredLayers() {
    scenario_.cluster = parse_scenario(R"(panpipe: 1
cluster: {devices: 2, memory: 24 GiB, link: {latency: 0 s, bandwidth: unlimited}}
workload: {model: gpt, layers: 4, hidden: 256, heads: 4, sequence: 128, vocabulary: 1024}
batch: {micro: 1, microbatches: 2}
)",
                                       "test", ".")
                            .cluster;
    LayerTable table;
    table.layers = {{"a", millis(3), millis(4), millis(2), true, Bytes(100), Bytes(7), Bytes(50), Bytes(9), millis(1)},
                    {"b", millis(5), millis(10), millis(0), true, Bytes(-20), Bytes(0), Bytes(60), Bytes(0), millis(0)},
                    {"c", millis(1), millis(2), millis(3), true, Bytes(30), Bytes(0), Bytes(70), Bytes(0), millis(0)}};
    // a's tensor goes to b and c; a second tensor "skip" to c only.
    table.edges = {{0, 1, Bytes(11), ""}, {0, 2, Bytes(11), ""}, {0, 2, Bytes(5), "skip"}, {1, 2, Bytes(13), ""}};
    workload_.layers = table;
  }
  Scenario scenario_;
  Workload workload_;
};

TEST_F(MeasuredLayers, KeepTheirTimesExactly) {
  const CostModel model(scenario_, workload_);
  const WorkloadCost& cost = model.workload(0);
  ASSERT_EQ(cost.units.size(), 3U);
  EXPECT_EQ(cost.units[0].forward.breakdown.total, millis(3));
  ASSERT_EQ(cost.units[0].input_gradient.pieces.size(), 1U);
  EXPECT_EQ(cost.units[0].input_gradient.pieces[0].time, millis(4));
  EXPECT_EQ(cost.units[0].forward.breakdown.source, CostSource::Given);
  EXPECT_EQ(cost.units[0].optimizer, millis(1));
  EXPECT_EQ(cost.units[0].parameters[0].given, Bytes(50));
  EXPECT_EQ(cost.units[0].graph_inputs, Bytes(9));
  EXPECT_EQ(cost.units[1].saved, Bytes(-20));
  EXPECT_EQ(cost.units[1].kept_for_weight, Bytes(0));
  EXPECT_TRUE(cost.split_backward);
  // Neither host nor jitter is added to what was measured.
  EXPECT_EQ(model.host_bound(millis(3), 100, 0, {}), millis(3));
  EXPECT_EQ(model.stage_jitter({.pipeline = 8}), 1.0);
}

TEST_F(MeasuredLayers, EdgesOfOneTensorShareItsIdentity) {
  const CostModel model(scenario_, workload_);
  const WorkloadCost& cost = model.workload(0);
  ASSERT_EQ(cost.edges.size(), 4U);
  EXPECT_EQ(cost.edges[0].tensor, cost.edges[1].tensor);
  EXPECT_NE(cost.edges[1].tensor, cost.edges[2].tensor);
  EXPECT_NE(cost.edges[0].tensor, cost.edges[3].tensor);
  EXPECT_EQ(cost.units[2].saved_full, Bytes(11 + 5 + 13));
}

TEST_F(MeasuredLayers, OneBackwardCannotBeSplit) {
  workload_.layers->layers[1].split_backward = false;
  const CostModel model(scenario_, workload_);
  EXPECT_FALSE(model.workload(0).split_backward);
}

}  // namespace
}  // namespace panpipe
