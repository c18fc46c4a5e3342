// The steps of `panpipe selftest`, in order. Each returns its result, without its name, and throws only Interrupted and
// MachineError.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/selftest/step.hpp"
#include "cli/selftest/trial.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "costmodel/profile/profile.hpp"

namespace panpipe::cli {

// 1. The parts that the device needs and `panpipe doctor` finds missing.
StepReport look_at_parts(const Trial& trial);
// 2. The contract over each transport of the machine.
StepReport try_transports(Trial& trial);
// 3. Training on several ranks equals training in one process.
StepReport try_equality(Trial& trial);
// 4. `panpipe profile` of a model sized for the device; compares measured links with the cluster's stated ones.
StepReport measure_links(Trial& trial);
// 5. The profiled model predicted and run.
StepReport predict_and_run(Trial& trial);
// 6. Clocks, power and heat during the steps before.
StepReport look_at_gpus(Trial& trial);

// The findings in the steps' measurements. These are separate functions so that tests can supply other machines.

std::vector<Trouble> troubles_of_parts(const Machine& machine, bool on_gpus);
std::vector<Trouble> troubles_of_gpus(const Gpus& gpus, const std::vector<GpuState>& states,
                                      const std::vector<PeersApart>& peers_apart);

struct MeasuredLink {
  int first = 0, second = 0;
  double latency = 0;    // seconds, of the smallest message
  double bandwidth = 0;  // bytes per second, of the largest message
};
std::vector<MeasuredLink> links_of(const Profile& profile);
// `stated` is nullptr if no links are stated. `own`: they come from the user's file, not a shipped one.
std::vector<Trouble> troubles_of_links(const std::vector<MeasuredLink>& links, const Cluster* stated, bool own);

// Copies between host memory and a GPU, bytes per second.
struct HostCopies {
  int gpu = 0;
  double to_gpu = 0, from_gpu = 0;
};
std::vector<Trouble> troubles_of_copies(const std::vector<HostCopies>& copies, const Cluster* stated, bool own);

// Loss and gradient norm of each step.
using TrainedSteps = std::vector<std::pair<double, double>>;
// The differences from the run in one process, as text; empty if there are none. Tolerances are relative.
std::string difference_of(const TrainedSteps& found, const TrainedSteps& expected, double of_losses, double of_norms);

// Findings in the output of a contract's child, with lines as in exec/launch/selftest_parts.hpp. `rules` counts the rules that
// were kept.
std::vector<Trouble> troubles_of_contract(const std::string& transport, const std::string& ranks, const ChildEnd& end,
                                          int& rules);

}  // namespace panpipe::cli
