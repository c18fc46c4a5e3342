// Cluster files and clusters written in place: what is read, and the whole text of what is wrong.
#include "costmodel/cluster/cluster_reader.hpp"

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

constexpr const char* kServer = R"(
device: {name: X, memory: 24 GiB, memory_bandwidth: 936 GB/s, peak: {fp32: 35 TFLOP/s},
         copy_bandwidth: 25 GB/s, peer_access: false}
devices_per_node: 4
)";

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

}  // namespace
}  // namespace panpipe
