// Tables of measured layers: what a file may hold, and what is refused, word for word.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/texts.hpp"

namespace panpipe {
namespace {

// Writes the text to a file and reads it; faults name the file FILE.
class Layers : public testing::Test {
 protected:
  LayerTable load(const std::string& text) { return load_layers(folder_.write("layers.yaml", text)); }
  std::string fault(const std::string& text) {
    return test::replaced(test::fault_of([&] { load(text); }), folder_.file("layers.yaml"), "FILE");
  }

  const test::TemporaryFolder folder_;
};

const std::string kHead = "panpipe: 1\nkind: layers\nsource: test\nlayers:\n";

TEST_F(Layers, AChainNeedsNoEdges) {
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

TEST_F(Layers, EdgesMaySkipAndCarrySeveralTensors) {
  const LayerTable table = load(kHead +
                                "- {name: a, forward: 1 ms, backward: 1 ms}\n- {name: b, forward: 1 ms, backward: 1 ms}\n"
                                "- {name: c, forward: 1 ms, backward: 1 ms}\n"
                                "edges:\n- {from: a, to: b, bytes: 8 B}\n- {from: b, to: c, bytes: 9 B}\n"
                                "- {from: a, to: c, bytes: 16 B, tensor: skip}\n- {from: a, to: c, bytes: 8 B}\n");
  ASSERT_EQ(table.edges.size(), 4U);
  EXPECT_EQ(table.edges[2].tensor, "skip");
  EXPECT_EQ(table.edges[2].to, 2);
}

TEST_F(Layers, ShippedTablesLoad) {
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

const std::string kThree = kHead + "- {name: a, forward: 1 ms, backward: 1 ms}\n- {name: b, forward: 1 ms, backward: 1 ms}\n" +
                           "- {name: c, forward: 1 ms, backward: 1 ms}\nedges:\n";

TEST_F(Layers, ACycleIsReportedByNames) {
  EXPECT_EQ(fault(kThree + "- {from: a, to: b, bytes: 8 B}\n- {from: b, to: c, bytes: 8 B}\n- {from: c, to: a, bytes: 8 B}\n"),
            "FILE:11:3: error: the edges form a cycle: c -> a -> b -> c\n"
            "  at edges[2]\n"
            "   11 | - {from: c, to: a, bytes: 8 B}\n"
            "      |   ^");
}

TEST_F(Layers, WrongInputsAreExplained) {
  EXPECT_EQ(fault(kThree + "- {from: b, to: a, bytes: 8 B}\n"),
            "FILE:9:3: error: layer 'b' feeds 'a', which is listed before it\n"
            "  at edges[0]\n"
            "    9 | - {from: b, to: a, bytes: 8 B}\n"
            "      |   ^\n"
            "  help: list 'a' after 'b': layers are listed in topological order");
  EXPECT_EQ(fault(kThree + "- {from: b, to: b, bytes: 8 B}\n"),
            "FILE:9:3: error: layer 'b' feeds itself\n"
            "  at edges[0]\n"
            "    9 | - {from: b, to: b, bytes: 8 B}\n"
            "      |   ^");
  EXPECT_EQ(fault(kThree + "- {from: a, to: bb, bytes: 8 B}\n"),
            "FILE:9:17: error: unknown layer 'bb', did you mean 'b'?\n"
            "  at edges[0].to\n"
            "    9 | - {from: a, to: bb, bytes: 8 B}\n"
            "      |                 ^");
  EXPECT_EQ(fault(kThree + "- {from: a, to: b, bytes: 8 B}\n- {from: a, to: b, bytes: 8 B}\n"),
            "FILE:10:3: error: the edge from 'a' to 'b' is given twice\n"
            "  at edges[1]\n"
            "   10 | - {from: a, to: b, bytes: 8 B}\n"
            "      |   ^\n"
            "  help: several tensors between two layers need a 'tensor' name each");
  EXPECT_EQ(fault(kThree + "- {from: a, to: b, bytes: 8 B}\n- {from: a, to: c, bytes: 9 B}\n"), "");  // two tensors
  EXPECT_EQ(fault(kThree + "- {from: a, to: b, bytes: 8 B, tensor: x}\n- {from: a, to: c, bytes: 9 B, tensor: x}\n"),
            "FILE:10:3: error: the tensor 'x' that leaves 'a' has 9 B here and 8 B in an earlier edge\n"
            "  at edges[1]\n"
            "   10 | - {from: a, to: c, bytes: 9 B, tensor: x}\n"
            "      |   ^\n"
            "  help: edges that leave one layer under one name are one tensor");
  EXPECT_EQ(fault(kThree + "- {from: a, to: b}\n"),
            "FILE:9:3: error: missing key 'bytes'\n"
            "  at edges[0]\n"
            "    9 | - {from: a, to: b}\n"
            "      |   ^\n"
            "  help: the keys here are 'from' and 'to'");
  EXPECT_EQ(fault(kThree + "- {from: a, to: b, bytes: -8 B}\n"),
            "FILE:9:27: error: '-8 B' must not be negative\n"
            "  at edges[0].bytes\n"
            "    9 | - {from: a, to: b, bytes: -8 B}\n"
            "      |                           ^");
  EXPECT_EQ(fault(kHead + "- {name: a, forward: 1 ms, backward: 1 ms}\n- {name: b, forward: 1 ms, backward: 1 ms}\n"),
            "FILE:5:3: error: layer 'a' needs 'output', the bytes it sends to the next\n"
            "  at layers[0]\n"
            "    5 | - {name: a, forward: 1 ms, backward: 1 ms}\n"
            "      |   ^\n"
            "  help: or give the file a list of 'edges'");
  EXPECT_EQ(
      fault(kHead + "- {name: a, forward: 1 ms, backward: 1 ms, output: 1 B}\n- {name: a, forward: 1 ms, backward: 1 ms}\n"),
      "FILE:6:10: error: the layer name 'a' is used twice\n"
      "  at layers[1].name\n"
      "    6 | - {name: a, forward: 1 ms, backward: 1 ms}\n"
      "      |          ^\n"
      "  help: first at line 5");
  EXPECT_EQ(fault(kHead + "- {name: a, forward: -1 ms, backward: 1 ms}\n"),
            "FILE:5:22: error: '-1 ms' must not be negative\n"
            "  at layers[0].forward\n"
            "    5 | - {name: a, forward: -1 ms, backward: 1 ms}\n"
            "      |                      ^");
  EXPECT_EQ(fault(kHead + "- {name: a, forward: 1 ms, backward: 1 ms, weight_gradient: 1 ms}\n"),
            "FILE:5:44: error: 'backward' already holds 'weight_gradient'; give one or the other\n"
            "  at layers[0].weight_gradient\n"
            "    5 | - {name: a, forward: 1 ms, backward: 1 ms, weight_gradient: 1 ms}\n"
            "      |                                            ^");
  EXPECT_EQ(fault(kHead + "- {name: a, forward: 1 ms}\n"),
            "FILE:5:3: error: layer 'a' has no backward\n"
            "  at layers[0]\n"
            "    5 | - {name: a, forward: 1 ms}\n"
            "      |   ^\n"
            "  help: give 'input_gradient' and 'weight_gradient', or 'backward' for both together");
  EXPECT_EQ(fault(kHead + "- {name: a, forward: 1, backward: 1 ms}\n"),
            "FILE:5:22: error: '1' has no unit; write '1 us', '1 ms' or '1 s'\n"
            "  at layers[0].forward\n"
            "    5 | - {name: a, forward: 1, backward: 1 ms}\n"
            "      |                      ^");
  EXPECT_EQ(fault("panpipe: 1\nkind: layers\nlayers: []\n"),
            "FILE:3:9: error: 'layers' must be a list of at least one layer\n"
            "  at layers\n"
            "    3 | layers: []\n"
            "      |         ^");
  EXPECT_EQ(fault("panpipe: 1\nkind: cluster\nlayers:\n- {name: a, forward: 1 ms, backward: 1 ms}\n"),
            "FILE:2:7: error: this is a file of kind 'cluster', not 'layers'\n"
            "  at kind\n"
            "    2 | kind: cluster\n"
            "      |       ^");
  EXPECT_EQ(fault("panpipe: 2\nkind: layers\nlayers:\n- {name: a, forward: 1 ms, backward: 1 ms}\n"),
            "FILE:1:10: error: this version of panpipe reads format 1, not 2\n"
            "  at panpipe\n"
            "    1 | panpipe: 2\n"
            "      |          ^");
}

}  // namespace
}  // namespace panpipe
