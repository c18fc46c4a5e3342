// Times of single transfers, and the routes and shares of hand-made nodes, in closed form.
#include "costmodel/cluster/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "costmodel/cluster/assemble.hpp"
#include "costmodel/cluster/node_wiring.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

std::vector<std::string> resource_names(const std::vector<Resource>& resources, const Route& route) {
  std::vector<std::string> names;
  for (const Hop& hop : route.hops) {
    const std::string& name = resources[hop.resource].name;
    names.push_back(hop.uses == 1 ? name : name + " x" + std::to_string(hop.uses));
  }
  return names;
}

TEST(TransferTable, IsLinearBetweenPointsAndBeyondTheLast) {
  // Slope of the second segment: (3195 - 20) us / (64 MiB - 0.5 MiB) = 50 us/MiB.
  const TransferTable table{{{bytes(0), micros(20)}, {kib(512), micros(20)}, {mib(64), micros(3195)}}};
  EXPECT_DOUBLE_EQ(table.at(bytes(0)).base(), 20e-6);
  EXPECT_DOUBLE_EQ(table.at(kib(100)).base(), 20e-6);
  EXPECT_DOUBLE_EQ(table.at(kib(512)).base(), 20e-6);
  EXPECT_NEAR(table.at(mib(1)).base(), 45e-6, 1e-18);           // 20 + 0.5 x 50
  EXPECT_NEAR(table.at(bytes(8388608)).base(), 395e-6, 1e-17);  // 20 + 7.5 x 50
  EXPECT_NEAR(table.at(mib(64)).base(), 3195e-6, 1e-16);
  EXPECT_NEAR(table.at(mib(128)).base(), 6395e-6, 1e-16);  // 20 + 127.5 x 50
}

TEST(TransferTable, IsConstantBelowTheFirstPointAndWithOnePoint) {
  EXPECT_EQ((TransferTable{{{kib(4), micros(7)}, {kib(8), micros(9)}}}.at(bytes(1))), micros(7));
  EXPECT_EQ((TransferTable{{{kib(4), micros(7)}}}.at(gib(1))), micros(7));
}

TEST(Route, TimeAloneIsLatencyPlusBytesOverBandwidth) {
  Route route;
  route.path = PathClass::Bridge;
  route.latency = micros(2);
  route.bandwidth = gb_per_s(50);
  EXPECT_DOUBLE_EQ(route.time_alone(bytes(1'000'000)).base(), 22e-6);  // 2 us + 1 MB / 50 GB/s = 20 us
  route.bandwidth = Bandwidth(INFINITY);
  EXPECT_EQ(route.time_alone(gib(1)), micros(2));
  EXPECT_EQ(Route{}.time_alone(gib(1)), Duration(0));
}

TEST(DeviceType, PureKindsRunAtTheMixedRate) {
  DeviceType type;
  type.peak = {{Precision::Bf16, tflops_per_s(312)}, {Precision::Fp32, tflops_per_s(19.5)}};
  EXPECT_EQ(type.peak_for(Precision::Bf16Pure), tflops_per_s(312));
  EXPECT_EQ(type.peak_for(Precision::Fp16Pure), ComputeRate(0));
  EXPECT_EQ(type.peak_for(Precision::Tf32), ComputeRate(0));
}

TEST(NodeWiring, ACopyThroughTheHostUsesItsMemoryTwiceAndTheSocketLinkOnce) {
  NodeWiring wiring;
  wiring.devices = 4;
  wiring.peer_access = false;
  wiring.pcie = gb_per_s(25);
  wiring.roots = RootParameters{{{0, 1}, {2, 3}}, gb_per_s(24)};
  wiring.sockets = SocketParameters{{{0, 1}, {2, 3}}, gb_per_s(16), micros(1)};
  wiring.peer = PeerParameters{micros(2)};  // not usable: the devices refuse
  wiring.host = HostParameters{gb_per_s(11), gb_per_s(25), gb_per_s(20), micros(15), gb_per_s(14)};
  const NodeTemplate node = make_node(wiring);
  const Route& near = *node.route(0, 1);
  EXPECT_EQ(near.path, PathClass::Host);
  EXPECT_EQ(near.latency, micros(15));
  EXPECT_EQ(near.bandwidth, gb_per_s(10));  // 20 GB/s of memory, written and read
  EXPECT_THAT(resource_names(node.resources, near),
              testing::ElementsAre("gpu0.staging", "gpu0.pcie.both", "gpu1.pcie.both", "root0.both x2", "gpu0.pcie.out",
                                   "socket0.memory x2", "socket0.relay", "root0.up", "root0.down", "gpu1.pcie.in"));
  const Route& far = *node.route(3, 0);
  EXPECT_EQ(far.path, PathClass::HostSockets);
  EXPECT_EQ(far.latency, micros(16));
  EXPECT_THAT(
      resource_names(node.resources, far),
      testing::ElementsAre("gpu3.staging", "gpu3.pcie.both", "gpu0.pcie.both", "root1.both", "root0.both", "gpu3.pcie.out",
                           "socket1.memory x2", "socket1.relay", "root1.up", "socket1-socket0", "root0.down", "gpu0.pcie.in"));
}

TEST(NodeWiring, PeersBelowOneRootDoNotUseItsUplink) {
  NodeWiring wiring;
  wiring.devices = 4;
  wiring.pcie = gb_per_s(24);
  wiring.roots = RootParameters{{{0, 1}, {2, 3}}, gb_per_s(20)};
  wiring.peer = PeerParameters{micros(2)};
  const NodeTemplate node = make_node(wiring);
  EXPECT_THAT(resource_names(node.resources, *node.route(0, 1)), testing::ElementsAre("gpu0.pcie.out", "gpu1.pcie.in"));
  EXPECT_EQ(node.route(0, 1)->bandwidth, gb_per_s(24));
  EXPECT_THAT(resource_names(node.resources, *node.route(1, 2)),
              testing::ElementsAre("gpu1.pcie.out", "root0.up", "root1.down", "gpu2.pcie.in"));
  EXPECT_EQ(node.route(1, 2)->bandwidth, gb_per_s(20));
}

// NCCL's default: peer access below one PCIe switch, host memory between root ports.
TEST(NodeWiring, PeersBelowDifferentRootsGoThroughAHostThatIsStated) {
  NodeWiring wiring;
  wiring.devices = 4;
  wiring.pcie = gb_per_s(24);
  wiring.roots = RootParameters{{{0, 1}}, gb_per_s(24)};  // 2 and 3 have ports of their own
  wiring.peer = PeerParameters{micros(2)};
  wiring.host = HostParameters{gb_per_s(22), gb_per_s(35), std::nullopt, micros(15)};
  const NodeTemplate node = make_node(wiring);
  EXPECT_EQ(node.route(0, 1)->path, PathClass::PeerPcie);
  EXPECT_EQ(node.route(1, 2)->path, PathClass::Host);
  EXPECT_EQ(node.route(2, 3)->path, PathClass::Host);
}

// Four devices below an uplink of half a slot's width: both ways 17.5, and every hop crosses it up and down.
TEST(NodeWiring, AnUplinkCarriesBothWaysOfAllItsDevices) {
  NodeWiring wiring;
  wiring.devices = 4;
  wiring.peer_access = false;
  wiring.pcie = gb_per_s(24);
  wiring.roots = RootParameters{{{0, 1, 2, 3}}, gb_per_s(12)};
  wiring.host = HostParameters{gb_per_s(22), gb_per_s(35), std::nullopt, micros(15)};
  const NodeTemplate node = make_node(wiring);
  EXPECT_DOUBLE_EQ(ring_bandwidth(node).base(), 17.5e9 / 8);
  // Copies to and from the host's memory cross it once.
  EXPECT_THAT(resource_names(node.resources, *node.to_host[1]),
              testing::ElementsAre("gpu1.pcie.out", "gpu1.pcie.both", "root0.both", "root0.up"));
}

TEST(NodeWiring, ARingGetsItsNarrowestResourcesShare) {
  NodeWiring wiring;
  wiring.devices = 4;
  wiring.peer_access = false;
  wiring.host = HostParameters{gb_per_s(11), gb_per_s(16), std::nullopt, micros(15)};
  EXPECT_EQ(ring_bandwidth(make_node(wiring)), gb_per_s(8));  // each device sends and receives: 16 / 2
  wiring.links = {{0, 1, PathClass::Bridge, gb_per_s(56), micros(2)}, {2, 3, PathClass::Bridge, gb_per_s(56), micros(2)}};
  EXPECT_EQ(ring_bandwidth(make_node(wiring)), gb_per_s(11));  // one copy a device: 1 -> 2 and 3 -> 0
  wiring.host.reset();
  EXPECT_EQ(ring_bandwidth(make_node(wiring)), Bandwidth(0));  // 1 -> 2 has no way
}

TEST(Assemble, ATreeWithoutOversubscriptionSharesNothingButTheNics) {
  NodeGroup group{{}, 3, {}, NetworkParameters{2, gb_per_s(25), micros(5), micros(1), 1, std::nullopt}};
  group.type.kind = "gpu";
  group.wiring.devices = 4;
  group.wiring.fabric = SwitchParameters{gb_per_s(300), micros(2)};
  const Cluster cluster = assemble_cluster("c", {group});
  EXPECT_EQ(cluster.size(), 12);
  EXPECT_TRUE(cluster.switched);
  EXPECT_EQ(cluster.node.front().network, gb_per_s(50));
  EXPECT_EQ(cluster.fabric_bandwidth, gb_per_s(300));
  EXPECT_EQ(device_name(cluster, 6), "node1.gpu2");
  // Four devices on two NICs: 0 and 1 on the first, 2 and 3 on the second.
  const Route route = cluster.route(1, 11);
  EXPECT_EQ(route.path, PathClass::Network);
  EXPECT_EQ(route.latency, micros(5));
  EXPECT_EQ(route.bandwidth, gb_per_s(25));
  EXPECT_THAT(resource_names(cluster.resources, route), testing::ElementsAre("node0.nic0.out", "node2.nic1.in"));
}

TEST(Assemble, OversubscriptionNarrowsTheUplinkAndASpineIsSharedByAll) {
  NodeGroup group{{}, 2, {}, NetworkParameters{8, gb_per_s(25), micros(5), micros(1), 16, gb_per_s(10)}};
  group.type.kind = "gpu";
  group.wiring.devices = 8;
  group.wiring.fabric = SwitchParameters{gb_per_s(300), micros(2)};
  const Cluster cluster = assemble_cluster("c", {group});
  const Route route = cluster.route(0, 15);
  EXPECT_THAT(resource_names(cluster.resources, route),
              testing::ElementsAre("node0.nic0.out", "node0.uplink.out", "spine", "node1.nic7.in", "node1.uplink.in"));
  // The uplink carries 8 x 25 / 16 = 12.5 GB/s, the spine 10.
  EXPECT_EQ(cluster.resources[route.hops[1].resource].bandwidth, gb_per_s(12.5));
  EXPECT_EQ(route.bandwidth, gb_per_s(10));
}

TEST(Assemble, DevicesThatNothingJoinsAreNamedInTheError) {
  NodeGroup group{{}, 1, {}, std::nullopt};
  group.type.kind = "gpu";
  group.type.name = "RTX3090";
  group.wiring.devices = 3;
  group.wiring.links = {{0, 1, PathClass::Bridge, gb_per_s(56), micros(2)}};
  const Cluster cluster = assemble_cluster("c", {group});
  EXPECT_EQ(cluster.route(0, 1).path, PathClass::Bridge);
  EXPECT_EQ(test::fault_of([&] { cluster.route(0, 2); }),
            "error: device 0 (node0.gpu0, RTX3090) cannot reach device 2 (node0.gpu2, RTX3090): "
            "no link, switch, PCIe peer access or host memory joins them");
}

TEST(GivenCluster, EachOrderedPairHasItsOwnLink) {
  const Cluster cluster = given_cluster(4, gib(24), 0.85, {micros(260), gb_per_s(10), nullptr});
  EXPECT_EQ(cluster.resources.size(), 12u);
  std::vector<int> seen(12, 0);
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) {
      const Route route = cluster.route(from, to);
      if (from == to) {
        EXPECT_EQ(route.path, PathClass::Local);
        continue;
      }
      ASSERT_EQ(route.hops.size(), 1u);
      ++seen[route.hops[0].resource];
      EXPECT_EQ(resource_names(cluster.resources, route)[0],
                "link.device" + std::to_string(from) + "-device" + std::to_string(to));
      EXPECT_DOUBLE_EQ(route.time_alone(bytes(10'000'000)).base(), 1.26e-3);  // 0.26 ms + 10 MB / 10 GB/s
    }
  EXPECT_THAT(seen, testing::Each(1));
}

}  // namespace
}  // namespace panpipe
