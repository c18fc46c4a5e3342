// Collectives of servers without NVLink against published measurements (validation/published/pcie_collectives.csv; its README
// describes the columns).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "costmodel/cluster/node_wiring.hpp"
#include "costmodel/cost/nccl_model.hpp"
#include "validation/runs/csv_table.hpp"

namespace panpipe::validation {
namespace {

// What docs/models/topology.md states of a processor, in GB/s.
struct Processor {
  double both_share;  // of one direction of PCIe: what both directions of a port together carry
  double relay;       // through a socket; 0: no limit seen
  double link;        // between sockets
};

const std::map<std::string, Processor> kProcessors = {
    {"xeon-1", {0.83, 0, 10}},          {"xeon-3", {1.46, 39.5, 20.4}},     {"xeon-4", {1.46, 112, 40}},
    {"xeon-e5", {1.25, 0, 6}},          {"epyc-7002", {1.46, 14, 16}},      {"epyc-7003", {1.46, 14, 16}},
    {"epyc-7002-nps4", {1.46, 21, 16}}, {"epyc-9004", {1.46, 49, 48}},      {"epyc-9005", {1.46, 88.8, 48}},
    {"unknown, PCIe 3", {1.25, 0, 10}}, {"unknown, PCIe 4", {1.46, 0, 16}}, {"unknown, PCIe 5", {1.46, 0, 40}}};

// A one-way copy reaches 10.3 to 11.1 of 12 GB/s (the table's broadcasts), on RTX 4090 22.2 of 25.
constexpr double kCopyShare = 0.9;

struct Row {
  std::string id, cpu, path, note;
  NodeWiring wiring;
  CollectiveKind kind{};
  double bytes = 0, measured = 0;
  bool used = false;
};

// "2+3": devices 0 and 1, devices 2 to 4.
std::vector<std::vector<int>> groups_of(const std::string& text) {
  std::vector<std::vector<int>> groups;
  std::istringstream in(text);
  int next = 0;
  for (std::string part; std::getline(in, part, '+');) {
    groups.emplace_back();
    for (int i = std::stoi(part); i > 0; --i) groups.back().push_back(next++);
  }
  return groups;
}

// The numbers that were fitted, as factors on those above: a share or a relay, by the processors that it holds for.
using Factors = std::map<std::string, double>;

std::string share_of(const std::string& cpu) {
  const double share = kProcessors.at(cpu).both_share;
  return share < 1 ? "share of Xeon 1" : share < 1.4 ? "share of PCIe 3" : "share of PCIe 4 and 5";
}

std::string relay_of(const std::string& cpu) { return "relay of " + (cpu == "epyc-7003" ? "epyc-7002" : cpu); }

double factor(const Factors& factors, const std::string& name) {
  const auto at = factors.find(name);
  return at == factors.end() ? 1 : at->second;
}

double predicted(const Row& row, const Factors& factors = {}) {
  NodeWiring wiring = row.wiring;
  if (wiring.host) {
    const Processor& processor = kProcessors.at(row.cpu);
    wiring.host->both_ways = *wiring.pcie * (processor.both_share * factor(factors, share_of(row.cpu)));
    if (processor.relay > 0) wiring.host->relay = gb_per_s(processor.relay * factor(factors, relay_of(row.cpu)));
  }
  NcclGroup group;
  group.members = group.in_node = wiring.devices;
  group.nvlink = false;
  group.fabric = ring_bandwidth(make_node(wiring)).base();
  const NcclCollective cost = nccl_collective(row.kind, row.bytes, group);
  return cost.wire / cost.time / 1e9;
}

double error_of(const Row& row, const Factors& factors = {}) { return predicted(row, factors) / row.measured - 1; }

Row read_row(const std::map<std::string, std::string>& cell) {
  Row row;
  row.id = cell.at("id");
  row.path = cell.at("path");
  row.note = cell.at("note");
  row.used = cell.at("used") == "yes";
  row.bytes = std::stod(cell.at("bytes"));
  row.measured = std::stod(cell.at("busbw_gb_s"));
  const int generation = std::stoi(cell.at("pcie"));
  row.cpu = cell.at("cpu") == "unknown" ? fmt::format("unknown, PCIe {}", generation) : cell.at("cpu");
  const std::string& kind = cell.at("collective");
  row.kind = kind == "all-gather"       ? CollectiveKind::AllGather
             : kind == "reduce-scatter" ? CollectiveKind::ReduceScatter
             : kind == "all-reduce"     ? CollectiveKind::AllReduce
                                        : CollectiveKind::None;
  NodeWiring& wiring = row.wiring;
  wiring.devices = std::stoi(cell.at("gpus"));
  wiring.peer_access = row.path != "host";
  wiring.peer = PeerParameters{micros(2.5)};
  // NCCL, src/graph/topo.h: what its path search counts for 16 lanes.
  wiring.pcie = gb_per_s(12.0 * (1 << (generation - 3)));
  wiring.roots = RootParameters{groups_of(cell.at("roots")), *wiring.pcie};
  wiring.sockets = SocketParameters{groups_of(cell.at("sockets")), gb_per_s(kProcessors.at(row.cpu).link), micros(0)};
  if (row.path != "peer") wiring.host = HostParameters{*wiring.pcie * kCopyShare, std::nullopt, std::nullopt, micros(15.2)};
  return row;
}

std::vector<Row> rows() {
  const CsvTable table = load_csv("../validation/published/pcie_collectives.csv");
  std::vector<Row> result;
  for (const auto& cells : table.rows) {
    std::map<std::string, std::string> cell;
    for (std::size_t i = 0; i < cells.size(); ++i) cell[table.heading[i].text] = cells[i].text;
    result.push_back(read_row(cell));
  }
  return result;
}

// Below 16 MiB last-level caches and the protocols' start-up decide.
std::vector<Row> large_rows() {
  std::vector<Row> result;
  for (Row& row : rows())
    if (row.used && row.bytes >= 16 << 20) result.push_back(std::move(row));
  return result;
}

struct Summary {
  double error = 0, bias = 0;
};

// Every address counts the same, whatever its number of rows.
Summary by_address(const std::map<std::string, std::vector<double>>& errors) {
  Summary all;
  for (const auto& [id, each] : errors) {
    Summary one;
    for (const double error : each) {
      one.error += std::fabs(error) / static_cast<double>(each.size());
      one.bias += error / static_cast<double>(each.size());
    }
    all.error += one.error / static_cast<double>(errors.size());
    all.bias += one.bias / static_cast<double>(errors.size());
  }
  return all;
}

TEST(PcieCollectives, TheTableIsWhole) {
  std::set<std::string> addresses;
  for (const Row& row : rows()) {
    addresses.insert(row.id);
    EXPECT_GT(row.measured, 0) << row.id;
    EXPECT_LT(row.measured, row.wiring.pcie->base() / 0.9e9) << row.id;  // NCCL's counts lie below what a link carries
    EXPECT_TRUE(row.used || !row.note.empty()) << row.id << ": a row that is not used states why";
    int below = 0, on = 0;
    for (const auto& group : row.wiring.roots->groups) below += static_cast<int>(group.size());
    for (const auto& group : row.wiring.sockets->groups) on += static_cast<int>(group.size());
    EXPECT_EQ(below, row.wiring.devices) << row.id;
    EXPECT_EQ(on, row.wiring.devices) << row.id;
  }
  EXPECT_GE(addresses.size(), 15U);
}

TEST(PcieCollectives, AreAsMeasured) {
  std::map<std::string, std::vector<double>> errors;
  double sum = 0, bias = 0, count = 0;
  for (const Row& row : large_rows()) {
    const double error = error_of(row);
    EXPECT_LT(std::fabs(error), 0.40) << row.id << ", " << row.bytes << " B: " << row.measured << " GB/s measured, "
                                      << predicted(row) << " predicted";
    errors[row.id].push_back(error);
    sum += std::fabs(error);
    bias += error;
    ++count;
  }
  EXPECT_LT(sum / count, 0.12);
  EXPECT_LT(std::fabs(bias / count), 0.04);
  EXPECT_LT(by_address(errors).error, 0.12);
  EXPECT_LT(std::fabs(by_address(errors).bias), 0.04);
}

// Each fitted number once more without the address that is judged. Rows whose number rests on their address alone cannot be
// judged so: what a processor relays was measured at one address each.
TEST(PcieCollectives, AreAsMeasuredByAddressesLeftOut) {
  const std::vector<Row> all = large_rows();
  std::vector<double> factors;
  for (double f = 0.5; f < 2; f *= 1.03) factors.push_back(f);
  std::set<std::string> names;
  for (const Row& row : all) {
    names.insert(share_of(row.cpu));
    if (kProcessors.at(row.cpu).relay > 0) names.insert(relay_of(row.cpu));
  }
  // The error of every row by every factor of each number that moves it.
  std::map<std::string, std::vector<std::vector<double>>> errors;
  std::map<std::string, std::vector<bool>> bound;
  for (const std::string& name : names)
    for (const Row& row : all) {
      std::vector<double>& each = errors[name].emplace_back();
      const bool concerns = row.wiring.host && (name == share_of(row.cpu) || name == relay_of(row.cpu));
      if (concerns)
        for (const double f : factors) each.push_back(error_of(row, {{name, f}}));
      bound[name].push_back(concerns && predicted(row, {{name, 0.95}}) < 0.97 * predicted(row));
    }
  std::map<std::string, std::vector<double>> left_out;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const std::string& name : names) {
      if (!bound[name][i]) continue;
      std::vector<double> loss(factors.size(), 0);
      std::map<std::string, double> others;
      for (std::size_t j = 0; j < all.size(); ++j)
        if (bound[name][j] && all[j].id != all[i].id) ++others[all[j].id];
      if (others.empty()) continue;
      for (std::size_t j = 0; j < all.size(); ++j)
        if (bound[name][j] && all[j].id != all[i].id)
          for (std::size_t f = 0; f < factors.size(); ++f)
            loss[f] += std::fabs(std::log1p(errors[name][j][f])) / others[all[j].id];
      const auto best = static_cast<std::size_t>(std::min_element(loss.begin(), loss.end()) - loss.begin());
      left_out[all[i].id].push_back(errors[name][i][best]);
    }
  EXPECT_EQ(left_out.size(), 9U);
  for (const auto& [id, each] : left_out) {
    const Summary one = by_address({{id, each}});
    RecordProperty(id, fmt::format("{:.1f} {:+.1f}", 100 * one.error, 100 * one.bias));
  }
  RecordProperty("error", fmt::format("{:.3f}", by_address(left_out).error));
  RecordProperty("bias", fmt::format("{:+.3f}", by_address(left_out).bias));
  EXPECT_LT(by_address(left_out).error, 0.15);
  EXPECT_LT(std::fabs(by_address(left_out).bias), 0.06);
}

}  // namespace
}  // namespace panpipe::validation
