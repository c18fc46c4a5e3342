// What `panpipe selftest` asks the executor for besides runs and profiles: parts of panpipe-exec, and starting them.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace panpipe::exec {

// A transport's contract, tried on this machine.
struct ContractRequest {
  std::string transport = "local";  // local | gloo | nccl
  std::string device = "cpu";       // cpu | cuda: where tensors lie; ranks that are more than the GPUs share them
  int ranks = 2;
};
void add_contract_options(CLI::App& app, ContractRequest& request);

// Runs every case over so many ranks, one process each, for the transport local one in all. Standard output gets a line of JSON
// per case, {"case", "rule", "broken": ["rank 1: ..."], "seconds"}. Returns 0 where all rules are kept, 1 where one is broken or
// a rank was lost. MachineError in words where this build has no executor.
int launch_contract(const ContractRequest& request);

// Copies between the host's memory and each GPU, both ways, one after the other. Standard output gets a line of JSON per GPU,
// {"gpu", "to_gpu", "from_gpu"} in bytes per second.
int launch_copies();

}  // namespace panpipe::exec
