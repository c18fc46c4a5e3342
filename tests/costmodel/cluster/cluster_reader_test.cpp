// Cluster files and clusters written in place: what is read, and the whole text of what is wrong.
#include "costmodel/cluster/cluster_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/costmodel/cluster/parse.hpp"

namespace panpipe {
namespace {

TEST(InPlace, UnlimitedBandwidthSharesNothing) {
  const Cluster cluster =
      cluster_from("{devices: 4, memory: 24 GiB, usable: 85 %, link: {latency: 0.26 ms, bandwidth: unlimited}}");
  EXPECT_TRUE(cluster.given);
  EXPECT_EQ(cluster.size(), 4);
  EXPECT_EQ(cluster.nodes, 1);
  EXPECT_DOUBLE_EQ(cluster.usable.value(), 0.85);
  EXPECT_EQ(cluster.type_of(3).memory, gib(24));
  EXPECT_FALSE(cluster.type_of(0).has_rates());
  EXPECT_TRUE(cluster.resources.empty());
  const Route route = cluster.route(0, 3);
  EXPECT_EQ(route.path, PathClass::Given);
  EXPECT_TRUE(route.hops.empty());
  EXPECT_DOUBLE_EQ(route.time_alone(gib(4)).base(), 0.26e-3);
}

TEST(InPlace, ATableIsADelay) {
  const Cluster cluster =
      cluster_from("{devices: 2, memory: 24 GiB, link: {table: [[0 B, 20 us], [512 KiB, 20 us], [64 MiB, 3195 us]]}}");
  EXPECT_FALSE(cluster.usable.has_value());
  const Route route = cluster.route(1, 0);
  EXPECT_TRUE(route.hops.empty());
  EXPECT_NEAR(route.time_alone(mib(1)).base(), 45e-6, 1e-17);
  EXPECT_NEAR(route.time_alone(bytes(8388608)).base(), 395e-6, 1e-17);
  EXPECT_EQ(cluster.route(1, 1).time_alone(mib(1)), Duration(0));
}

TEST(InPlace, FaultsAreGathered) {
  EXPECT_EQ(faults_of("devices: 0\nmemory: 24\nlink: {latency: 1 ms}\n"),
            "c.yaml:1:10: error: '0' must be at least 1\n"
            "  at devices\n"
            "    1 | devices: 0\n"
            "      |          ^\n"
            "c.yaml:2:9: error: '24' has no unit; write '24 GiB' or '24 GB'\n"
            "  at memory\n"
            "    2 | memory: 24\n"
            "      |         ^\n"
            "c.yaml:3:7: error: missing key 'bandwidth'\n"
            "  at link\n"
            "    3 | link: {latency: 1 ms}\n"
            "      |       ^\n"
            "  help: the only key here is 'latency'\n");
}

TEST(InPlace, TablesMustGrow) {
  EXPECT_EQ(faults_of("devices: 2\nmemory: 24 GiB\nlink:\n  table: [[1 KiB, 2 us], [1 KiB, 3 us], [2 KiB]]\n"),
            "c.yaml:4:27: error: sizes must grow from row to row\n"
            "  at link.table[1][0]\n"
            "    4 |   table: [[1 KiB, 2 us], [1 KiB, 3 us], [2 KiB]]\n"
            "      |                           ^\n"
            "c.yaml:4:41: error: expected a pair of size and time\n"
            "  at link.table[2]\n"
            "    4 |   table: [[1 KiB, 2 us], [1 KiB, 3 us], [2 KiB]]\n"
            "      |                                         ^\n"
            "  help: for example [512 KiB, 20 us]\n");
  EXPECT_EQ(faults_of("devices: 2\nmemory: 24 GiB\nlink: {table: [[0 B, 2 us]], latency: 1 us}\n"),
            "c.yaml:3:30: error: a link with a table has no other keys\n"
            "  at link.latency\n"
            "    3 | link: {table: [[0 B, 2 us]], latency: 1 us}\n"
            "      |                              ^\n"
            "  help: the table holds the whole time\n");
}

constexpr const char* kServer = R"(
device: {name: X, memory: 24 GiB, memory_bandwidth: 936 GB/s, peak: {fp32: 35 TFLOP/s},
         copy_bandwidth: 25 GB/s, peer_access: false}
devices_per_node: 4
)";

// Keys that no prediction reads are none.
TEST(ClusterFile, ADeviceHasOnlyKeysWithAnEffect) {
  EXPECT_EQ(
      faults_of(
          "device: {name: X, memory: 24 GiB, memory_bandwidth: 936 GB/s, peak: {fp32: 35 TFLOP/s}, copy_bandwidth: 25 GB/s,\n"
          "         l2: 6 MiB}\n"
          "devices_per_node: 4\n"),
      "c.yaml:2:10: error: unknown key 'l2'\n"
      "  at device.l2\n"
      "    2 |          l2: 6 MiB}\n"
      "      |          ^\n"
      "  help: known here: panpipe, kind, description, source, name, processor, memory, usable, memory_bandwidth, peak, tdp, "
      "copy_bandwidth, peer_access, multicast, nvlink, measured, driver_name, server, compute_capability and sources\n");
}

TEST(ClusterFile, AKeyNextToFileReplacesTheFilesOwn) {
  const Cluster one = cluster_from("clusters/dgx-a100-80g.yaml");
  EXPECT_EQ(one.nodes, 1);
  EXPECT_EQ(one.node.front().network, Bandwidth(0));
  const Cluster many = cluster_from("{file: clusters/dgx-a100-80g.yaml, nodes: 16, network: {oversubscription: 4}}");
  EXPECT_EQ(many.name, "dgx-a100-80g");
  EXPECT_EQ(many.size(), 128);
  EXPECT_EQ(many.node.front().network, gb_per_s(50));   // 8 NICs of 25 GB/s, of which a quarter leaves the node
  EXPECT_EQ(many.route(0, 8).bandwidth, gb_per_s(25));  // one NIC is still narrower than the uplink's 50 GB/s
  EXPECT_EQ(many.route(0, 8).hops.size(), 4u);
}

TEST(ClusterFile, ABareReferenceCanBeOverridden) {
  const NodePtr scenario = parse_document("cluster: clusters/dgx-a100-80g.yaml\n", "s.yaml", "");
  scenario->entries[0].value = overridable_reference(scenario->entries[0].value);
  apply_override(*scenario, "cluster.nodes=3");
  apply_override(*scenario, "cluster.network.oversubscription=2");
  ReadLog log;
  const Cluster cluster = read_cluster(*scenario->find("cluster"), log);
  log.throw_if_errors();
  EXPECT_EQ(cluster.nodes, 3);
  bool found = false;
  for (const ResolvedValue& value : log.resolved_values())
    if (value.path == "cluster.nodes") {
      found = true;
      EXPECT_EQ(value.value, "3");
      EXPECT_EQ(value.origin, "--set");
    }
  EXPECT_TRUE(found);
}

TEST(ClusterFile, ShippedNamesNeedNoFolder) {
  EXPECT_EQ(cluster_from("dgx-a100-80g").size(), 8);
  EXPECT_EQ(cluster_from("RTX3090x8").size(), 8);
  ReadLog log;
  EXPECT_EQ(load_device("RTX3090", "", log).name, "RTX3090");
  EXPECT_EQ(load_device("A100-80G-SXM", "", log).name, "A100-80G-SXM");
  EXPECT_EQ(load_device("rtx-3090-ti", "", log).name, "RTX3090Ti");
  log.throw_if_errors();
}

TEST(ClusterFile, UnknownNamesAreExplained) {
  EXPECT_EQ(faults_of("clusters/dgx-a100-80.yaml"),
            "c.yaml:1:1: error: no cluster file 'clusters/dgx-a100-80.yaml'\n"
            "    1 | clusters/dgx-a100-80.yaml\n"
            "      | ^\n"
            "  help: did you mean 'clusters/dgx-a100-80g.yaml'?\n");
  EXPECT_THAT(faults_of("{file: nowhere}"),
              testing::StartsWith("c.yaml:1:8: error: no cluster file 'nowhere'\n"
                                  "  at file\n"
                                  "    1 | {file: nowhere}\n"
                                  "      |        ^\n"
                                  "  help: give a file, or one that is shipped: a100-80g-pcie-x4, "));
}

TEST(ClusterFile, NodesOfTwoKinds) {
  const Cluster cluster = cluster_from(R"(
network: {nics_per_node: 8, bandwidth: 25 GB/s}
groups:
  - {device: a100-80g-sxm, nodes: 2, devices_per_node: 8, wiring: {switch: {bandwidth: 300 GB/s}}}
  - {device: h100-sxm, devices_per_node: 4, wiring: {switch: {bandwidth: 450 GB/s}},
     network: {nics_per_node: 4, bandwidth: 50 GB/s}}
)");
  EXPECT_EQ(cluster.size(), 20);
  EXPECT_EQ(cluster.nodes, 3);
  EXPECT_EQ(cluster.type_of(15).name, "A100-80G-SXM");
  EXPECT_EQ(cluster.type_of(16).name, "H100-SXM");
  EXPECT_EQ(cluster.route(17, 19).bandwidth, gb_per_s(450));
  EXPECT_EQ(cluster.route(0, 19).bandwidth, gb_per_s(25));  // the narrower of 25 and 50
  EXPECT_TRUE(cluster.switched);
}

TEST(ClusterFile, LinksByPair) {
  const Cluster cluster = cluster_from(std::string(kServer) + R"(
wiring:
  links:
    - {between: [0, 1], class: bridge, bandwidth: 50 GB/s, latency: 2 us}
    - {between: [2, 1], class: host, bandwidth: 10 GB/s, latency: 15 us}
)");
  EXPECT_EQ(cluster.route(1, 0).bandwidth, gb_per_s(50));
  EXPECT_EQ(cluster.route(1, 2).path, PathClass::Host);
  EXPECT_NE(cluster.route(1, 0).hops[0].resource, cluster.route(0, 1).hops[0].resource);
  EXPECT_THROW(cluster.route(0, 3), InputError);
}

TEST(ClusterFile, FaultsInTheWiring) {
  EXPECT_EQ(
      faults_of(std::string(kServer) + "wiring:\n  bridges: {pairs: [[0, 4], [1, 1], [2, 3], [3, 2]], bandwidth: 56 GB/s}\n"),
      "c.yaml:6:25: error: device 4 does not exist: a node has 4 (0..3)\n"
      "  at wiring.bridges.pairs[0][1]\n"
      "    6 |   bridges: {pairs: [[0, 4], [1, 1], [2, 3], [3, 2]], bandwidth: 56 GB/s}\n"
      "      |                         ^\n"
      "c.yaml:6:29: error: a link joins two devices, not 1 with itself\n"
      "  at wiring.bridges.pairs[1]\n"
      "    6 |   bridges: {pairs: [[0, 4], [1, 1], [2, 3], [3, 2]], bandwidth: 56 GB/s}\n"
      "      |                             ^\n"
      "c.yaml:6:45: error: devices 3 and 2 are linked twice\n"
      "  at wiring.bridges.pairs[3]\n"
      "    6 |   bridges: {pairs: [[0, 4], [1, 1], [2, 3], [3, 2]], bandwidth: 56 GB/s}\n"
      "      |                                             ^\n");
  EXPECT_EQ(faults_of(std::string(kServer) + "wiring:\n  sockets: {groups: [[0, 1], [1, 2]]}\n"),
            "c.yaml:6:31: error: device 1 is named twice\n"
            "  at wiring.sockets.groups[1][0]\n"
            "    6 |   sockets: {groups: [[0, 1], [1, 2]]}\n"
            "      |                               ^\n");
  EXPECT_EQ(faults_of(std::string(kServer) + "wiring: {peer: {latency: 2 us}}\n"),
            "c.yaml:5:16: error: PCIe peer access needs 'pcie: {bandwidth: ...}'\n"
            "  at wiring.peer\n"
            "    5 | wiring: {peer: {latency: 2 us}}\n"
            "      |                ^\n");
  EXPECT_EQ(faults_of(std::string(kServer) + "wiring: {switch: {bandwidth: unlimited}}\n"),
            "c.yaml:5:30: error: a shared resource cannot be unlimited\n"
            "  at wiring.switch.bandwidth\n"
            "    5 | wiring: {switch: {bandwidth: unlimited}}\n"
            "      |                              ^\n"
            "  help: only the link of a cluster written in place can\n");
  EXPECT_EQ(faults_of(std::string(kServer) + "nodes: 2\n"),
            "c.yaml:5:8: error: 2 nodes, but no network between them\n"
            "  at nodes\n"
            "    5 | nodes: 2\n"
            "      |        ^\n"
            "  help: add 'network: {nics_per_node: 8, bandwidth: 25 GB/s, latency: 5 us}'\n");
  EXPECT_EQ(
      faults_of(std::string(kServer) + "nodes: 2\nnetwork: {nics_per_node: 1, bandwidth: 25 GB/s, oversubscription: 0.5}\n"),
      "c.yaml:6:67: error: must be at least 1\n"
      "  at network.oversubscription\n"
      "    6 | network: {nics_per_node: 1, bandwidth: 25 GB/s, oversubscription: 0.5}\n"
      "      |                                                                   ^\n"
      "  help: write 1 for a tree that never blocks, 2 where half of what the NICs can send leaves the node\n");
  EXPECT_EQ(faults_of(std::string(kServer) + "sources: {wiring.switch: data sheet}\n"),
            "c.yaml:5:11: error: a source for 'wiring.switch', which this file does not have\n"
            "  at sources.wiring.switch\n"
            "    5 | sources: {wiring.switch: data sheet}\n"
            "      |           ^\n");
}

TEST(ClusterFile, SizesThatNobodyBuildsAreRefused) {
  const std::string many = "nodes: 1\nwiring: {switch: {bandwidth: 300 GB/s}}\ndevices_per_node: 1000000\n";
  EXPECT_EQ(faults_of("device: h20\n" + many),
            "c.yaml:2:8: error: a node has at most 1024 devices and 1024 NICs\n"
            "  at nodes\n"
            "    2 | nodes: 1\n"
            "      |        ^\n");
  EXPECT_EQ(faults_of("{file: dgx-a100-80g, nodes: 2000000}"),
            "c.yaml:1:29: error: 16000000 devices are more than the 1048576 that are supported\n"
            "  at nodes\n"
            "    1 | {file: dgx-a100-80g, nodes: 2000000}\n"
            "      |                             ^\n");
  EXPECT_THAT(faults_of("devices: 1025\nmemory: 1 GiB\nlink: {latency: 1 us, bandwidth: 1 GB/s}\n"),
              testing::StartsWith("c.yaml:1:10: error: a cluster written in place has at most 1024 devices\n"));
}

TEST(ClusterFile, FilesThatReferToThemselvesAreACircle) {
  EXPECT_EQ(faults_of("{file: costmodel/cluster/data/circle.yaml}"),
            "costmodel/cluster/data/circle.yaml:3:7: error: cluster files refer to each other in a circle\n"
            "  at file\n"
            "    3 | file: circle.yaml\n"
            "      |       ^\n");
}

}  // namespace
}  // namespace panpipe
