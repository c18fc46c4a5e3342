// Replicas, groups and hand-overs that are not alike: each is priced where it lies, in both engines.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "costmodel/cost/occupancy.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "sim/simulate.hpp"

namespace panpipe {
namespace {

const char* const kUnlikeNodes = R"(panpipe: 1
cluster:
  groups:
  - {device: devices/a100-80g-sxm.yaml, nodes: 1, devices_per_node: 4, wiring: {switch: {bandwidth: 300 GB/s, latency: 2 us}}}
  - {device: devices/rtx-3090.yaml, nodes: 1, devices_per_node: 4, wiring: {pcie: {bandwidth: 25 GB/s}, host: {copy: 11.2 GB/s, both_ways: 16.6 GB/s, memory: 204.8 GB/s, latency: 15.2 us}}}
  network: {nics_per_node: 1, bandwidth: 12.5 GB/s, latency: 5 us}
workload: {model: gpt, layers: 8, hidden: 2048, heads: 16, vocabulary: 51200, sequence: 1024}
batch: {micro: 4, microbatches: 4}
precision: fp16
schedule: 1f1b
framework: eager
)";

TaskGraph lowered(const std::string& yaml) {
  const Experiment experiment(parse_scenario(yaml, "test", "."));
  return lower(experiment.scenario, experiment.plan(""), experiment.model);
}

struct Both {
  Prediction estimated, simulated;
};

Both predict_both(const std::string& yaml) {
  const Experiment experiment(parse_scenario(yaml, "test", "."));
  const Plan plan = experiment.plan("");
  return {predict(experiment, plan), predict(experiment, plan, [](const TaskGraph& graph, const Cluster& cluster) {
            return sim::simulate(graph, cluster, {sim::Backend::FlowSolver, true, true}, nullptr);
          })};
}

const DeviceMetrics& device(const Prediction& prediction, int number) {
  const auto& rows = prediction.metrics.per_device;
  return *std::find_if(rows.begin(), rows.end(), [&](const DeviceMetrics& row) { return row.device == number; });
}

TEST(UnlikeReplicas, EachTakesTheTimeOfItsOwnDevices) {
  const std::string yaml = std::string(kUnlikeNodes) + "parallel: {pipeline: 1, tensor: 4, data: 2}\n";
  const Both here = predict_both(yaml), there = predict_both(yaml + "placement: [4, 5, 6, 7, 0, 1, 2, 3]\n");
  EXPECT_DOUBLE_EQ(here.estimated.metrics.step_time_s, there.estimated.metrics.step_time_s);
  EXPECT_NEAR(here.simulated.metrics.step_time_s, here.estimated.metrics.step_time_s, 1e-6);
  // An A100 computes less long than an RTX 3090, and waits for it before gradients are summed.
  EXPECT_LT(device(here.estimated, 0).compute_s, 0.6 * device(here.estimated, 4).compute_s);
  EXPECT_GT(device(here.estimated, 0).exposed_communication_s, 0);
  // The 3090s alone, with the same reduction behind them, are what the step waits for.
  EXPECT_GT(here.estimated.metrics.step_time_s, device(here.estimated, 4).compute_s);
}

TEST(UnlikeReplicas, EachDeviceIsHeldAgainstItsOwnMemory) {
  const std::string yaml = std::string(kUnlikeNodes) + "parallel: {pipeline: 1, tensor: 4, data: 2}\n";
  for (const char* placement : {"", "placement: [4, 5, 6, 7, 0, 1, 2, 3]\n"}) {
    const Both both = predict_both(yaml + placement);
    for (const Prediction* prediction : {&both.estimated, &both.simulated})
      for (const DeviceMetrics& row : prediction->metrics.per_device)
        EXPECT_LT(std::abs(row.memory_limit_bytes / (1 << 30) - (row.device < 4 ? 79.2 : 23.7)), 1.0) << row.device;
  }
  // Far more than 24 GiB: the A100s hold it, the 3090s do not, whichever comes first.
  for (const char* placement : {"", "placement: [4, 5, 6, 7, 0, 1, 2, 3]\n"}) {
    std::string large = yaml + placement;
    large.replace(large.find("micro: 4,"), 9, "micro: 48,");
    const Both both = predict_both(large);
    EXPECT_FALSE(both.estimated.metrics.fits);
    EXPECT_TRUE(device(both.estimated, 0).fits);
    EXPECT_FALSE(device(both.estimated, 4).fits);
    EXPECT_GT(both.estimated.metrics.memory_share, 1);
  }
}

// Four A100 of 312 and four RTX 3090 of 71 TFLOP/s: MFU is of the sum of the peaks.
TEST(UnlikeReplicas, FlopsAreHeldAgainstTheSumOfPeaks) {
  const Both both = predict_both(std::string(kUnlikeNodes) + "parallel: {pipeline: 1, tensor: 4, data: 2}\n");
  const Metrics& m = both.estimated.metrics;
  EXPECT_NEAR(m.mfu * m.step_time_s * 4 * (312e12 + 71e12), m.model_flops, 0.01 * m.model_flops);
}

// ZeRO 1 to 3 and hand-overs work among replicas that have ranks of their own.
TEST(UnlikeReplicas, EveryReductionAndScheduleJoins) {
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
    for (const char* zero : {"0", "1", "2", "3"}) {
      std::string yaml = std::string(kUnlikeNodes) + "parallel: {pipeline: 2, tensor: 2, data: 2, zero: " + zero + "}\n" +
                         "placement: [0, 1, 4, 5, 2, 3, 6, 7]\n";
      yaml.replace(yaml.find("schedule: 1f1b"), 14, std::string("schedule: ") + schedule);
      const Both both = predict_both(yaml);
      EXPECT_GE(both.simulated.metrics.step_time_s, both.estimated.metrics.step_time_s * (1 - 1e-9)) << schedule << zero;
      EXPECT_EQ(both.estimated.timeline.devices.size(), 8U);
      std::map<int, int> ranks;
      for (const DeviceTimeline& row : both.estimated.timeline.devices) ++ranks[row.rank];
      EXPECT_EQ(ranks, (std::map<int, int>{{0, 4}, {1, 4}}));
    }
}

// Replica 2 of three hands over between nodes, the others inside one. No two of them meet on a link.
TEST(UnlikeReplicas, HandOversAreThoseOfEachReplica) {
  const Both both = predict_both(R"(panpipe: 1
cluster: {file: clusters/dgx-a100-80g.yaml, nodes: 2}
workload: {model: gpt, layers: 2, hidden: 512, heads: 8}
batch: {micro: 1, microbatches: 1}
parallel: {pipeline: 3, data: 3}
schedule: zb-v
)");
  EXPECT_NEAR(both.estimated.metrics.step_time_s, both.simulated.metrics.step_time_s, 1e-9);
}

double step_of(const std::string& yaml) { return predict_both(yaml).estimated.metrics.step_time_s; }

// Time of the tensor-parallel collectives that a rank's passes wait for, on idle links.
double waits_of_rank(const std::string& yaml, int rank) {
  const TaskGraph graph = lowered(yaml);
  double sum = 0;
  for (const Task& task : graph.tasks)
    if (task.rank == rank && task.kind == TaskKind::Pass)
      sum += to_duration(graph.programs[task.program].exposed_communication).base();
  return sum;
}

// Whichever rank is on the PCIe node, its all-reduces cost what PCIe carries: 11 GB/s where NVSwitch reaches more than 200.
TEST(TensorGroups, ArePricedOnTheirOwnDevices) {
  const std::string yaml = std::string(kUnlikeNodes) + "parallel: {pipeline: 2, tensor: 4}\npartition: [9]\n";
  const std::string swapped = yaml + "placement: [4, 5, 6, 7, 0, 1, 2, 3]\n";
  EXPECT_GT(waits_of_rank(yaml, 1), 10 * waits_of_rank(yaml, 0));
  EXPECT_GT(waits_of_rank(swapped, 0), 10 * waits_of_rank(swapped, 1));
}

// Three ranks of three on nodes of 8: the group that lies across nodes is slower than all three inside one, whichever rank it is.
TEST(TensorGroups, OneAcrossNodesIsSlowerThanInside) {
  const std::string yaml = R"(panpipe: 1
cluster: {file: clusters/dgx-a100-80g.yaml, nodes: 2}
workload: {model: gpt, layers: 12, hidden: 3072, heads: 24, vocabulary: 51200, sequence: 2048}
batch: {micro: 1, microbatches: 8}
precision: fp16
parallel: {pipeline: 3, tensor: 3}
schedule: 1f1b
)";
  const double inside = step_of(yaml + "placement: [0, 1, 2, 3, 4, 5, 8, 9, 10]\n");
  EXPECT_GT(step_of(yaml), inside);                                               // rank 2 on 6, 7, 8
  EXPECT_GT(step_of(yaml + "placement: [6, 7, 8, 0, 1, 2, 3, 4, 5]\n"), inside);  // rank 0 there
}

// A pair over a bridge, and a pair of two sockets.
TEST(TensorGroups, AcrossSocketsAreSlowerThanOverBridges) {
  const std::string yaml = R"(panpipe: 1
cluster: clusters/rtx3090x8.yaml
workload: {model: gpt, layers: 8, hidden: 1024, heads: 16, vocabulary: 51200, sequence: 1024}
batch: {micro: 1, microbatches: 8}
precision: fp16
parallel: {pipeline: 4, tensor: 2}
schedule: 1f1b
framework: eager
)";
  const Both across = predict_both(yaml + "placement: [0, 1, 2, 4, 3, 5, 6, 7]\n");
  const Both bridged = predict_both(yaml + "placement: [0, 1, 2, 3, 4, 5, 6, 7]\n");
  EXPECT_GT(device(across.estimated, 2).exposed_communication_s, 2 * device(bridged.estimated, 2).exposed_communication_s);
  EXPECT_GT(across.simulated.metrics.step_time_s, bridged.simulated.metrics.step_time_s);
}

// 64 replicas on 8 nodes of 8 NICs of 25 GB/s. A node's uplink carries 200 / k GB/s; with NICs of 25 / k it carries the same.
TEST(Collectives, CrossTheUplinksOfTheirNodes) {
  const auto yaml = [](const std::string& network) {
    return R"(panpipe: 1
cluster: {file: clusters/dgx-a100-80g.yaml, nodes: 8, network: {)" +
           network + R"(}}
workload: {model: gpt, layers: 2, hidden: 2048, heads: 16, sequence: 2048}
batch: {micro: 1, microbatches: 2}
precision: fp16
parallel: {pipeline: 1, data: 64}
framework: eager
)";
  };
  double before = step_of(yaml("oversubscription: 1"));
  for (const auto& [oversubscription, nic] : {std::pair("8", "3.125 GB/s"), std::pair("64", "0.390625 GB/s")}) {
    const Both uplink = predict_both(yaml(std::string("oversubscription: ") + oversubscription));
    EXPECT_DOUBLE_EQ(uplink.estimated.metrics.step_time_s, step_of(yaml(std::string("bandwidth: ") + nic)));
    EXPECT_GT(uplink.estimated.metrics.step_time_s, before);
    EXPECT_NEAR(uplink.simulated.metrics.step_time_s, uplink.estimated.metrics.step_time_s, 1e-6)
        << "nothing else is on the links";
    before = uplink.estimated.metrics.step_time_s;
  }
  // A ring over 8 nodes crosses the spine 8 times: 200 GB/s there are 25 GB/s a hop, as with uplinks of 25 GB/s.
  const Both spine = predict_both(yaml("spine: 200 GB/s"));
  EXPECT_GT(spine.estimated.metrics.step_time_s, step_of(yaml("oversubscription: 1")));
  EXPECT_NEAR(spine.simulated.metrics.step_time_s, spine.estimated.metrics.step_time_s, 1e-6);
}

// One replica a node: each sends over its own NIC of 25 GB/s, though seven others of its node idle. Two nodes: a byte is sent
// once.
TEST(Collectives, AMemberHasItsOwnNic) {
  const Experiment experiment(parse_scenario(R"(panpipe: 1
cluster: {file: clusters/dgx-a100-80g.yaml, nodes: 2}
workload: {model: gpt, layers: 2, hidden: 2048, heads: 16, sequence: 2048}
batch: {micro: 1, microbatches: 1}
parallel: {pipeline: 1, data: 2}
placement: [0, 8]
)",
                                             "test", "."));
  const Occupancy occupancy = Occupancy::of(experiment.scenario, experiment.scenario.degrees);
  EXPECT_DOUBLE_EQ(occupancy.network_of({0, 8}).ring, 25e9);
}

// Nodes without a rank change nothing.
TEST(Collectives, IdleNodesChangeNothing) {
  const auto yaml = [](int nodes) {
    return "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, nodes: " + std::to_string(nodes) + R"(}
workload: {model: gpt, layers: 16, hidden: 1024, heads: 16, vocabulary: 8192, sequence: 1024}
batch: {micro: 4, microbatches: 16}
precision: fp16
parallel: {pipeline: 4, data: 1, tensor: 2}
schedule: 1f1b
framework: eager
)";
  };
  EXPECT_DOUBLE_EQ(step_of(yaml(1)), step_of(yaml(64)));
}

// Each replica has nodes of its own, and one device of each sends: it has the way out of its node to itself, as with one replica.
TEST(Transfers, ShareTheWayOutOnlyWithWhoIsThere) {
  const std::string head = R"(panpipe: 1
cluster: {file: clusters/rtx3090x8.yaml, nodes: 4, network: {nics_per_node: 1, bandwidth: 5 GB/s}}
workload: {model: gpt, layers: 16, hidden: 1024, heads: 16, vocabulary: 8192, sequence: 1024}
batch: {micro: 4, microbatches: 16}
precision: fp16
schedule: 1f1b
framework: eager
)";
  const auto hand_over = [](const std::string& yaml) {
    const TaskGraph graph = lowered(yaml);
    double slowest = 0;
    for (const TransferLink& link : graph.links)
      if (link.cost.path == PathClass::Network) slowest = std::max(slowest, link.cost.time.base());
    return slowest;
  };
  const double one =
      hand_over(head + "parallel: {pipeline: 16}\nplacement: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]\n");
  const double apart =
      hand_over(head +
                "parallel: {pipeline: 16, data: 2}\nplacement: [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, "
                "7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31]\n");
  // Side by side both replicas' seventh ranks send from one node, over one NIC.
  const double beside = hand_over(head + "parallel: {pipeline: 16, data: 2}\n");
  EXPECT_DOUBLE_EQ(apart, one);
  EXPECT_GT(beside, 1.5 * one);
}

}  // namespace
}  // namespace panpipe
