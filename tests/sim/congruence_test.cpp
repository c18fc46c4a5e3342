// Which pipeline groups are folded, and which ranks' passes may be one timer.
#include "sim/congruence.hpp"

#include <gtest/gtest.h>

#include "sim/flow_table.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

using test::ClusterMaker;
using test::GraphMaker;
using test::TaskId;

// Two ranks of eight tensor-parallel devices, one node each: a ring over private ports inside a node, one NIC for all eight
// between them. `slow`: device whose port is half as fast, -1 = none.
struct TwoNodes {
  ClusterMaker cluster{16};
  GraphMaker graph{2, 8};
  int nic_out = 0, nic_in = 0;

  explicit TwoNodes(int slow = -1, bool hand_over_on_ports = false) {
    std::vector<int> port, in;
    for (int i = 0; i < 16; ++i) {
      port.push_back(cluster.resource("gpu" + std::to_string(i) + ".out", gb_per_s(i == slow ? 150 : 300)));
      in.push_back(cluster.resource("gpu" + std::to_string(i) + ".in", gb_per_s(300)));
    }
    nic_out = cluster.resource("node0.nic.out", gb_per_s(25));
    nic_in = cluster.resource("node1.nic.in", gb_per_s(25));
    for (int from = 0; from < 16; ++from)
      for (int to = 0; to < 16; ++to) {
        const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
        if (from / 8 == to / 8) {
          cluster.route(from, to, {{port[f], 1}, {in[t], 1}});
        } else if (hand_over_on_ports) {
          cluster.route(from, to, {{port[f], 1}, {nic_out, 1}, {nic_in, 1}});
        } else {
          cluster.route(from, to, {{nic_out, 1}, {nic_in, 1}});
        }
      }
    const int flow = graph.flow(Bytes(88080384), gb_per_s(150));
    const int program =
        graph.program({graph.compute(millis(1.5)), graph.collective(flow), graph.compute(millis(1.5)), graph.collective(flow)});
    const int link = graph.link(0, 1, Bytes(6291456), gb_per_s(25));
    std::vector<TaskId> sent;
    for (int i = 0; i < 6; ++i) sent.push_back(graph.pass(0, program, i));
    for (int i = 0; i < 6; ++i) graph.transfer(sent[i], graph.pass(1, program, i), link);
  }

  Statistics statistics(bool fold = true) const {
    Statistics result;
    simulate(graph.make(), cluster.make(), {Backend::FlowSolver, true, fold}, &result);
    return result;
  }
  double step(bool merge, bool fold) const {
    return simulate(graph.make(), cluster.make(), {Backend::FlowSolver, merge, fold}).step_time.base();
  }
};

TEST(Congruence, AlikeDevicesAreOneAndASharedNicCountsThemAll) {
  const TwoNodes nodes;
  const TaskGraph graph = nodes.graph.make();
  const Cluster cluster = nodes.cluster.make();
  const Platform platform(graph, cluster);
  const Folding folding = fold_groups(platform, true);
  EXPECT_EQ(folding.classes, 1);
  EXPECT_EQ(folding.size, std::vector<std::int32_t>{8});
  const std::int32_t route = folding.route_of(platform.between(0, 1), 0);
  const auto& hops = folding.network.routes[route];
  // Out and in have the same capacity and the same users, so they are one resource, which a flow through it uses eight times.
  ASSERT_EQ(hops.size(), 1U);
  EXPECT_EQ(hops[0].uses, 8);
  EXPECT_EQ(hops[0].flows, 8);
  const SharedResource& nic = folding.network.resources[hops[0].resource];
  EXPECT_EQ(nic.name, "node0.nic.out");
  EXPECT_EQ(nic.capacity, 25e9);
  EXPECT_EQ(nic.alike, 2);
}

// Six hand-overs; the first starts at the end of rank 0's first pass. Eight flows of 6,291,456 B over 25 GB/s take 2.0133 ms,
// less than the pass of 2 x (1.5 + 88,080,384 B / 150 GB/s = 0.5872) ms = 4.1744 ms: seven passes and one hand-over.
TEST(Congruence, FoldedAndMergedTimesAreTheRealOnes) {
  const TwoNodes nodes;
  const double expected = 7 * 2 * (1.5e-3 + 587202560e-12) + 8 * 6291456 / 25e9;
  for (const bool merge : {true, false})
    for (const bool fold : {true, false}) EXPECT_NEAR(nodes.step(merge, fold), expected, 1e-11) << merge << fold;
  EXPECT_EQ(nodes.statistics().folded_devices, 8);
  EXPECT_TRUE(nodes.statistics().merged);
  EXPECT_EQ(nodes.statistics().activities, 12 + 6);
  EXPECT_EQ(nodes.statistics(false).activities, 12 + 6 * 8);
}

// A slower port makes a difference to its device and, through the ring's groups, to nobody else: two classes.
TEST(Congruence, ADegradedLinkIsAClassOfItsOwn) {
  const TwoNodes nodes(3);
  const TaskGraph graph = nodes.graph.make();
  const Cluster cluster = nodes.cluster.make();
  const Platform platform(graph, cluster);
  const Folding folding = fold_groups(platform, true);
  EXPECT_EQ(folding.classes, 2);
  EXPECT_EQ(folding.class_of, (std::vector<std::int32_t>{0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(folding.groups[index_of(Among::Tensor)].members.size(), 1U);
  EXPECT_NEAR(nodes.step(true, true), nodes.step(false, false), 1e-11);
}

// Hand-overs leave through the ports that the ring uses: rank 0's passes stay step by step, rank 1's need not.
TEST(Congruence, RingsThatShareLinksAreNotMerged) {
  const TwoNodes nodes(-1, true);
  const TaskGraph graph = nodes.graph.make();
  const Cluster cluster = nodes.cluster.make();
  const Platform platform(graph, cluster);
  Folding folding = fold_groups(platform, true);
  const FlowTable flows(graph, platform, folding);
  EXPECT_EQ(mergeable_ranks(platform, graph.ranks, flows.pass_rates()), (std::vector<bool>{false, true}));
  EXPECT_FALSE(nodes.statistics().merged);
  for (const bool fold : {true, false}) EXPECT_NEAR(nodes.step(true, fold), nodes.step(false, false), 1e-11);
}

// Two rings of one rank through one switch of limited capacity: as long as both fit side by side they are not private.
TEST(Congruence, RingsOfTwoReplicasThroughOneLinkAreNotMerged) {
  ClusterMaker cluster(4);
  const int bus = cluster.resource("bus", gb_per_s(100));
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) cluster.route(from, to, {{bus, 1}});
  GraphMaker graph(1, 2, 2);
  const int flow = graph.flow(Bytes(100000000), gb_per_s(50));
  graph.pass(0, graph.program({graph.compute(millis(1)), graph.collective(flow)}));
  Statistics statistics;
  const Timeline timeline = simulate(graph.make(), cluster.make(), {Backend::FlowSolver, true, true}, &statistics);
  EXPECT_FALSE(statistics.merged);
  EXPECT_EQ(statistics.folded_devices, 4);
  // Four members at 50 GB/s want 200 of 100 GB/s: 2 ms become 4.
  EXPECT_NEAR(timeline.step_time.base(), 5e-3, 1e-12);
  EXPECT_NEAR(timeline.contention_lost.base(), 2e-3, 1e-12);
}

// One pair straddles two nodes, the other does not: replicas differ.
TEST(Congruence, ReplicasPlacedDifferentlyAreNotFolded) {
  ClusterMaker cluster(4);
  const int nic = cluster.resource("nic", gb_per_s(5));
  std::vector<int> port;
  for (int i = 0; i < 4; ++i) port.push_back(cluster.resource("port" + std::to_string(i), gb_per_s(50)));
  const auto node = [](int device) { return device < 3 ? 0 : 1; };
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) {
      std::vector<Hop> hops{{port[from], 1}};
      if (node(from) != node(to)) hops.push_back({nic, 1});
      cluster.route(from, to, hops);
    }
  GraphMaker graph(2, 1, 2);  // replica 0: devices 0 -> 2, replica 1: 1 -> 3, over the NIC
  const int link = graph.link(0, 1, Bytes(50000000), gb_per_s(50));
  const int nothing = graph.program({});
  const TaskId from = graph.pass(0, nothing), to = graph.pass(1, nothing);
  graph.transfer(from, to, link);
  Statistics statistics;
  const Timeline timeline = simulate(graph.make(), cluster.make(), {Backend::FlowSolver, true, true}, &statistics);
  EXPECT_EQ(statistics.folded_devices, 1);
  EXPECT_NEAR(timeline.step_time.base(), 10e-3, 1e-12);  // 50 MB at 5 GB/s; the first replica's takes 1 ms
}

}  // namespace
}  // namespace panpipe::sim
