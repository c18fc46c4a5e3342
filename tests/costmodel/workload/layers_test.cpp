// Tables of measured layers: what a file may hold. What is refused stands in tests/input_errors.
#include <gtest/gtest.h>

#include "costmodel/workload/workload.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

LayerTable load(const std::string& text) { return load_layers(test::scratch().write("layers.yaml", text)); }

const std::string kHead = "panpipe: 1\nkind: layers\nsource: test\nlayers:\n";

TEST(Layers, AChainNeedsNoEdges) {
  const LayerTable table = load(kHead +
                                "- {name: a, forward: 1 ms, input_gradient: 2 ms, weight_gradient: 3 ms, output: 5 MB}\n"
                                "- {name: b, forward: 4 ms, backward: 5 ms, saved: -7 B, temporary: 8 B, parameters: 9 B,\n"
                                "   inputs: 10 B, optimizer: 11 ms}\n");
  ASSERT_EQ(table.layers.size(), 2U);
  EXPECT_EQ(table.source, "test");
  EXPECT_EQ(table.layers[0].name, "a");
  EXPECT_TRUE(table.layers[0].split_backward);
  EXPECT_EQ(table.layers[0].weight_gradient, millis(3));
  const MeasuredLayer& b = table.layers[1];
  EXPECT_FALSE(b.split_backward);
  EXPECT_EQ(b.input_gradient, millis(5));
  EXPECT_EQ(b.weight_gradient, millis(0));
  EXPECT_EQ(b.saved, Bytes(-7));
  EXPECT_EQ(b.temporary, Bytes(8));
  EXPECT_EQ(b.parameters, Bytes(9));
  EXPECT_EQ(b.inputs, Bytes(10));
  EXPECT_EQ(b.optimizer, millis(11));
  ASSERT_EQ(table.edges.size(), 1U);
  EXPECT_EQ(table.edges[0].from, 0);
  EXPECT_EQ(table.edges[0].to, 1);
  EXPECT_EQ(table.edges[0].bytes, Bytes(5'000'000));
}

TEST(Layers, EdgesMaySkipAndCarrySeveralTensors) {
  const LayerTable table = load(kHead +
                                "- {name: a, forward: 1 ms, backward: 1 ms}\n- {name: b, forward: 1 ms, backward: 1 ms}\n"
                                "- {name: c, forward: 1 ms, backward: 1 ms}\n"
                                "edges:\n- {from: a, to: b, bytes: 8 B}\n- {from: b, to: c, bytes: 9 B}\n"
                                "- {from: a, to: c, bytes: 16 B, tensor: skip}\n- {from: a, to: c, bytes: 9 B}\n");
  ASSERT_EQ(table.edges.size(), 4U);
  EXPECT_EQ(table.edges[2].tensor, "skip");
  EXPECT_EQ(table.edges[2].to, 2);
}

TEST(Layers, ShippedTablesLoad) {
  const std::string folder = data_directory() + "/workloads/";
  const LayerTable halves = load_layers(folder + "vit-l-two-layers.yaml");
  ASSERT_EQ(halves.layers.size(), 2U);
  // Pfeife's README: the backward is 2.1269777535272714 times the forward.
  for (const MeasuredLayer& layer : halves.layers) {
    EXPECT_FALSE(layer.split_backward);
    EXPECT_NEAR(layer.input_gradient / layer.forward, 2.1269777535272714, 1e-14);
  }
  EXPECT_EQ(halves.edges.at(0).bytes, Bytes(11576279));
  EXPECT_EQ(load_layers(folder + "six-layers-with-skip.yaml").edges.size(), 6U);
}

}  // namespace
}  // namespace panpipe
