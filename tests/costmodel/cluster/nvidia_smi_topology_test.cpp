// `nvidia-smi topo -m` in two shapes: tab-separated and underlined from a terminal, space-separated with NICs from a report.
// data/topo-rtx3090x8.txt is constructed (no listing of such a server was at hand); data/topo-dgx-a100.txt is completed after
// the listing in NVIDIA/nccl issue 1505.
#include "costmodel/cluster/nvidia_smi_topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>

#include "tests/costmodel/cluster/parse.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using testing::ElementsAre;

std::string text_of(const std::string& name) { return test::read_file("costmodel/cluster/data/" + name); }

DeviceType device(const std::string& name) {
  ReadLog log;
  DeviceType type = load_device(name, "", log);
  log.throw_if_errors();
  return type;
}

TEST(TopologyMatrix, EightRtx3090WithFourBridges) {
  const TopologyMatrix matrix = parse_topology_matrix(text_of("topo-rtx3090x8.txt"), "topo.txt");
  EXPECT_EQ(matrix.devices, 8);
  EXPECT_TRUE(matrix.nics.empty());
  ASSERT_EQ(matrix.nvlinks.size(), 4u);
  EXPECT_EQ(matrix.nvlinks[3].first, 6);
  EXPECT_EQ(matrix.nvlinks[3].second, 7);
  EXPECT_EQ(matrix.nvlinks[3].links, 4);
  EXPECT_TRUE(matrix.roots.empty());
  EXPECT_THAT(matrix.sockets, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
}

TEST(TopologyMatrix, OfRtx3090IsWiredLikeTheShippedServer) {
  const Cluster read = read_topology_matrix(text_of("topo-rtx3090x8.txt"), "topo.txt", device("rtx-3090"));
  const Cluster shipped = cluster_from("clusters/rtx3090x8.yaml");
  ASSERT_EQ(read.size(), shipped.size());
  for (int from = 0; from < 8; ++from)
    for (int to = 0; to < 8; ++to) {
      EXPECT_EQ(read.route(from, to).path, shipped.route(from, to).path) << from << "->" << to;
      EXPECT_EQ(read.route(from, to).bandwidth, shipped.route(from, to).bandwidth) << from << "->" << to;
      EXPECT_DOUBLE_EQ(read.route(from, to).latency.base(), shipped.route(from, to).latency.base()) << from << "->" << to;
    }
  EXPECT_FALSE(read.switched);
}

TEST(TopologyMatrix, DgxA100IsSwitched) {
  const TopologyMatrix matrix = parse_topology_matrix(text_of("topo-dgx-a100.txt"), "topo.txt");
  EXPECT_EQ(matrix.devices, 8);
  EXPECT_EQ(matrix.nics.size(), 12u);
  // NIC4, NIC5, NIC10 and NIC11 share a switch with each other only.
  EXPECT_EQ(matrix.near, (std::vector<bool>{true, true, true, true, false, false, true, true, true, true, false, false}));
  // NVLink hides the PCIe relations; the CPU affinity shows four NUMA domains with two GPUs each.
  EXPECT_THAT(matrix.sockets, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_TRUE(has_nvswitch(matrix, device("a100-40g-sxm")));  // 7 x 12 links shown, a GPU has 12
  const Cluster cluster = read_topology_matrix(text_of("topo-dgx-a100.txt"), "topo.txt", device("a100-40g-sxm"));
  EXPECT_TRUE(cluster.switched);
  EXPECT_EQ(cluster.route(0, 7).bandwidth, gb_per_s(300));
}

TEST(TopologyMatrix, AllPairsLinkedDirectlyIsNoSwitch) {
  // Four A100 with NV4 to each of three others: 12 links, all a GPU has (NVIDIA/nccl-tests issue 331).
  const std::string text =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
      "GPU0\tX\tNV4\tNV4\tNV4\t0\nGPU1\tNV4\tX\tNV4\tNV4\t0\nGPU2\tNV4\tNV4\tX\tNV4\t0\nGPU3\tNV4\tNV4\tNV4\tX\t0\n";
  const Cluster cluster = read_topology_matrix(text, "topo.txt", device("a100-40g-sxm"));
  EXPECT_FALSE(cluster.switched);
  EXPECT_EQ(cluster.route(1, 2).path, PathClass::Bridge);
  EXPECT_EQ(cluster.route(1, 2).bandwidth, gb_per_s(100));
}

TEST(TopologyMatrix, DevicesBelowOnePcieSwitchShareItsUplink) {
  const std::string text =
      "      GPU0  GPU1  GPU2  mlx5_0  CPU Affinity\n"
      "GPU0   X    PIX   SYS   PIX     0-7\n"
      "GPU1  PIX    X    SYS   PIX     0-7\n"
      "GPU2  SYS   SYS    X    SYS     8-15\n";
  const TopologyMatrix matrix = parse_topology_matrix(text, "topo.txt");
  EXPECT_THAT(matrix.roots, ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(matrix.sockets, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  const Cluster cluster = read_topology_matrix(text, "topo.txt", device("a100-80g-pcie"));
  EXPECT_EQ(cluster.route(0, 1).hops.size(), 2u);
  EXPECT_EQ(cluster.route(0, 2).hops.size(), 4u);  // out, root, sockets, in
  EXPECT_EQ(cluster.route(0, 2).bandwidth, gb_per_s(16));
}

TEST(TopologyMatrix, InAClusterFile) {
  const Cluster cluster = cluster_from(R"(
device: rtx-3090
nodes: 2
wiring: {topology: costmodel/cluster/data/topo-rtx3090x8.txt, bridges: {pairs: [[0, 1]], bandwidth: 50 GB/s}}
network: {nics_per_node: 1, bandwidth: 12.5 GB/s}
)",
                                       ".");
  EXPECT_EQ(cluster.size(), 16);
  EXPECT_EQ(cluster.route(8, 9).bandwidth, gb_per_s(50));
  EXPECT_EQ(cluster.route(2, 3).path, PathClass::Host);  // the file's bridges replace the matrix's
  EXPECT_EQ(cluster.route(0, 15).path, PathClass::Network);
}

}  // namespace
}  // namespace panpipe
