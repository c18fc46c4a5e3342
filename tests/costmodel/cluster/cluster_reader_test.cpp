// Cluster files and clusters written in place: what is read, and the whole text of what is wrong.
#include "costmodel/cluster/cluster_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/cluster/fabric.hpp"
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
      "clock, power_limit, "
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

// At three quarters of its power 0.75 = 0.15 + 0.85 x clock^4: clock = (0.60 / 0.85)^(1/4) = 0.9166.
TEST(ClusterFile, APowerLimitLowersComputeRates) {
  const auto with = [](const std::string& keys) {
    return cluster_from("{file: clusters/dgx-a100-80g.yaml, device: {file: devices/a100-80g-sxm.yaml" + keys + "}}");
  };
  const Cluster limited = with(", power_limit: 300 W");
  const double clock = std::pow(0.60 / 0.85, 0.25);
  EXPECT_NEAR(limited.type_of(0).peak_for(Precision::Bf16).base(), clock * 312e12, 1);
  EXPECT_EQ(limited.type_of(0).memory_bandwidth, with("").type_of(0).memory_bandwidth);
  EXPECT_NEAR(limited.type_of(0).tdp.base(), 300, 1e-9);
  EXPECT_NEAR(clock_of_type(limited, 0), clock, 1e-12);
  EXPECT_NEAR(with(", clock: 80 %").type_of(0).peak_for(Precision::Bf16).base(), 0.8 * 312e12, 1);
  EXPECT_NEAR(with(", clock: 80 %, power_limit: 300 W").type_of(0).peak_for(Precision::Bf16).base(), 0.8 * 312e12, 1);
  EXPECT_EQ(with(", power_limit: 500 W").type_of(0).tdp, watts(400));  // a limit that is none
  EXPECT_DOUBLE_EQ(clock_of_type(with(", power_limit: 400 W"), 0), 1);
}

// Devices of one name under two limits are two types.
TEST(ClusterFile, GroupsHaveTheirOwnPowerLimits) {
  const Cluster cluster = cluster_from(R"(
network: {nics_per_node: 8, bandwidth: 25 GB/s}
groups:
- {device: a100-80g-sxm, devices_per_node: 8, wiring: {switch: {bandwidth: 300 GB/s}}}
- {device: {file: devices/a100-80g-sxm.yaml, clock: 50 %}, devices_per_node: 8, wiring: {switch: {bandwidth: 300 GB/s}}}
)");
  ASSERT_EQ(cluster.types.size(), 2u);
  EXPECT_NEAR(cluster.type_of(8).peak_for(Precision::Bf16).base(), 156e12, 1);
}

// Eight lanes of the fourth generation carry 12.5 GB/s: half of the slot, of what is copied through the host, and of offloads.
TEST(ClusterFile, ASlotWithFewerLanesIsNarrower) {
  const Cluster whole = cluster_from("rtx4090x8");
  const Cluster half = cluster_from("{file: clusters/rtx4090x8.yaml, wiring: {pcie: {generation: 4, lanes: 8}}}");
  EXPECT_DOUBLE_EQ(whole.route(0, 1).bandwidth.base(), 22.2e9);
  EXPECT_DOUBLE_EQ(half.route(0, 1).bandwidth.base(), 11.1e9);
  EXPECT_EQ(half.type_of(0).copy_bandwidth, gb_per_s(12.5));
  EXPECT_DOUBLE_EQ(cluster_from("{file: clusters/rtx4090x8.yaml, wiring: {pcie: {lanes: 4}}}").route(0, 1).bandwidth.base(),
                   5.55e9);
  // The card has four generations: a slot of the fifth changes nothing.
  const Cluster newer = cluster_from("{file: clusters/rtx4090x8.yaml, wiring: {pcie: {generation: 5}}}");
  EXPECT_EQ(newer.route(0, 1).bandwidth, whole.route(0, 1).bandwidth);
  EXPECT_EQ(newer.type_of(0).copy_bandwidth, whole.type_of(0).copy_bandwidth);
}

TEST(ClusterFile, SlowDevicesAreTypesOfTheirOwn) {
  const Cluster cluster =
      cluster_from("{file: clusters/h100x8.yaml, slow: [{device: 1, factor: 0.8}, {device: 6, factor: 1.25}]}");
  ASSERT_EQ(cluster.types.size(), 2u);  // 0.8 of the rate and 1.25 of the time are the same
  EXPECT_EQ(cluster.devices[1].type, cluster.devices[6].type);
  EXPECT_DOUBLE_EQ(slowdown_of_type(cluster, cluster.devices[1].type), 1.25);
  EXPECT_DOUBLE_EQ(slowdown_of_type(cluster, cluster.devices[0].type), 1);
  EXPECT_EQ(cluster.type_of(1).peak_for(Precision::Bf16), cluster.type_of(0).peak_for(Precision::Bf16));
}

TEST(ClusterFile, SlowDevicesAndDegradedLinksExist) {
  const auto faults = [](const std::string& keys) { return faults_of("{file: clusters/h100x8.yaml, " + keys + "}"); };
  EXPECT_THAT(faults("slow: [{device: 8, factor: 0.9}]"),
              testing::HasSubstr("device 8 does not exist: the cluster has 8 (0..7)"));
  EXPECT_THAT(faults("slow: [{device: 1, factor: 0.9}, {device: 1, factor: 0.8}]"),
              testing::HasSubstr("device 1 is named twice"));
  EXPECT_THAT(faults("slow: [{device: 1}]"), testing::HasSubstr("missing key 'factor'"));
  EXPECT_THAT(faults("slow: [{device: 1, factor: 0}]"), testing::HasSubstr("must be positive"));
  EXPECT_THAT(faults("slow: {device: 1, factor: 2}"), testing::HasSubstr("expected a list of maps"));
  EXPECT_THAT(faults("degraded: [{link: node0.gpu3.swich, factor: 0.5}]"), testing::HasSubstr("no link 'node0.gpu3.swich'"));
  EXPECT_THAT(faults("degraded: [{link: node0.gpu, factor: 0.5}]"), testing::HasSubstr("no link 'node0.gpu'"));
  EXPECT_THAT(faults("degraded: [{link: [0, 1], factor: 0.5}]"), testing::HasSubstr("devices 0 and 1 have no link of their own"));
  EXPECT_THAT(faults("degraded: [{link: [0, 9], factor: 0.5}]"), testing::HasSubstr("expected two devices of 0..7"));
  EXPECT_THAT(
      faults_of(
          "{devices: 2, memory: 1 GiB, link: {latency: 1 us, bandwidth: unlimited}, degraded: [{link: [0, 1], factor: 0.5}]}"),
      testing::HasSubstr("no link of their own with a bandwidth"));
}

TEST(ClusterFile, PowerAndSlotsHaveLimits) {
  const auto device = [](const std::string& keys) {
    return faults_of("{file: clusters/h100x8.yaml, device: {file: devices/h100-sxm.yaml, " + keys + "}}");
  };
  EXPECT_THAT(device("power_limit: 300 W"), testing::HasSubstr("below half of the device's `tdp`"));
  EXPECT_THAT(device("clock: 0 %"), testing::HasSubstr("must be positive"));
  const auto slot = [](const std::string& keys) {
    return faults_of("{file: clusters/l40sx8.yaml, wiring: {pcie: {" + keys + "}}}");
  };
  EXPECT_THAT(slot("generation: 7"), testing::HasSubstr("the last generation of PCIe is 6"));
  EXPECT_THAT(slot("lanes: 32, generation: 4"), testing::HasSubstr("at most 16 lanes"));
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
