// Measured collectives as evidence of links: output of nccl-tests, or a table that was made of it.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "app/evidence/piece_readers.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/cluster/nccl_tests.hpp"

namespace panpipe::app {
namespace {

constexpr double kLeastBytes = 1 << 20;  // below, latencies decide, which steps have few of

const std::map<std::string, CollectiveKind>& kinds() {
  static const std::map<std::string, CollectiveKind> all = {{"all_reduce", CollectiveKind::AllReduce},
                                                            {"all_gather", CollectiveKind::AllGather},
                                                            {"reduce_scatter", CollectiveKind::ReduceScatter},
                                                            {"all_to_all", CollectiveKind::AllToAll}};
  return all;
}

// The first devices of the first nodes; fewer than asked for where the cluster has no such group.
std::vector<int> members_of(const CollectiveTable& table, const Cluster& cluster) {
  const int in_node = table.ranks / table.nodes;
  std::vector<int> members;
  for (int device = 0; device < cluster.size(); ++device)
    if (cluster.devices[device].node < table.nodes && cluster.devices[device].index_in_node < in_node) members.push_back(device);
  return members;
}

std::vector<double> offs_of(const CollectiveTable& table, CollectiveKind kind, const std::vector<int>& members,
                            const CostModel& model) {
  std::vector<double> offs;
  for (const auto& [bytes, time] : table.times.points) {
    if (static_cast<double>(bytes.base()) < kLeastBytes || time <= Duration(0)) continue;
    const Duration predicted = model.collective(kind, bytes, members).time;
    if (predicted > Duration(0)) offs.push_back(std::log(time.base() / predicted.base()));
  }
  return offs;
}

GivenPiece piece_of(const CollectiveTables& tables, const Scenario& scenario) {
  GivenPiece piece;
  const Experiment experiment(scenario);
  std::string none;
  for (const CollectiveTable& table : tables.tables) {
    const auto kind = kinds().find(table.kind);
    if (kind == kinds().end() || table.ranks < 2 || table.nodes < 1) continue;
    const std::vector<int> members = members_of(table, scenario.cluster);
    const std::string of = fmt::format("{} over {} ranks", table.kind, table.ranks);
    if (static_cast<int>(members.size()) != table.ranks) {
      none = fmt::format("{} on {} node{}: this cluster has no such group", of, table.nodes, table.nodes == 1 ? "" : "s");
      continue;
    }
    add_measurements(piece, of, table.nodes == 1 ? Direction::Node : Direction::Network,
                     offs_of(table, kind->second, members, experiment.model));
  }
  if (piece.observations.empty()) piece.left_out = none.empty() ? "it has no collectives of 1 MiB and more" : none;
  return piece;
}

}  // namespace

std::vector<GivenPiece> nccl_pieces(const EvidenceRequest& request, StatedJob& job) {
  const std::vector<NcclTestsRun> runs = parse_nccl_tests(read_text_file(request.file), request.file);
  GivenPiece piece = piece_of(tables_of(runs), job.asked());
  piece.machine = machine_named(runs.empty() ? "" : runs.front().device, job.asked());
  return {piece};
}

std::vector<GivenPiece> collective_pieces(const EvidenceRequest& request, StatedJob& job) {
  return {piece_of(*load_collective_tables(request.file), job.asked())};
}

}  // namespace panpipe::app
