// Ranks on processors: whether this host holds them, and what is told before they start. An estimate, by the cost model's bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/prediction/experiment.hpp"
#include "exec/launch/profile_request.hpp"

namespace panpipe::exec {

// Bytes of host memory that each rank of a run needs, in the order of ranks: the plan's peak as this executor
// keeps things on processors, without what the program itself takes. Empty where the workload has no bytes to go by.
std::vector<std::int64_t> run_memory(const Experiment& experiment, const Plan& plan);
// The same of one rank of a profile, which holds a window of the units at a time.
std::int64_t profile_memory(const Experiment& experiment, const ProfileRequest& request);

// Ranks that are about to start on this host.
struct HostUse {
  std::string scenario;            // as named
  std::string purpose;             // "run", "profile"
  std::vector<std::int64_t> need;  // bytes of each rank here, without the program's own; empty: not known
  int ranks = 1;
  int threads = 0;           // of each, as asked; 0 = cores / ranks
  bool one_process = false;  // ranks are threads
  bool for_gpus = false;     // GPUs are here or the scenario's devices, and processors were not asked for
  bool gloo_asked = false;   // that is why GPUs that would do are left alone
  int gpus = 0;              // that are here
  int cores = 1;
  std::int64_t memory = 0;
};

// "no GPU here: 8 ranks run on the CPU, 2 cores; they need about 12.4 GiB of 23.5 GiB": empty where nobody is surprised, because
// ranks were to run on processors and each has a core. MachineError where memory does not hold them, unless `overcommit`.
std::string told_before_start(const HostUse& use, bool overcommit);
// The same of this host: without a word, or on standard error.
void check_host(const HostUse& use, bool overcommit);
void tell_before_start(const HostUse& use, bool overcommit);

}  // namespace panpipe::exec
