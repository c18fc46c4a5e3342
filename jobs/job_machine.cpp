#include "jobs/job_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/input/scalar_text.hpp"

namespace panpipe::jobs {

JobMachine assumed_machine(ImportedJob& job, int ranks) {
  JobMachine machine;
  machine.gpus = (ranks + kGpusOfANode - 1) / kGpusOfANode * kGpusOfANode;
  machine.origin = "assumed";
  job.assumptions.push_back(fmt::format("{} GPUs, the fewest nodes of {} that hold one replica; --gpus N states another number.",
                                        machine.gpus, kGpusOfANode));
  return machine;
}

void put_cluster(ImportedJob& job, const JobMachine& machine) {
  if (!machine.cluster.empty()) return job.set("cluster", quoted_scalar(machine.cluster), "--cluster");
  const int per_node = std::min(machine.per_node, machine.gpus);
  if (machine.gpus % per_node != 0)
    throw InputError(fmt::format("{}: {} GPUs ({}) do not fill nodes of {}\n  help: --cluster FILE states the machine",
                                 job.source, machine.gpus, machine.origin, per_node));
  const std::string size = per_node == kGpusOfANode ? "" : fmt::format(", devices_per_node: {}", per_node);
  job.set("cluster", fmt::format("{{file: clusters/h100x8.yaml, nodes: {}{}}}", machine.gpus / per_node, size), machine.origin);
  job.assumptions.push_back(fmt::format("nodes of {} H100; --cluster FILE states the machine.",
                                        per_node == kGpusOfANode ? "eight" : std::to_string(per_node)));
}

int replicas_of(const ImportedJob& job, const JobMachine& machine, long long ranks, const std::string& degrees) {
  if (machine.gpus % ranks != 0)
    throw InputError(
        fmt::format("{}: {} GPUs ({}) are no multiple of {} = {}\n  help: the degrees must divide the number of GPUs", job.source,
                    machine.gpus, machine.origin, degrees, ranks));
  return static_cast<int>(machine.gpus / ranks);
}

}  // namespace panpipe::jobs
