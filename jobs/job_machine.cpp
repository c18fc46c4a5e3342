#include "jobs/job_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/input/scalar_text.hpp"
#include "costmodel/cluster/cluster_reader.hpp"

namespace panpipe::jobs {

JobMachine assumed_machine(ImportedJob& job, int ranks) {
  JobMachine machine;
  machine.gpus = (ranks + kGpusOfANode - 1) / kGpusOfANode * kGpusOfANode;
  machine.origin = "assumed";
  job.assumptions.push_back(fmt::format("{} GPUs, the fewest nodes of {} that hold one replica; --gpus N states another number.",
                                        machine.gpus, kGpusOfANode));
  return machine;
}

namespace {

// Nodes of such a cluster that hold so many GPUs; 0 where it has just these, does not divide them, or cannot be read: its reader
// reports that when the scenario is loaded.
int nodes_for(const std::string& cluster, int gpus) try {
  ReadLog log;
  const Cluster read = read_cluster(*parse_document(quoted_scalar(cluster), "--cluster", "."), log);
  if (read.devices.empty() || read.devices.size() == static_cast<std::size_t>(gpus)) return 0;
  const auto on_first = [&](const Device& device) { return device.node == read.devices.front().node; };
  const auto per_node = static_cast<int>(std::count_if(read.devices.begin(), read.devices.end(), on_first));
  return gpus % per_node == 0 ? gpus / per_node : 0;
} catch (const InputError&) {
  return 0;
}

}  // namespace

void put_cluster(ImportedJob& job, const JobMachine& machine, const std::string& cluster) {
  if (!cluster.empty()) {
    const std::string file = quoted_scalar(cluster);
    const int nodes = nodes_for(cluster, machine.gpus);
    if (nodes == 0) return job.set("cluster", file, "--cluster");
    return job.set("cluster", fmt::format("{{file: {}, nodes: {}}}", file, nodes), "--cluster, and " + machine.origin);
  }
  const int per_node = std::min(machine.per_node, machine.gpus);
  if (machine.gpus % per_node != 0)
    throw InputError(fmt::format("{}: {} GPUs ({}) do not fill nodes of {}", job.source, machine.gpus, machine.origin, per_node),
                     "give a cluster file: it states the machine");
  const std::string size = per_node == kGpusOfANode ? "" : fmt::format(", devices_per_node: {}", per_node);
  job.set("cluster", fmt::format("{{file: clusters/h100x8.yaml, nodes: {}{}}}", machine.gpus / per_node, size), machine.origin);
  job.assumptions.push_back(fmt::format("nodes of {} H100; --cluster FILE states the machine.",
                                        per_node == kGpusOfANode ? "eight" : std::to_string(per_node)));
}

int replicas_of(const ImportedJob& job, const JobMachine& machine, long long ranks, const std::string& degrees) {
  if (machine.gpus % ranks != 0)
    throw InputError(
        fmt::format("{}: {} GPUs ({}) are no multiple of {} = {}", job.source, machine.gpus, machine.origin, degrees, ranks),
        "the degrees must divide the number of GPUs");
  return static_cast<int>(machine.gpus / ranks);
}

std::vector<int> devices_of_replicas_in_a_row(int inner, int data, int pipeline) {
  std::vector<int> devices;
  for (int rank = 0; rank < pipeline; ++rank)
    for (int replica = 0; replica < data; ++replica)
      for (int i = 0; i < inner; ++i) devices.push_back((replica * pipeline + rank) * inner + i);
  return devices;
}

}  // namespace panpipe::jobs
