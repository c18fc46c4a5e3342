// Copies between devices and their host's memory share PCIe: the links of a switch's devices, the switch's upstream link.
#include <gtest/gtest.h>

#include "costmodel/cluster/assemble.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

using test::GraphMaker;
using test::TaskId;

// Devices with 25 GB/s each way; those of one switch share an upstream link of 25 GB/s.
Cluster node_of(int devices, std::vector<std::vector<int>> switches) {
  NodeGroup group;
  group.type.name = "card";
  group.wiring.devices = devices;
  group.wiring.pcie = gb_per_s(25);
  group.wiring.peer = PeerParameters{};
  if (!switches.empty()) group.wiring.roots = RootParameters{std::move(switches), gb_per_s(25)};
  return assemble_cluster("node", {group});
}

TaskId add_host_copy(GraphMaker& graph, int rank, bool away, int program, Bytes bytes) {
  Task task;
  task.kind = away ? TaskKind::Offload : TaskKind::Reload;
  task.lane = Lane::Copy;
  task.action.kind = away ? ActionKind::Offload : ActionKind::Reload;
  task.action.stage = rank;
  task.action.microbatch = 0;
  task.program = program;
  (away ? task.give : task.take) = bytes;
  return graph.task(rank, task);
}

class HostCopies : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (!has_backend(GetParam())) GTEST_SKIP() << "this build has no SimGrid";
  }
  // 100 MB at 25 GB/s: 4 ms alone.
  static double step_ms(const Cluster& cluster, const GraphMaker& graph, bool fold = true) {
    EXPECT_DOUBLE_EQ(estimate(graph.make()).step_time.base(), 4e-3);
    return simulate(graph.make(), cluster, {GetParam(), true, fold}).step_time.base() * 1e3;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, HostCopies, testing::Values(Backend::FlowSolver, Backend::SimGrid),
                         [](const auto& test) { return test.param == Backend::SimGrid ? "SimGrid" : "FlowSolver"; });

GraphMaker two_ranks(bool second_goes_away) {
  GraphMaker graph(2);
  const int program = graph.program({GraphMaker::compute(Duration(4e-3))});
  add_host_copy(graph, 0, true, program, Bytes(100'000'000));
  add_host_copy(graph, 1, second_goes_away, program, Bytes(100'000'000));
  return graph;
}

// Two ranks behind one switch: 200 MB through its 25 GB/s take 8 ms, twice as long as one alone.
TEST_P(HostCopies, TwoDevicesBehindOneSwitchTakeTwiceAsLong) {
  EXPECT_DOUBLE_EQ(step_ms(node_of(2, {{0, 1}}), two_ranks(true)), 8);
}

TEST_P(HostCopies, DevicesBehindSwitchesOfTheirOwnDoNotMeet) {
  EXPECT_DOUBLE_EQ(step_ms(node_of(2, {{0}, {1}}), two_ranks(true)), 4);
  EXPECT_DOUBLE_EQ(step_ms(node_of(2, {}), two_ranks(true)), 4);
}

TEST_P(HostCopies, AwayAndBackAreDirectionsOfTheirOwn) { EXPECT_DOUBLE_EQ(step_ms(node_of(2, {{0, 1}}), two_ranks(false)), 4); }

// Four replicas on two switches: every replica shares its switch with one other; one simulated device stands for all four.
TEST_P(HostCopies, ReplicasFoldAndShareAllTheSame) {
  GraphMaker graph(1, 1, 4);
  add_host_copy(graph, 0, true, graph.program({GraphMaker::compute(Duration(4e-3))}), Bytes(100'000'000));
  for (const bool fold : {true, false}) EXPECT_DOUBLE_EQ(step_ms(node_of(4, {{0, 1}, {2, 3}}), graph, fold), 8);
}

// The contention is booked on the upstream link: 4 ms lost by each of two flows.
TEST_P(HostCopies, TheReportNamesTheUpstreamLink) {
  const Timeline timeline = simulate(two_ranks(true).make(), node_of(2, {{0, 1}}), {GetParam()});
  EXPECT_DOUBLE_EQ(timeline.contention_lost.base(), 4e-3);
  ASSERT_FALSE(timeline.contention.empty());
  EXPECT_EQ(timeline.contention.front().resource, "node0.root0.up");
  EXPECT_EQ(timeline.contention.front().flows, 2);
  EXPECT_DOUBLE_EQ(timeline.contention.front().lost.base(), 8e-3);
}

TEST(HostPath, CrossesLinkSwitchAndMemoryOnce) {
  NodeGroup group;
  group.wiring.devices = 4;
  group.wiring.pcie = gb_per_s(25);
  group.wiring.roots = RootParameters{{{0, 1}, {2, 3}}, gb_per_s(20)};
  group.wiring.host = HostParameters{gb_per_s(10), std::nullopt, gb_per_s(100), Duration(0)};
  group.nodes = 2;
  group.network = NetworkParameters{1, gb_per_s(12), Duration(0), Duration(0), 1, std::nullopt};
  const Cluster cluster = assemble_cluster("two", {group});
  const auto names = [&](const Route& route) {
    std::vector<std::string> result;
    for (const Hop& hop : route.hops) result.push_back(cluster.resources[hop.resource].name);
    return result;
  };
  const auto away = host_path(cluster, 6, true), back = host_path(cluster, 6, false);
  ASSERT_TRUE(away && back);
  EXPECT_EQ(names(*away), (std::vector<std::string>{"node1.gpu2.pcie.out", "node1.root1.up", "node1.socket0.memory"}));
  EXPECT_EQ(names(*back), (std::vector<std::string>{"node1.gpu2.pcie.in", "node1.root1.down", "node1.socket0.memory"}));
  EXPECT_EQ(away->bandwidth, gb_per_s(20));
  // All four of a node at once: two on each switch of 20 GB/s, 10 each; the memory would give 25.
  EXPECT_EQ(shared_host_copy_bandwidth(cluster, {4, 5, 6, 7}, 6, true), Bandwidth(0));  // this type states no copy_bandwidth
  group.type.copy_bandwidth = gb_per_s(25);
  const Cluster copying = assemble_cluster("two", {group});
  EXPECT_EQ(host_copy_bandwidth(copying, 6, true), gb_per_s(20));
  EXPECT_EQ(shared_host_copy_bandwidth(copying, {4, 5, 6, 7}, 6, true), gb_per_s(10));
  EXPECT_EQ(shared_host_copy_bandwidth(copying, {4, 6}, 6, true), gb_per_s(20));
  // A cluster written in place describes no hosts.
  EXPECT_FALSE(host_path(given_cluster(2, Bytes(1 << 30), 1, {Duration(0), gb_per_s(1), nullptr}), 0, true));
}

}  // namespace
}  // namespace panpipe::sim
