// The parts of panpipe-exec for `panpipe selftest`, apart from runs and profiles, and their start.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace panpipe::exec {

// A check of a transport's contract on this machine.
struct ContractRequest {
  std::string transport = "local";  // local | gloo | nccl
  std::string device = "cpu";       // cpu | cuda: device of the tensors; ranks share GPUs if there are fewer GPUs
  int ranks = 2;
};
void add_contract_options(CLI::App& app, ContractRequest& request);

// Runs every case over this many ranks, one process each, or one in total for the transport local. Prints a line of JSON per case
// to standard output, {"case", "rule", "broken": ["rank 1: ..."], "seconds"}. Returns 0 if all rules are kept, 1 if one is broken
// or a rank was lost. Throws MachineError with an explanation if this build has no executor.
int launch_contract(const ContractRequest& request);

// Copies between host memory and each GPU, in both directions, one after the other. Prints a line of JSON per GPU to standard
// output, {"gpu", "to_gpu", "from_gpu"} in bytes per second.
int launch_copies();

}  // namespace panpipe::exec
