// The machine of an imported job: a cluster that the caller names, or nodes of a shipped kind for the job's GPUs.
#pragma once

#include <string>
#include <vector>

#include "jobs/job.hpp"

namespace panpipe::jobs {

constexpr int kGpusOfANode = 8;  // if a job does not state it

struct JobMachine {
  int gpus = 0;
  int per_node = kGpusOfANode;
  std::string origin;  // of the number of GPUs: "--nnodes x --nproc_per_node"
};

// The fewest whole nodes for one replica of `ranks` GPUs; records the assumption.
JobMachine assumed_machine(ImportedJob& job, int ranks);

// Sets the scenario's cluster: the file or shipped name `cluster` (empty: nodes of H100). Throws InputError if the GPUs do not
// fill nodes.
void put_cluster(ImportedJob& job, const JobMachine& machine, const std::string& cluster);

// The data-parallel degree: GPUs divided by the ranks of one replica. `degrees` names these in messages: "tensor 2 x pipeline 4".
// Throws InputError if they do not divide the GPUs.
int replicas_of(const ImportedJob& job, const JobMachine& machine, long long ranks, const std::string& degrees);

// The device of every position, as `placement:` lists them, if the ranks of a replica are neighbours. `inner`: devices of one
// rank in one replica.
std::vector<int> devices_of_replicas_in_a_row(int inner, int data, int pipeline);

}  // namespace panpipe::jobs
