// Every file under scenarios/devices and scenarios/clusters: it loads, names a source for every number, and every pair of
// devices is joined, the same way there and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "tests/costmodel/cluster/parse.hpp"

namespace panpipe {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(data_directory() + "/" + folder)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// Dotted keys of all numbers under a node, without indices: "wiring.bridges.pairs".
void collect_numbers(const Node& node, const std::string& key, std::set<std::string>& numbers) {
  if (node.kind == NodeKind::Scalar && !node.quoted && !node.text.empty() &&
      std::isdigit(static_cast<unsigned char>(node.text[0])))
    numbers.insert(key);
  for (const NodePtr& item : node.items) collect_numbers(*item, key, numbers);
  for (const Node::Entry& entry : node.entries)
    if (!(key.empty() && (entry.key == "sources" || entry.key == "panpipe" || entry.key == "description")))
      collect_numbers(*entry.value, key.empty() ? entry.key : key + "." + entry.key, numbers);
}

// Numbers of a file for which neither the key nor a key above it has a source of at least a few words.
std::vector<std::string> numbers_without_source(const std::string& path) {
  const NodePtr root = load_document(path);
  std::set<std::string> numbers;
  collect_numbers(*root, "", numbers);
  const Node* sources = root->find("sources");
  std::vector<std::string> missing;
  for (const std::string& number : numbers) {
    bool found = false;
    for (std::string key = number; !found && !key.empty();) {
      const Node* text = sources ? sources->find(key) : nullptr;
      found = text && text->text.size() >= 6;
      key = key.rfind('.') == std::string::npos ? "" : key.substr(0, key.rfind('.'));
    }
    if (!found) missing.push_back(number);
  }
  return missing;
}

TEST(ShippedDevices, EveryNumberHasASource) {
  const std::vector<std::string> files = files_in("devices");
  EXPECT_GE(files.size(), 30u);
  for (const std::string& file : files) EXPECT_THAT(numbers_without_source(file), testing::IsEmpty()) << file;
}

TEST(ShippedClusters, EveryNumberHasASource) {
  for (const std::string& file : files_in("clusters")) EXPECT_THAT(numbers_without_source(file), testing::IsEmpty()) << file;
}

TEST(ShippedDevices, LoadWithRates) {
  std::set<std::string> names;
  for (const std::string& file : files_in("devices")) {
    ReadLog log;
    const DeviceType type = load_device(file, "", log);
    log.throw_if_errors();
    EXPECT_TRUE(type.has_rates()) << file;
    EXPECT_GT(type.peak_for(Precision::Fp32).base(), 0) << file;
    EXPECT_TRUE(names.insert(type.name).second) << type.name << " is in two files";
  }
  for (const char* name :
       {"RTX3090",  "RTX3090Ti", "A100-40G-SXM", "A100-80G-SXM", "A100-80G-PCIe",  "A800-80G-SXM",   "H20",     "H100-SXM",
        "H200-SXM", "H100-PCIe", "H800-80G-SXM", "B200",         "V100-SXM2-16GB", "V100-SXM2-32GB", "RTX4090", "A6000",
        "L40S",     "GB200",     "GB300",        "B300",         "GH200",          "H100-NVL",       "RTX5090", "RTX-PRO-6000",
        "A10",      "L4",        "MI300X",       "MI355X"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

// No card gives programs all memory that its data sheet states; none was seen to keep more than 2 %.
TEST(ShippedDevices, StateWhatProgramsGetOfTheirMemory) {
  std::map<std::string, double> usable;  // GiB
  for (const std::string& file : files_in("devices")) {
    ReadLog log;
    const DeviceType type = load_device(file, "", log);
    EXPECT_LT(type.usable, 1.0) << file;
    EXPECT_GT(type.usable, 0.98) << file;
    usable[type.name] = type.memory / gib(1) * type.usable;
  }
  // As PyTorch or deviceQuery report them; the sources are in the files.
  EXPECT_NEAR(usable["RTX3090"], 23.69, 0.01);
  EXPECT_NEAR(usable["A100-40G-SXM"], 39.39, 0.01);
  EXPECT_NEAR(usable["A100-80G-PCIe"], 79.15, 0.01);
  EXPECT_NEAR(usable["A800-80G-SXM"], 79.25, 0.01);
  EXPECT_NEAR(usable["H100-SXM"], 79.11, 0.01);
  EXPECT_NEAR(usable["H20"], 95.00, 0.01);
  EXPECT_NEAR(usable["B200"], 178.35, 0.01);
  EXPECT_NEAR(usable["L40S"], 44.42, 0.01);
  EXPECT_NEAR(usable["RTX4090"], 23.52, 0.01);
  EXPECT_NEAR(usable["V100-SXM2-16GB"], 15.78, 0.01);
  EXPECT_NEAR(usable["V100-SXM2-32GB"], 31.74, 0.01);
}

TEST(ShippedDevices, HaveTheirDataSheetsRates) {
  ReadLog log;
  const DeviceType rtx = load_device("RTX3090", "", log);
  EXPECT_EQ(rtx.peak_for(Precision::Fp16), tflops_per_s(71));  // fp32 accumulation, not 142
  EXPECT_EQ(rtx.memory, gib(24));
  EXPECT_EQ(rtx.memory_bandwidth, gb_per_s(936));
  EXPECT_FALSE(rtx.peer_access);
  // 82 SM x 128 FMA x 2 x 1.695 GHz
  EXPECT_NEAR(rtx.peak_for(Precision::Fp32).base(), 82 * 128 * 2 * 1.695e9, 0.01 * 35.6e12);
  const DeviceType a100 = load_device("A100-80G-SXM", "", log);
  // 108 SM x 1024 FMA x 2 x 1.41 GHz
  EXPECT_NEAR(a100.peak_for(Precision::Bf16).base(), 108 * 1024 * 2 * 1.41e9, 0.01 * 312e12);
  EXPECT_EQ(a100.nvlink_bandwidth * a100.nvlink_links, gb_per_s(300));
  EXPECT_EQ(load_device("A800-80G-SXM", "", log).nvlink_links * 25, 200);
  EXPECT_TRUE(load_device("H100-SXM", "", log).multicast);
  // 128 SM x 128 FMA x 2 x 2.52 GHz in fp32; tensor cores twice that with fp32 accumulation, not 330
  EXPECT_NEAR(load_device("RTX4090", "", log).peak_for(Precision::Fp16).base(), 2 * 128 * 128 * 2 * 2.52e9, 0.01 * 165e12);
  // 80 SM x 512 FMA x 2 x 1.53 GHz, and no bf16
  const DeviceType v100 = load_device("V100-SXM2-32GB", "", log);
  EXPECT_NEAR(v100.peak_for(Precision::Fp16).base(), 80 * 512 * 2 * 1.53e9, 0.01 * 125e12);
  EXPECT_EQ(v100.peak_for(Precision::Bf16), ComputeRate(0));
  EXPECT_EQ(load_device("B200", "", log).nvlink_links * 50, 900);
  EXPECT_EQ(load_device("H800-80G-SXM", "", log).nvlink_links * 25, 200);
  for (const char* name : {"RTX4090", "L40S"}) EXPECT_EQ(load_device(name, "", log).nvlink_links, 0) << name;
  EXPECT_FALSE(a100.multicast);
  // 170 SM x 128 FMA x 2 x 2.407 GHz, tensor cores twice that; 58 x 128 x 2 x 2.04 GHz; 304 CU x 256 x 2 x 2.1 GHz
  EXPECT_NEAR(load_device("RTX5090", "", log).peak_for(Precision::Bf16).base(), 2 * 170 * 128 * 2 * 2.407e9, 0.01 * 210e12);
  EXPECT_NEAR(load_device("L4", "", log).peak_for(Precision::Fp32).base(), 58 * 128 * 2 * 2.04e9, 0.01 * 30e12);
  EXPECT_NEAR(load_device("MI300X", "", log).peak_for(Precision::Fp32).base(), 304 * 256 * 2.1e9, 0.01 * 163e12);
  EXPECT_TRUE(load_device("GB200", "", log).multicast);
  log.throw_if_errors();
}

// What no run on the device was compared with: its calibration's source states it, and intervals widen.
TEST(ShippedDevices, ThatBorrowACalibrationStateIt) {
  for (const char* name :
       {"GB200", "GB300", "B300", "GH200", "H100-NVL", "RTX5090", "RTX-PRO-6000", "A10", "L4", "MI300X", "MI355X"}) {
    ReadLog log;
    const DeviceType type = load_device(name, "", log);
    ASSERT_EQ(type.sources.count("calibration"), 1u) << name;
    EXPECT_THAT(type.sources.at("calibration"), testing::HasSubstr("not measured on this device")) << name;
  }
}

TEST(ShippedClusters, EveryPairIsJoinedTheSameWayThereAndBack) {
  for (const std::string& file : files_in("clusters")) {
    const Cluster cluster = cluster_from(file);
    EXPECT_GT(cluster.fabric_bandwidth.base(), 0) << file;
    for (int from = 0; from < cluster.size(); ++from)
      for (int to = 0; to <= from; ++to) {
        const Route there = cluster.route(from, to), back = cluster.route(to, from);
        EXPECT_EQ(there.path == PathClass::Local, from == to);
        EXPECT_EQ(there.path, back.path) << file << " " << from << " " << to;
        EXPECT_EQ(there.bandwidth, back.bandwidth) << file << " " << from << " " << to;
        EXPECT_EQ(there.latency, back.latency) << file << " " << from << " " << to;
        EXPECT_EQ(there.hops.empty(), from == to) << file << " " << from << " " << to;
        EXPECT_GT(there.bandwidth.base(), 0);
        if (from == to) continue;
        // There and back differ in all directed resources; they share a copy's "both ways", its host's memory and relay, and
        // through the host below one switch the upstream link, which both cross upwards and downwards.
        for (const Hop& out : there.hops)
          for (const Hop& in : back.hops) {
            if (out.resource != in.resource) continue;
            const std::string& name = cluster.resources[out.resource].name;
            const bool upstream = there.path == PathClass::Host && name.find(".root") != std::string::npos;
            EXPECT_TRUE(name.ends_with(".both") || name.ends_with(".memory") || name.ends_with(".relay") || upstream) << name;
          }
      }
  }
}

struct Expected {
  const char* cluster;
  int from, to;
  PathClass path;
  double gb_per_s;
  double latency_us;
};

TEST(ShippedClusters, PathsHaveTheStatedBandwidths) {
  const Expected rows[] = {
      {"rtx3090x8", 0, 1, PathClass::Bridge, 56.25, 2},
      {"rtx3090x8", 6, 7, PathClass::Bridge, 56.25, 2},
      {"rtx3090x8", 1, 2, PathClass::Host, 11.2, 15.2},  // 11.2 to 11.4 measured alone
      {"rtx3090x8", 3, 4, PathClass::HostSockets, 11.2, 15.2},
      {"rtx3090x8-nobridge", 0, 1, PathClass::Host, 11.2, 15.2},
      {"rtx3090ti-x2", 0, 1, PathClass::Bridge, 56.25, 2},
      {"dgx-a100-80g", 0, 7, PathClass::Switch, 300, 2},
      {"dgx-a100-40g", 0, 7, PathClass::Switch, 300, 2},
      {"a100-80g-x64", 0, 7, PathClass::Switch, 300, 2},
      {"a100-80g-x64", 7, 8, PathClass::Network, 25, 5},
      {"a100-80g-pcie-x4", 0, 1, PathClass::Bridge, 300, 2},
      {"a100-80g-pcie-x4", 1, 2, PathClass::PeerPcie, 24, 2.5},
      {"a100-80g-pcie-x4-nobridge", 0, 1, PathClass::PeerPcie, 24, 2.5},
      {"a800x8", 0, 1, PathClass::Switch, 200, 2},
      {"a800x8-x4", 7, 8, PathClass::Network, 25, 5},
      {"h20x8-x2", 7, 8, PathClass::Network, 50, 5},
      {"h100x8", 0, 1, PathClass::Switch, 450, 2},
      {"h200x8", 0, 1, PathClass::Switch, 450, 2},
      {"h20x8", 0, 1, PathClass::Switch, 450, 2},
      {"epyc-7742-x2", 0, 1, PathClass::HostSockets, 16, 0.5},
      {"h800x8", 0, 1, PathClass::Switch, 200, 2},
      {"b200x8", 0, 7, PathClass::Switch, 900, 2},
      {"h100-pcie-x4", 0, 1, PathClass::Bridge, 300, 2},
      {"h100-pcie-x4", 1, 2, PathClass::PeerPcie, 50, 2.5},
      {"rtx4090x8", 0, 1, PathClass::Host, 22.2, 15.2},
      {"rtx4090x8-switches", 0, 1, PathClass::Host, 17.5, 15.2},  // up and down one uplink, both ways 35
      {"rtx4090x8", 3, 4, PathClass::HostSockets, 20.4, 15.2},
      {"a6000x8", 0, 1, PathClass::Bridge, 56.25, 2},
      {"a6000x8", 1, 2, PathClass::Host, 14, 15.2},
      {"a6000x8", 3, 4, PathClass::HostSockets, 14, 15.2},
      {"l40sx8", 0, 1, PathClass::PeerPcie, 24, 2.5},
      {"l40sx8", 0, 4, PathClass::HostSockets, 22, 15.2},
      {"gb200-nvl72", 0, 71, PathClass::Switch, 900, 2},
      {"gb300-nvl72", 3, 4, PathClass::Switch, 900, 2},
      {"gh200x4", 0, 3, PathClass::Bridge, 150, 2},
      {"h100-nvl-x4", 0, 1, PathClass::Bridge, 300, 2},
      {"rtx5090x8", 0, 1, PathClass::Host, 44, 15.2},
      {"rtx-pro-6000x8", 0, 3, PathClass::PeerPcie, 50, 2.5},
      {"l4x8", 0, 1, PathClass::Host, 22.2, 15.2},
      {"mi300x8", 0, 7, PathClass::Switch, 448, 2},
  };
  for (const Expected& row : rows) {
    const Cluster cluster = cluster_from(row.cluster);
    const Route route = cluster.route(row.from, row.to);
    EXPECT_EQ(route.path, row.path) << row.cluster << " " << row.from << " " << row.to;
    EXPECT_DOUBLE_EQ(route.bandwidth.base(), row.gb_per_s * 1e9) << row.cluster << " " << row.from << " " << row.to;
    EXPECT_NEAR(route.latency.base(), row.latency_us * 1e-6, 1e-12) << row.cluster;
  }
}

// nvidia-smi topo -m of a DGX-1: each GPU has NV2 to two, NV1 to two others, and none to the other three. The file numbers them
// along the ring of NV2.
TEST(ShippedClusters, TheHybridCubeMeshIsWiredAsItsMatrix) {
  const Cluster cluster = cluster_from("dgx-1-v100");
  const char* matrix[] = {"X1122...", "1X21.2..", "12X2..1.", "212X...1", "2...X112", ".2..1X21", "..1.12X2", "...1212X"};
  const int numbers[] = {0, 3, 2, 1, 5, 6, 7, 4};  // of nvidia-smi
  ASSERT_EQ(cluster.size(), 8);
  for (int from = 0; from < 8; ++from) {
    double links = 0;
    for (int to = 0; to < 8; ++to) {
      const char shown = matrix[numbers[from]][numbers[to]];
      const Route route = cluster.route(from, to);
      if (shown == 'X') continue;
      EXPECT_EQ(route.path, shown == '.' ? PathClass::HostSockets : PathClass::Bridge) << from << " " << to;
      EXPECT_EQ(route.bandwidth, gb_per_s(shown == '.' ? 6 : 25 * (shown - '0'))) << from << " " << to;
      if (shown != '.') links += route.bandwidth.base() / 25e9;
    }
    EXPECT_DOUBLE_EQ(links, 6) << from;
    EXPECT_EQ(cluster.route(from, (from + 1) % 8).bandwidth, gb_per_s(50));
  }
  EXPECT_EQ(cluster.fabric_bandwidth, gb_per_s(50));
}

// Rings through the host, GB/s of each hop: what a socket's processor relays, shared by the hops that leave its devices, or both
// ways of an uplink that every hop below it crosses up and down.
TEST(ShippedClusters, RingsThroughTheHostShareItsProcessors) {
  const auto ring = [](const std::string& name) { return cluster_from(name).fabric_bandwidth.base() / 1e9; };
  EXPECT_DOUBLE_EQ(ring("rtx3090x8-nobridge"), 14.0 / 4);
  EXPECT_DOUBLE_EQ(ring("rtx3090x8"), 14.0 / 2);
  EXPECT_DOUBLE_EQ(ring("a6000x8"), 14.0 / 2);
  EXPECT_DOUBLE_EQ(ring("rtx4090x8"), 39.5 / 4);
  EXPECT_DOUBLE_EQ(ring("rtx4090x8-switches"), 35.0 / 8);
  EXPECT_DOUBLE_EQ(ring("l40sx8"), 35.0 / 2);
  EXPECT_FALSE(cluster_from("rtx3090x8-nobridge").switched);
}

TEST(ShippedClusters, FourThousandDevicesLoadAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const Cluster cluster = cluster_from("{file: clusters/dgx-a100-80g.yaml, nodes: 512}");
  const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(cluster.size(), 4096);
  EXPECT_EQ(cluster.resources.size(), 512u * (16 + 16));  // per node: 8 switch ports and 8 NICs, in and out
  EXPECT_LT(loading.count(), 1.0);                        // milliseconds; the margin is for sanitizers
  EXPECT_EQ(cluster.route(0, 4095).bandwidth, gb_per_s(25));
}

}  // namespace
}  // namespace panpipe
