// NCCL's model against measurements and its own laws; measured tables in its place.
#include "costmodel/cost/nccl_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "costmodel/cluster/collective_tables.hpp"
#include "costmodel/cost/measured_collective.hpp"
#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

constexpr double kLaunch = 25e-6;

std::vector<int> all(int n) {
  std::vector<int> devices(n);
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::unique_ptr<Made> on(const std::string& cluster) {
  return make(fmt::format(R"(panpipe: 1
cluster: {}
workload: {{model: gpt, layers: 16, hidden: 512, heads: 8, sequence: 128, vocabulary: 1024}}
batch: {{micro: 1, microbatches: 16}}
precision: fp16
)",
                          cluster));
}

// A node of eight behind a switch; network as the group's share of the way out.
NcclGroup group(int nodes, int in_node, double fabric, double network, double hop = 5e-6, double post = 1e-6) {
  NcclGroup g;
  g.nodes = nodes;
  g.in_node = in_node;
  g.members = nodes * in_node;
  g.fabric = fabric;
  g.reduced = 0.75 * fabric;
  g.network = network;
  g.hop = hop;
  g.post = post;
  return g;
}

// 1 GB over 4 nodes of 8 at 368 GB/s inside and 346 out of a node. Summed in the network's switches a node sends every byte once,
// 1e9 / 346e9 = 2.89 ms, while rings in the node carry 2 x 7/8 of them, 4.76 ms; with multicast 1e9 / 276e9 = 3.62 ms. A ring
// over all sends 2 x 31/32 of them at 346: 5.60 ms.
TEST(NcclModel, SwitchesOfTheNetworkSumEveryByteOnce) {
  NcclGroup g = group(4, 8, 368e9, 346e9);
  const double bytes = 1e9, alone = nccl_collective(CollectiveKind::AllReduce, bytes, g).time;
  g.sharp = true;
  const NcclCollective tree = nccl_collective(CollectiveKind::AllReduce, bytes, g);
  EXPECT_LT(tree.time, alone);
  EXPECT_NEAR(tree.latency, 8.4e-6 + 14 * 3.4e-6 + 31e-6, 1e-12);
  EXPECT_NEAR(tree.time - tree.latency, 2 * 7.0 / 8 * bytes / 368e9, 1e-12);
  EXPECT_DOUBLE_EQ(tree.wire, bytes);
  g.multicast = true;
  const NcclCollective nvls = nccl_collective(CollectiveKind::AllReduce, bytes, g);
  EXPECT_EQ(nvls.algorithm, Algorithm::Nvls);
  EXPECT_NEAR(nvls.time - nvls.latency, bytes / (0.75 * 368e9), 1e-12);
  // Nothing to sum in others, and no switch of the network within a node.
  EXPECT_EQ(nccl_collective(CollectiveKind::AllGather, bytes, g).algorithm, Algorithm::Ring);
  NcclGroup inside = group(1, 8, 368e9, 0);
  const double before = nccl_collective(CollectiveKind::AllReduce, bytes, inside).time;
  inside.sharp = true;
  EXPECT_DOUBLE_EQ(nccl_collective(CollectiveKind::AllReduce, bytes, inside).time, before);
}

// Switches of the fifth NVLink reduce at 0.74 / 0.85 of what a ring's rate makes on the fourth. Bus bandwidth of large
// all-reduces: 811 GB/s on 8 GB200 (lixueduan.com), 839 on 72 (coreweave/nccl-tests pull request 43), 480 on 8 H200. Rings: 680
// on 4 GB200 (Azure/AI-benchmarking-guide).
TEST(NcclModel, BlackwellsSwitchesReduceLess) {
  const auto bus = [](const std::string& cluster, CollectiveKind kind, int members) {
    const double bytes = 4.0 * (1LL << 30), share = (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * (members - 1) / members;
    return share * bytes / on(cluster)->model->collective(kind, Bytes(4LL << 30), all(members)).time.base() / 1e9;
  };
  EXPECT_NEAR(bus("clusters/gb200-nvl72.yaml", CollectiveKind::AllReduce, 8) / 811, 1, 0.03);
  EXPECT_NEAR(bus("clusters/gb200-nvl72.yaml", CollectiveKind::AllReduce, 72) / 839, 1, 0.12);
  EXPECT_NEAR(bus("clusters/gb200-nvl72.yaml", CollectiveKind::AllGather, 4) / 680, 1, 0.04);
  EXPECT_NEAR(bus("clusters/h200x8.yaml", CollectiveKind::AllReduce, 8) / 480, 1, 0.02);
}

// All-to-all of 8 MiB over 8 nodes of 8: 8.4 us + one round of 7 peers inside (3.4 us) + seven rounds of 8 outside (14 us each);
// of every member's 8 MiB 56/64 leave the node, by its eighth of the way out: 7.34 MB at 43.3 GB/s. With the launch 305.5 us;
// measured on H800 296 to 338 us (NVIDIA/nccl issue 1531). Large ones run at N / (N - 1) of the network (NVIDIA/nccl-tests issue
// 130).
TEST(NcclModel, AllToAllGoesByPeers) {
  const double nic = 43.3e9, bytes = 8 << 20;
  const NcclCollective c = nccl_collective(CollectiveKind::AllToAll, bytes, group(8, 8, 150e9, 8 * nic));
  EXPECT_EQ(c.algorithm, Algorithm::Peers);
  EXPECT_NEAR(c.latency, 8.4e-6 + 3.4e-6 + 7 * 14e-6, 1e-12);
  EXPECT_NEAR(c.time, c.latency + bytes * 56 / 64 / nic, 1e-12);
  EXPECT_GT(kLaunch + c.time, 296e-6);
  EXPECT_LT(kLaunch + c.time, 338e-6);
  const NcclCollective large = nccl_collective(CollectiveKind::AllToAll, 1e12, group(8, 8, 400e9, 8 * nic));
  EXPECT_NEAR(large.wire / large.time, nic * 63 / 56, 1e-4 * nic);
}

// A step of a ring between nodes of one member each: 8.4 + 14 us and its bytes.
TEST(NcclModel, AHopIsAStepOfARing) {
  NcclGroup g = group(2, 1, 150e9, 43.3e9);
  g.member = 43.3e9;
  const NcclCollective c = nccl_collective(CollectiveKind::SendReceive, 64e6, g);
  EXPECT_NEAR(c.wire, 64e6, 0);
  EXPECT_NEAR(c.time, 8.4e-6 + 14e-6 + 64e6 / 43.3e9, 1e-12);
}

// By hand, 8 on a node of 230 GB/s. 1 KiB by LL: 6.6 + 14 x 0.6 us; 4 MiB by LL128: 14 + 14 x 1.9 us and 0.92 of the rate; 1 GiB
// by the simple protocol: 8.4 + 14 x 3.4 us.
TEST(NcclModel, ChoosesTheProtocolBySize) {
  const NcclGroup g = group(1, 8, 230e9, 0);
  const auto check = [&](double bytes, Protocol protocol, double latency, double rate) {
    const NcclCollective c = nccl_collective(CollectiveKind::AllReduce, bytes, g);
    EXPECT_EQ(c.algorithm, Algorithm::Ring);
    EXPECT_EQ(c.protocol, protocol);
    EXPECT_NEAR(c.latency, latency, 1e-12);
    EXPECT_NEAR(c.time, latency + 1.75 * bytes / rate, 1e-12);
  };
  check(1024, Protocol::LL, 15.0e-6, 0.37 * 230e9);
  check(4 << 20, Protocol::LL128, 40.6e-6, 0.92 * 230e9);
  check(1 << 30, Protocol::Simple, 56.0e-6, 230e9);
  // Over PCIe there is no LL128, and a step of the simple protocol is 5.7 us.
  NcclGroup pcie = group(1, 8, 10e9, 0);
  pcie.nvlink = false;
  EXPECT_NEAR(nccl_collective(CollectiveKind::AllGather, 1 << 30, pcie).latency, (8.4 + 7 * 5.7) * 1e-6, 1e-12);
  EXPECT_NE(nccl_collective(CollectiveKind::AllReduce, 4 << 20, pcie).protocol, Protocol::LL128);
}

// Sixteen nodes of eight on EFA (75 us beyond NCCL's own network, posts of 2 us), all-gather of 8 GiB by the simple protocol:
// 8.4 + 112 steps x 3 x 2 us + 15 x (14 + 2 x 70) us.
TEST(NcclModel, StepsBetweenNodesAddUp) {
  const NcclGroup g = group(16, 8, 368e9, 346e9, 75e-6, 2e-6);
  const double bytes = 8.0 * (1LL << 30);
  const NcclCollective c = nccl_collective(CollectiveKind::AllGather, bytes, g);
  EXPECT_EQ(c.protocol, Protocol::Simple);
  EXPECT_NEAR(c.latency, (8.4 + 112 * 6 + 15 * (14 + 140)) * 1e-6, 1e-12);
  // Small all-reduces go up and down the tree: log2 16 levels.
  const NcclCollective small = nccl_collective(CollectiveKind::AllReduce, 1024, g);
  EXPECT_EQ(small.algorithm, Algorithm::Tree);
  EXPECT_EQ(small.protocol, Protocol::LL);
  EXPECT_NEAR(small.latency, (6.8 + 2 * (7 * 0.6 + 4 * (5 + 70))) * 1e-6, 1e-12);
}

// Figures that had no part in any constant: nccl-tests on 8 A100 (stas00/ml-engineering) from 32 KiB to 8 MiB, and vTrain's
// all-reduce of 1 and 4 MiB on 2, 4, 8 A100.
TEST(NcclModel, SmallMessagesOnA100) {
  const auto made = on("{file: clusters/dgx-a100-80g.yaml, nodes: 1}");
  struct Row {
    int members;
    std::int64_t bytes;
    double micros;
  };
  const Row rows[] = {{8, 32768, 43.8},    {8, 65536, 46.8},    {8, 131072, 51.8},   {8, 262144, 61.4},   {8, 524288, 80.4},
                      {8, 1048576, 101.9}, {8, 2097152, 101.4}, {8, 4194304, 101.5}, {8, 8388608, 133.5}, {2, 1 << 20, 44.2},
                      {2, 4 << 20, 61.2},  {4, 1 << 20, 51.4},  {4, 4 << 20, 77.3},  {8, 1 << 20, 92.8},  {8, 4 << 20, 95.8}};
  double sum = 0;
  for (const Row& row : rows) {
    const double time = made->model->collective(CollectiveKind::AllReduce, Bytes(row.bytes), all(row.members)).time.base() * 1e6;
    EXPECT_NEAR(time / row.micros, 1, 0.40) << row.members << " x " << row.bytes;
    sum += std::fabs(time / row.micros - 1);
  }
  EXPECT_LT(sum / std::size(rows), 0.16);
}

// p5.48xlarge, 2 to 32 nodes, 32 MiB to 8 GiB: the model without the table, that no constant was found on. Mean errors, and the
// worst.
TEST(NcclModel, LargeGroupsOnEfa) {
  const auto made = on("{file: clusters/aws-p5.yaml, nodes: 32}");
  const Cluster& cluster = made->scenario.cluster;
  std::map<std::string, std::vector<double>> errors;
  for (const CollectiveTable& table : cluster.collectives->tables) {
    NcclGroup g = group(table.nodes, 8, 0.817 * 450e9, 0.866 * 400e9, 75e-6, 2e-6);
    g.multicast = true;
    const CollectiveKind kind = table.kind == "all_reduce" ? CollectiveKind::AllReduce : CollectiveKind::AllGather;
    for (const auto& [size, time] : table.times.points)
      errors[table.kind].push_back((kLaunch + nccl_collective(kind, static_cast<double>(size.base()), g).time) / time.base() - 1);
  }
  for (const auto& [kind, of_kind] : errors) {
    double mean = 0;
    for (const double error : of_kind) {
      mean += std::fabs(error) / static_cast<double>(of_kind.size());
      EXPECT_LT(std::fabs(error), 0.40) << kind;
    }
    EXPECT_LT(mean, 0.13) << kind;
  }
  EXPECT_EQ(errors["all_reduce"].size(), 45U);
  EXPECT_EQ(errors["all_gather"].size(), 35U);
}

// 1 KiB to 64 GiB, 2 to 1024 ranks: time grows with the size and with the nodes, no byte is faster than the wire, and an
// all-reduce in one node takes no less than the reduce-scatter that it begins with.
TEST(NcclModel, LawsFromOneKibToManyGib) {
  for (const bool multicast : {false, true})
    for (const int in_node : {1, 2, 8}) {
      std::map<std::pair<int, std::int64_t>, double> fewer;
      for (const int nodes : {1, 2, 4, 16, 128}) {
        if (nodes * in_node < 2) continue;
        NcclGroup g = group(nodes, in_node, 230e9, 25e9 * in_node);
        g.multicast = multicast;
        std::map<CollectiveKind, double> before;
        for (std::int64_t bytes = 1024; bytes <= (64LL << 30); bytes += bytes / 4) {
          std::map<CollectiveKind, double> now;
          for (const CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter}) {
            const NcclCollective c = nccl_collective(kind, static_cast<double>(bytes), g);
            EXPECT_GT(c.time, before[kind]) << nodes << " x " << in_node << ", " << bytes;
            EXPECT_GE(c.time, c.latency);
            // Out of a node goes at least what the others lack.
            const double out = nodes > 1 ? static_cast<double>(bytes) * (nodes - 1) / nodes / g.network : 0;
            EXPECT_GT(c.time, out);
            now[kind] = before[kind] = c.time;
            double& small = fewer[{static_cast<int>(kind), bytes}];
            if (nodes > 2) {
              EXPECT_GT(c.time, small * 0.999) << nodes << " x " << in_node << ", " << bytes;
            }
            small = c.time;
          }
          if (nodes == 1 && !multicast) {
            EXPECT_GT(now[CollectiveKind::AllReduce], now[CollectiveKind::ReduceScatter]);
          }
        }
      }
    }
}

// The planner's bounds (planner/auto/links.hpp) draw chords between these sizes.
TEST(NcclModel, ChordsHardlyExceedIt) {
  const double sizes[] = {1, 1 << 20, 16 << 20, 128 << 20, 1 << 30, 8.0 * (1LL << 30), 128.0 * (1LL << 30)};
  for (const int in_node : {1, 2, 8})
    for (const int nodes : {1, 2, 4, 64})
      for (const double network : {10e9, 43e9, 173e9, 346e9}) {
        if (nodes * in_node < 2) continue;
        for (const CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter}) {
          const auto time = [&](double bytes) {
            return kLaunch + nccl_collective(kind, bytes, group(nodes, in_node, 226e9, network)).time;
          };
          for (std::size_t i = 1; i < std::size(sizes); ++i)
            for (int part = 1; part < 16; ++part) {
              const double low = sizes[i - 1], high = sizes[i], bytes = low * std::pow(high / low, part / 16.0);
              const double chord = time(low) + (time(high) - time(low)) * (bytes - low) / (high - low);
              EXPECT_LT(chord, time(bytes) * (nodes > 1 && kind == CollectiveKind::AllReduce ? 1.04 : 1.000001))
                  << nodes << " x " << in_node << " at " << bytes;
            }
        }
      }
}

CollectiveTables tables(const std::string& rows) { return parse_collective_tables("tables: [" + rows + "]\n", "t.yaml"); }

const MeasuredWhere kWhere{kLaunch, [](int nodes, int in_node) { return group(nodes, in_node, 368e9, 346e9 * in_node / 8); }};

std::optional<MeasuredCollective> measured(const CollectiveTables& t, CollectiveKind kind, double bytes, const NcclGroup& g) {
  return measured_collective(t, kind, bytes, g, kLaunch, kWhere);
}

double modelled(CollectiveKind kind, double bytes, const NcclGroup& g) { return kLaunch + nccl_collective(kind, bytes, g).time; }

TEST(MeasuredCollective, IsTheTableWhereItWasMeasured) {
  const CollectiveTables t =
      tables("{kind: all_reduce, ranks: 32, nodes: 4, table: [[1 MiB, 300 us], [4 MiB, 600 us], [1 GiB, 9 ms]]}");
  const NcclGroup g = group(4, 8, 368e9, 346e9);
  const auto at = [&](double bytes) { return *measured(t, CollectiveKind::AllReduce, bytes, g); };
  EXPECT_NEAR(at(1 << 20).time, 300e-6, 1e-12);
  EXPECT_NEAR(at(2 << 20).time, std::sqrt(300e-6 * 600e-6), 1e-12);  // halfway in both logarithms
  EXPECT_EQ(at(2 << 20).source, CostSource::Interpolated);
  EXPECT_EQ(at(2.0 * (1 << 30)).source, CostSource::Extrapolated);
  EXPECT_EQ(at(1024).source, CostSource::Extrapolated);
}

// One size. 1 KiB keeps the model's latency; beyond the size measured over modelled stays.
TEST(MeasuredCollective, OneSizeIsEnough) {
  const CollectiveTables t = tables("{kind: all_reduce, ranks: 128, nodes: 16, bus_bandwidth: [[256 MB, 85 GB/s]]}");
  const NcclGroup g = group(16, 8, 368e9, 346e9);
  const auto at = [&](double bytes) { return measured(t, CollectiveKind::AllReduce, bytes, g)->time; };
  const double of_table = 2 * 127.0 / 128 * 256e6 / 85e9;
  EXPECT_NEAR(at(256e6), of_table, 1e-9);
  EXPECT_NEAR(at(1024), modelled(CollectiveKind::AllReduce, 1024, g), 1e-7);
  const double ratio = of_table / modelled(CollectiveKind::AllReduce, 256e6, g);
  EXPECT_NEAR(at(8e9), ratio * modelled(CollectiveKind::AllReduce, 8e9, g), 1e-9);
}

// 1 MiB that takes 1 ms is ruled by latency: nothing of it may grow with the bytes as bandwidth would. 3 GiB would take 3 s so;
// the model predicts about 18 ms, and for that MiB about 0.2.
TEST(MeasuredCollective, ASmallSizeShowsLittleOfBandwidth) {
  const CollectiveTables t = tables("{kind: all_reduce, ranks: 32, nodes: 4, table: [[1 MiB, 1 ms]]}");
  const NcclGroup g = group(4, 8, 368e9, 346e9);
  const double small = modelled(CollectiveKind::AllReduce, 1 << 20, g),
               large = modelled(CollectiveKind::AllReduce, 3.0 * (1 << 30), g);
  EXPECT_NEAR(measured(t, CollectiveKind::AllReduce, 3.0 * (1 << 30), g)->time, large * 1e-3 / small, 1e-9);
  EXPECT_LT(measured(t, CollectiveKind::AllReduce, 3.0 * (1 << 30), g)->time, 0.2);
}

TEST(MeasuredCollective, BetweenNodesAndBeyondThem) {
  const CollectiveTables t = tables(
      "{kind: all_gather, ranks: 16, nodes: 2, table: [[1 GiB, 6 ms]]}, {kind: all_gather, ranks: 64, nodes: 8, table: [[1 GiB, "
      "12 ms]]}");
  const double gib_bytes = 1 << 30;
  const auto ratio = [&](int nodes, CollectiveKind kind = CollectiveKind::AllGather) {
    const NcclGroup g = group(nodes, 8, 368e9, 346e9);
    const auto found = *measured(t, kind, gib_bytes, g);
    return std::pair(found.time / modelled(kind, gib_bytes, g), found.source);
  };
  // Of four nodes, halfway between two and eight in the logarithm: the geometric mean of measured over modelled.
  EXPECT_NEAR(ratio(4).first, std::sqrt(ratio(2).first * ratio(8).first), 1e-9);
  EXPECT_EQ(ratio(4).second, CostSource::Interpolated);
  EXPECT_NEAR(ratio(64).first, ratio(8).first, 1e-9);
  EXPECT_EQ(ratio(64).second, CostSource::Extrapolated);
  // A reduce-scatter goes round the same ring; nothing was measured in one node, nor an all-reduce.
  EXPECT_NEAR(ratio(8, CollectiveKind::ReduceScatter).first, ratio(8).first, 1e-9);
  EXPECT_EQ(ratio(8, CollectiveKind::ReduceScatter).second, CostSource::Extrapolated);
  EXPECT_FALSE(measured(t, CollectiveKind::AllGather, gib_bytes, group(1, 8, 368e9, 0)).has_value());
  EXPECT_FALSE(measured(t, CollectiveKind::AllReduce, gib_bytes, group(2, 8, 368e9, 346e9)).has_value());
}

// Through the cluster file: the shipped table answers for whole nodes; a group with one member a node is carried over, with a
// note.
TEST(MeasuredCollective, ComesBeforeFormulasOfACluster) {
  const auto made = on("{file: clusters/aws-p5.yaml, nodes: 16}");
  const Bytes size = gib(1);
  const CollectiveCost whole = made->model->collective(CollectiveKind::AllReduce, size, all(128));
  EXPECT_NEAR(2.0 * 127 / 128 * static_cast<double>(size.base()) / whole.time.base() / 267.99e9, 1, 1e-9);
  EXPECT_EQ(whole.source, CostSource::Interpolated);
  std::vector<int> rail;
  for (int node = 0; node < 16; ++node) rail.push_back(8 * node);
  EXPECT_EQ(made->model->collective(CollectiveKind::AllGather, size, rail).source, CostSource::Extrapolated);
  EXPECT_EQ(made->model->collective(CollectiveKind::AllReduce, size, all(8)).source, CostSource::Formula);
}

// A table is met at its own sizes on every network: 32 adapters of 12.5 GB/s, of which a ring over eight devices uses eight;
// fewer adapters than devices; a narrow uplink; a narrow spine.
TEST(MeasuredCollective, IsMetAtItsOwnSizesOnEveryNetwork) {
  const std::string file = test::scratch().write(
      "collectives.yaml",
      "panpipe: 1\nkind: collectives\ntables: [{kind: all_reduce, ranks: 32, nodes: 4, table: [[1 GiB, 20 ms]]}]\n");
  for (const char* network :
       {"nics_per_node: 32, bandwidth: 12.5 GB/s, latency: 75 us", "nics_per_node: 4, bandwidth: 25 GB/s, latency: 5 us",
        "nics_per_node: 8, bandwidth: 25 GB/s, oversubscription: 4", "nics_per_node: 8, bandwidth: 50 GB/s, spine: 100 GB/s"}) {
    const auto made =
        on(fmt::format("{{device: h100-sxm, nodes: 4, devices_per_node: 8, wiring: {{switch: {{bandwidth: 450 GB/s}}}}, "
                       "network: {{{}}}, collectives: {}}}",
                       network, file));
    const CollectiveCost whole = made->model->collective(CollectiveKind::AllReduce, gib(1), all(32));
    EXPECT_NEAR(whole.time.base(), 20e-3, 1e-9) << network;
    EXPECT_EQ(whole.source, CostSource::Interpolated);
  }
}

// Keys laid over the cluster's file ask what another network would do. The tables were measured on the file's, so that the answer
// is measured over modelled there, times the model here: a better network is never slower, a worse one never faster.
TEST(MeasuredCollective, ABetterNetworkIsNeverSlower) {
  const auto time = [](const std::string& over, double bytes, const std::vector<int>& devices) {
    const auto made = on("{file: clusters/aws-p5.yaml, nodes: 4" + over + "}");
    return made->model->collective(CollectiveKind::AllReduce, Bytes(static_cast<std::int64_t>(bytes)), devices).time.base();
  };
  std::vector<int> rail;
  for (int node = 0; node < 4; ++node) rail.push_back(8 * node);
  for (const std::vector<int>& devices : {all(32), rail})
    for (const double bytes : {1e3, 1e6, 32e6, 3.2e9, 20e9}) {
      const double here = time("", bytes, devices);
      EXPECT_GT(here, 0);
      for (const char* better : {"bandwidth: 100 GB/s", "latency: 5 us", "nics_per_node: 16", "post: 1 us"})
        EXPECT_LE(time(std::string(", network: {") + better + "}", bytes, devices), here * (1 + 1e-9)) << better << " " << bytes;
      EXPECT_LE(time(", wiring: {switch: {bandwidth: 900 GB/s}}", bytes, devices), here * (1 + 1e-9)) << bytes;
      for (const char* worse : {"bandwidth: 25 GB/s", "latency: 300 us", "oversubscription: 2"})
        EXPECT_GE(time(std::string(", network: {") + worse + "}", bytes, devices), here * (1 - 1e-9)) << worse << " " << bytes;
    }
}

}  // namespace
}  // namespace panpipe
