// Checks whether this host's memory suffices for ranks on CPUs, and reports the need before they start. An estimate from the cost
// model's bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/prediction/experiment.hpp"
#include "exec/launch/profile_request.hpp"

namespace panpipe::exec {

// Bytes of host memory for each rank of a run, in rank order: the plan's peak with this executor's allocations on CPUs, without
// the program itself. Empty if the workload has no bytes.
std::vector<std::int64_t> run_memory(const Experiment& experiment, const Plan& plan);
// The same for one rank of a profile, which holds a window of the units at a time.
std::int64_t profile_memory(const Experiment& experiment, const ProfileRequest& request);

// Ranks that will start on this host.
struct HostUse {
  std::string scenario;            // as named by the user
  std::string purpose;             // "run", "profile"
  std::vector<std::int64_t> need;  // bytes of each rank here, without the program itself; empty: unknown
  int ranks = 1;
  int threads = 0;           // per rank, as requested; 0 = cores / ranks
  bool one_process = false;  // ranks are threads
  bool for_gpus = false;     // GPUs exist here or are the scenario's devices, and the CPU was not requested
  bool gloo_asked = false;   // the reason why suitable GPUs are not used
  int gpus = 0;              // number of GPUs here
  int cores = 1;
  std::int64_t memory = 0;
};

// "no GPU here: 8 ranks run on the CPU, 2 cores; they need about 12.4 GiB of 23.5 GiB". Empty if the user expects this, that is,
// CPUs were requested and each rank has a core. Throws MachineError if memory does not suffice, unless `overcommit`.
std::string reported_before_start(const HostUse& use, bool overcommit);
// "this machine is busy: a load of 8.1 on 2 cores; ...". Empty if more than half of the cores are free.
std::string reported_load(double load, int cores, const std::string& purpose);
// Both for this host: only the check, or with the texts on standard error; the load is reported only at a terminal.
void check_host(const HostUse& use, bool overcommit);
void report_before_start(const HostUse& use, bool overcommit);

}  // namespace panpipe::exec
