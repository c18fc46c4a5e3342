// One slow device, one degraded link, and fabrics with rails: closed forms, the same in both engines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "costmodel/cost/occupancy.hpp"
#include "costmodel/prediction/blame.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "sim/simulate.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

// Two layers of 2 ms forward and 4 ms backward each, with so many bytes of parameters.
std::string layers_file(const std::string& parameters) {
  std::string text = "panpipe: 1\nkind: layers\nsource: a test\nlayers:\n";
  for (const char* name : {"a", "b"})
    text += std::string("- {name: ") + name +
            ", forward: 2 ms, backward: 4 ms, saved: 0 B, temporary: 0 B, parameters: " + parameters + ", output: 0 B}\n";
  return test::scratch().write("layers-" + parameters.substr(0, parameters.find(' ')) + ".yaml", text);
}

std::string in_place(int devices, const std::string& more, const std::string& link = "{latency: 0 s, bandwidth: unlimited}") {
  return "panpipe: 1\ncluster: {devices: " + std::to_string(devices) + ", memory: 24 GiB, link: " + link + more + "}\n";
}

// Seconds of the step, estimated and simulated.
std::pair<double, double> steps_of(const std::string& yaml) {
  const Experiment experiment(parse_scenario(yaml, "test", "."));
  const Plan plan = experiment.plan("");
  const auto flow = [](const TaskGraph& graph, const Cluster& cluster) {
    return sim::simulate(graph, cluster, {sim::Backend::FlowSolver, true, true}, nullptr);
  };
  return {predict(experiment, plan).metrics.step_time_s, predict(experiment, plan, flow).metrics.step_time_s};
}

void expect_both(const std::string& yaml, double seconds) {
  const auto [estimated, simulated] = steps_of(yaml);
  EXPECT_NEAR(estimated, seconds, 1e-9);
  EXPECT_NEAR(simulated, seconds, 1e-9);
}

// 1F1B of 8 microbatches on two stages: the last stage never waits, so the step is its first input, its work, and the last
// backward of the first stage: 2 + 8 x 6 + 4 = 54 ms. At nine tenths of its rate its work takes 8 x 6 / 0.9 = 53.33 ms.
TEST(SlowDevice, DelaysAPipelineByItsStagesExtra) {
  const std::string rest = "workload: {layers: " + layers_file("0 B") +
                           "}\nbatch: {micro: 1, microbatches: 8}\nparallel: {pipeline: 2}\nschedule: 1f1b\npartition: [1]\n";
  expect_both(in_place(2, "") + rest, 54e-3);
  expect_both(in_place(2, ", slow: [{device: 1, factor: 0.9}]") + rest, (2 + 48 / 0.9 + 4) * 1e-3);
  expect_both(in_place(2, ", slow: [{device: 1, factor: 1.25}]") + rest, (2 + 48 * 1.25 + 4) * 1e-3);  // 1.25 times as long
  expect_both(in_place(2, ", slow: [{device: 1, factor: 1}]") + rest, 54e-3);
}

// At half of its rate the last stage works 96 ms for 48; 54 ms are left without it.
TEST(SlowDevice, IsBlamedForWhatItCosts) {
  const std::string rest = "workload: {layers: " + layers_file("0 B") +
                           "}\nbatch: {micro: 1, microbatches: 8}\nparallel: {pipeline: 2}\nschedule: 1f1b\npartition: [1]\n";
  const Experiment experiment(parse_scenario(in_place(2, ", slow: [{device: 1, factor: 0.5}]") + rest, "test", "."));
  const std::vector<Blame> blame = blame_of(experiment.scenario, experiment.plan(""));
  ASSERT_EQ(blame.size(), 1u);
  EXPECT_EQ(blame[0].what, "device 1 (rank 1)");
  EXPECT_DOUBLE_EQ(blame[0].share, 0.5);
  EXPECT_NEAR(blame[0].step.base(), 54e-3, 1e-9);
  EXPECT_NEAR(blame[0].lost.base(), 48e-3, 1e-9);
  // Each of two is compared with the other still there.
  const Experiment two(
      parse_scenario(in_place(2, ", slow: [{device: 0, factor: 0.5}, {device: 1, factor: 0.5}]") + rest, "test", "."));
  const std::vector<Blame> both = blame_of(two.scenario, two.plan(""));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_NEAR(both[0].step.base(), (2 + 96 + 4) * 1e-3, 1e-9);
  const Experiment sound(parse_scenario(in_place(2, "") + rest, "test", "."));
  EXPECT_TRUE(blame_of(sound.scenario, sound.plan("")).empty());
}

// Four replicas of 4 microbatches of 12 ms: they wait for the slow one, whichever it is, before gradients are summed.
TEST(SlowDevice, IsWhatReplicasWaitFor) {
  const std::string link = "{latency: 0 s, bandwidth: 10 GB/s}";
  const std::string rest = "workload: {layers: " + layers_file("100000000 B") +
                           "}\nbatch: {micro: 1, microbatches: 4}\nparallel: {pipeline: 1, data: 4}\n";
  const double sound = steps_of(in_place(4, "", link) + rest).first;
  for (const char* device : {"0", "2"}) {
    const auto [estimated, simulated] =
        steps_of(in_place(4, std::string(", slow: [{device: ") + device + ", factor: 0.8}]", link) + rest);
    EXPECT_NEAR(estimated - sound, 48e-3 * 0.25, 1e-9) << device;
    EXPECT_NEAR(simulated - sound, 48e-3 * 0.25, 1e-9) << device;
  }
}

// The same for devices with rates: compute takes longer, collectives and the host do not.
TEST(SlowDevice, SlowsItsComputeAlone) {
  const auto priced = [](const std::string& slow) {
    const Experiment experiment(parse_scenario("panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml" + slow + R"(}
workload: {model: gpt, layers: 4, hidden: 2048, heads: 16, vocabulary: 51200, sequence: 1024}
batch: {micro: 4, microbatches: 4}
precision: fp16
parallel: {pipeline: 1, tensor: 8}
)",
                                               "test", "."));
    const Plan plan = experiment.plan("");
    const int site = experiment.model.site_of(PassGroups(plan, plan.devices, 0, 0), Occupancy::of(experiment.scenario, plan));
    return std::pair(experiment.model.workload(site).units.at(2).forward.breakdown, site);
  };
  const auto [sound, first] = priced("");
  const auto [slow, other] = priced(", slow: [{device: 5, factor: 0.5}]");
  EXPECT_NE(first, other);
  EXPECT_NEAR(slow.compute.base(), 2 * sound.compute.base(), 1e-12);
  EXPECT_NEAR(slow.memory.base(), 2 * sound.memory.base(), 1e-12);
  EXPECT_NEAR(slow.communication.base(), sound.communication.base(), 1e-12);
  EXPECT_NEAR(slow.host.base(), sound.host.base(), 1e-12);
}

// A ring all-reduce of 100 MB of gradients over four devices at 10 GB/s sends 150 MB over each link: 15 ms, at half of one 30.
TEST(DegradedLink, HalvesTheRingThatCrossesIt) {
  const std::string link = "{latency: 0 s, bandwidth: 10 GB/s}";
  const auto ring = [&](const std::string& degraded) {
    const Experiment experiment(parse_scenario(in_place(4, degraded, link) + "workload: {layers: " + layers_file("0 B") +
                                                   "}\nbatch: {micro: 1, microbatches: 1}\nparallel: {pipeline: 1, data: 4}\n",
                                               "test", "."));
    return experiment.model.collective(CollectiveKind::AllReduce, Bytes(100'000'000), {0, 1, 2, 3}).time.base();
  };
  EXPECT_NEAR(ring(""), 15e-3, 1e-9);
  EXPECT_NEAR(ring(", degraded: [{link: [1, 2], factor: 0.5}]"), 30e-3, 1e-9);
  EXPECT_NEAR(ring(", degraded: [{link: link.device1-device2, factor: 2}]"), 30e-3, 1e-9);
  EXPECT_NEAR(ring(", degraded: [{link: [0, 2], factor: 0.5}]"), 15e-3, 1e-9);  // no hop of the ring
}

// The step of both engines grows by the same.
TEST(DegradedLink, IsTheSameInBothEngines) {
  const std::string link = "{latency: 0 s, bandwidth: 10 GB/s}";
  const std::string rest = "workload: {layers: " + layers_file("100000000 B") +
                           "}\nbatch: {micro: 1, microbatches: 4}\nparallel: {pipeline: 1, data: 4}\n";
  const auto [sound, simulated] = steps_of(in_place(4, "", link) + rest);
  EXPECT_NEAR(sound, simulated, 1e-9);
  const auto [slow, slow_simulated] = steps_of(in_place(4, ", degraded: [{link: [3, 0], factor: 0.5}]", link) + rest);
  EXPECT_GT(slow, sound + 1e-3);
  EXPECT_NEAR(slow, slow_simulated, 1e-9);
}

Cluster cluster_of(const std::string& keys) {
  return parse_scenario("panpipe: 1\ncluster: {file: clusters/h100x8.yaml, " + keys +
                            "}\nworkload: {model: gpt, layers: 2, hidden: 512, heads: 8}\nbatch: {micro: 1, microbatches: 1}\n",
                        "test", ".")
      .cluster;
}

std::vector<int> first(int devices) {
  std::vector<int> all;
  for (int i = 0; i < devices; ++i) all.push_back(i);
  return all;
}

// Two nodes with eight adapters of 50 GB/s: a ring over all leaves a node over eight, and is as fast as eight times the slowest.
TEST(DegradedLink, OfAnAdapterSlowsTheRingsThatUseIt) {
  const Cluster cluster = cluster_of("nodes: 2, degraded: [{link: node1.nic3, factor: 0.5}]");
  const Occupancy all(cluster, {.data = 16}, first(16));
  EXPECT_DOUBLE_EQ(all.network_of(first(16)).ring, 8 * 25e9);
  const Occupancy pairs(cluster, {.tensor = 8, .data = 2}, first(16));
  EXPECT_DOUBLE_EQ(pairs.network_of({3, 11}).ring, 25e9);
  EXPECT_DOUBLE_EQ(cluster.route(4, 12).bandwidth.base(), 50e9);
  EXPECT_DOUBLE_EQ(cluster.route(3, 11).bandwidth.base(), 25e9);
  EXPECT_DOUBLE_EQ(cluster.node_of(8).network.base(), 375e9);
  EXPECT_DOUBLE_EQ(cluster.node_of(0).network.base(), 400e9);
}

TEST(DegradedLink, OfASwitchPortSlowsTheNodesFabric) {
  const Cluster cluster = cluster_of("degraded: [{link: node0.gpu3.switch.out, factor: 0.5}]");
  EXPECT_DOUBLE_EQ(cluster.fabric_bandwidth.base(), 225e9);
  EXPECT_DOUBLE_EQ(cluster.route(3, 4).bandwidth.base(), 225e9);
  EXPECT_DOUBLE_EQ(cluster.route(4, 3).bandwidth.base(), 450e9);
}

// Four nodes, adapters of 50 GB/s, oversubscription 8: the switches of a rail send 4 x 50 / 8 = 25 GB/s to the spine.
const char* const kRails = "nodes: 4, network: {rails: true, oversubscription: 8}";

std::vector<std::string> ways(const Cluster& cluster, int from, int to) {
  std::vector<std::string> names;
  for (const Hop& hop : cluster.route(from, to).hops)
    names.push_back(cluster.resources[static_cast<std::size_t>(hop.resource)].name);
  return names;
}

TEST(Rails, TrafficOfOneRailStaysBelowItsSwitches) {
  const Cluster cluster = cluster_of(kRails);
  EXPECT_THAT(ways(cluster, 3, 11), testing::ElementsAre("node0.nic3.out", "node1.nic3.in"));
  EXPECT_THAT(ways(cluster, 3, 12), testing::ElementsAre("node0.nic3.out", "rail3.up", "rail4.down", "node1.nic4.in"));
  EXPECT_DOUBLE_EQ(cluster.route(3, 11).bandwidth.base(), 50e9);
  EXPECT_DOUBLE_EQ(cluster.route(3, 12).bandwidth.base(), 25e9);
  EXPECT_DOUBLE_EQ(cluster.node_of(0).network.base(), 400e9);
  const Cluster tree = cluster_of("nodes: 4, network: {oversubscription: 8}");
  EXPECT_THAT(ways(tree, 3, 11), testing::ElementsAre("node0.nic3.out", "node0.uplink.out", "node1.nic3.in", "node1.uplink.in"));
  const Cluster spine = cluster_of("nodes: 2, network: {rails: true, spine: 10 GB/s}");
  EXPECT_THAT(ways(spine, 0, 8), testing::ElementsAre("node0.nic0.out", "node1.nic0.in"));
  EXPECT_THAT(ways(spine, 0, 9), testing::ElementsAre("node0.nic0.out", "spine", "node1.nic1.in"));
}

// A pair on one rail has its adapters to itself. On two, its two hops share a spine of 10 GB/s.
TEST(Rails, OnlyRingsBetweenRailsShareTheSpine) {
  const Cluster cluster = cluster_of("nodes: 2, network: {rails: true, spine: 10 GB/s}");
  EXPECT_DOUBLE_EQ(Occupancy(cluster, {.data = 2}, {0, 8}).network_of({0, 8}).ring, 50e9);
  EXPECT_DOUBLE_EQ(Occupancy(cluster, {.data = 2}, {0, 9}).network_of({0, 9}).ring, 5e9);
  // A ring over whole nodes uses each adapter on its own rail.
  EXPECT_DOUBLE_EQ(Occupancy(cluster, {.data = 16}, first(16)).network_of(first(16)).ring, 400e9);
  // Each of 16 members sends to seven of eight others on other rails: 112 pairs over the spine, where a node's share is 64.
  EXPECT_DOUBLE_EQ(Occupancy(cluster, {.data = 16}, first(16)).network_of(first(16)).peers, 64 * 10e9 / 112);
}

// Replicas on all of four nodes sum on their rails: neither oversubscription nor a spine delays them, as both do in a tree.
TEST(Rails, DataParallelStepsAreThoseOfATreeThatNeverBlocks) {
  const auto step = [](const std::string& network) {
    return steps_of("panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 4, network: {" + network + R"(}}
workload: {model: gpt, layers: 2, hidden: 2048, heads: 16, sequence: 2048}
batch: {micro: 1, microbatches: 2}
precision: bf16
parallel: {pipeline: 1, data: 32}
framework: eager
)");
  };
  const auto [free, free_simulated] = step("oversubscription: 1");
  EXPECT_NEAR(free, free_simulated, 1e-6);
  for (const char* network : {"rails: true, oversubscription: 16", "rails: true, spine: 20 GB/s"}) {
    const auto [estimated, simulated] = step(network);
    EXPECT_NEAR(estimated, free, 1e-9) << network;
    EXPECT_NEAR(simulated, free, 1e-6) << network;
  }
  EXPECT_GT(step("oversubscription: 16").first, 1.1 * free);
}

// The second stage lies on the next node. On the same rail a hand-over has its adapter, on the next the 2 GB/s of a spine.
TEST(Rails, HandOversBetweenRailsCrossTheSpine) {
  const auto transfer = [](const std::string& placement, const std::string& network) {
    const Experiment experiment(parse_scenario("panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 2, network: {" +
                                                   network +
                                                   R"(}}
workload: {model: gpt, layers: 4, hidden: 2048, heads: 16, sequence: 2048}
batch: {micro: 1, microbatches: 1}
parallel: {pipeline: 2}
placement: )" + placement + "\n",
                                               "test", "."));
    const auto& devices = *experiment.scenario.placement;
    return experiment.model.transfer(devices[0], devices[1], Bytes(1 << 30), experiment.scenario.degrees);
  };
  const TransferCost same = transfer("[0, 8]", "rails: true, spine: 2 GB/s"),
                     next = transfer("[0, 9]", "rails: true, spine: 2 GB/s");
  const TransferCost alone = transfer("[0, 9]", "oversubscription: 1");
  EXPECT_DOUBLE_EQ(same.time.base(), alone.time.base());
  EXPECT_NEAR((next.time - next.latency).base(), 25 * (same.time - same.latency).base(), 1e-9);
}

}  // namespace
}  // namespace panpipe
