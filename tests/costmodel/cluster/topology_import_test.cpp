// A matrix as a cluster file: what is written reads back to the cluster that the matrix itself gives.
#include "costmodel/cluster/topology_import.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/input/source_text.hpp"
#include "tests/costmodel/cluster/parse.hpp"

namespace panpipe {
namespace {

TopologyImport import_of(const std::string& text, const std::string& device) {
  ReadLog log;
  TopologyImport import;
  import.source = "topo.txt";
  import.reference = device;
  import.matrix = parse_topology_matrix(text, import.source);
  import.nodes.type = load_device(device, "", log);
  log.throw_if_errors();
  return import;
}

void expect_equal(const Cluster& written, const Cluster& direct) {
  ASSERT_EQ(written.size(), direct.size());
  EXPECT_EQ(written.switched, direct.switched);
  ASSERT_EQ(written.resources.size(), direct.resources.size());
  for (std::size_t i = 0; i < direct.resources.size(); ++i) {
    EXPECT_EQ(written.resources[i].name, direct.resources[i].name);
    EXPECT_DOUBLE_EQ(written.resources[i].bandwidth.base(), direct.resources[i].bandwidth.base()) << direct.resources[i].name;
  }
  for (int from = 0; from < direct.size(); ++from)
    for (int to = 0; to < direct.size(); ++to) {
      const Route a = written.route(from, to), b = direct.route(from, to);
      SCOPED_TRACE(fmt::format("{} -> {}", from, to));
      EXPECT_EQ(a.path, b.path);
      EXPECT_DOUBLE_EQ(a.latency.base(), b.latency.base());
      ASSERT_EQ(a.hops.size(), b.hops.size());
      for (std::size_t hop = 0; hop < a.hops.size(); ++hop) {
        EXPECT_EQ(a.hops[hop].resource, b.hops[hop].resource);
        EXPECT_EQ(a.hops[hop].uses, b.hops[hop].uses);
      }
    }
}

TEST(TopologyImport, TwoNodesOfEachKindReadBackToTheSameCluster) {
  for (const auto& [file, device] : {std::pair{"costmodel/cluster/data/topo-rtx3090x8.txt", "rtx-3090"},
                                     std::pair{"costmodel/cluster/data/topo-dgx-a100.txt", "a100-40g-sxm"}}) {
    TopologyImport import = import_of(read_text_file(file), device);
    import.nodes.nodes = 2;
    import.nodes.network = NetworkParameters{8, gb_per_s(25), micros(4), micros(1), 2, std::nullopt};
    const std::string text = cluster_file_of(import);
    SCOPED_TRACE(text);
    expect_equal(
        cluster_from(text, "."),
        cluster_from(fmt::format("device: {}\nnodes: 2\nwiring: {{topology: {}}}\n"
                                 "network: {{nics_per_node: 8, bandwidth: 25 GB/s, latency: 4 us, oversubscription: 2}}\n",
                                 device, file),
                     "."));
  }
}

// PCIe switches with peer access, and bridges of unequal width: the keys that the two servers do not need.
TEST(TopologyImport, PcieSwitchesAndUnequalBridges) {
  const std::string text =
      "      GPU0  GPU1  GPU2  GPU3  CPU Affinity\n"
      "GPU0   X    PIX   NV4   SYS   0-7\n"
      "GPU1  PIX    X    SYS   NV2   0-7\n"
      "GPU2  NV4   SYS    X    PXB   8-15\n"
      "GPU3  SYS   NV2   PXB    X    8-15\n";
  const TopologyImport import = import_of(text, "a100-80g-pcie");
  const std::string file = cluster_file_of(import);
  EXPECT_THAT(file, testing::HasSubstr("  - {between: [1, 3], class: bridge, bandwidth: 50 GB/s, latency: 2 us}\n"));
  EXPECT_THAT(file, testing::HasSubstr("  roots: {groups: [[0, 1], [2, 3]], "));
  expect_equal(
      cluster_from(file),
      assemble_cluster("c", {NodeGroup{import.nodes.type, 1, wiring_from_matrix(import.matrix, import.nodes.type), {}}}));
}

TEST(TopologyImport, EveryNumberStatesWhereItIsFrom) {
  const std::string file = cluster_file_of(import_of(read_text_file("costmodel/cluster/data/topo-rtx3090x8.txt"), "rtx-3090"));
  EXPECT_EQ(
      file,
      "# Written by `panpipe import topology` from topo.txt. Correct what your machine does otherwise.\n"
      "panpipe: 1\n"
      "kind: cluster\n"
      "device: rtx-3090                                                        # RTX3090\n"
      "nodes: 1\n"
      "devices_per_node: 8                                                     # the matrix\n"
      "wiring:\n"
      "  bridges: {pairs: [[0, 1], [2, 3], [4, 5], [6, 7]], bandwidth: 56.25 GB/s, latency: 2 us}  # NV4: the device's rate per "
      "link, each way\n"
      "  pcie: {bandwidth: 25 GB/s}                                            # the device's, each way\n"
      "  sockets: {groups: [[0, 1, 2, 3], [4, 5, 6, 7]], bandwidth: 16 GB/s, latency: 0 us}  # SYS and CPU affinity; rate of "
      "the link between them assumed\n"
      "  host: {copy: 11.2 GB/s, both_ways: 35 GB/s, relay: 23.5 GB/s, latency: 15.2 us}  # no peer access; differs threefold "
      "between processors: measure yours\n"
      "# network: {nics_per_node: 1, bandwidth: 25 GB/s, latency: 5 us}  # for nodes > 1\n");
}

}  // namespace
}  // namespace panpipe
