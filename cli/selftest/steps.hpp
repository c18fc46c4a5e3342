// The steps of `panpipe selftest`, in their order. Each returns what came of it, and throws only Interrupted and MachineError.
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

// 1. What `panpipe doctor` finds missing of what the device needs.
StepReport look_at_parts(const Trial& trial);
// 2. The contract over each transport of the machine.
StepReport try_transports(Trial& trial);
// 3. Training on several ranks equals training in one process.
StepReport try_equality(Trial& trial);
// 4. `panpipe profile` of a model as large as the device asks for; what it says of links, beside what the cluster states.
StepReport measure_links(Trial& trial);
// 5. The profiled model predicted and run.
StepReport predict_and_run(Trial& trial);
// 6. Clocks, power, heat, while the steps before ran.
StepReport look_at_gpus(Trial& trial);

// What the steps find in what they measured; apart, so that tests can give them machines that are not here.

std::vector<Trouble> troubles_of_parts(const Machine& machine, bool on_gpus);
std::vector<Trouble> troubles_of_gpus(const Gpus& gpus, const std::vector<GpuState>& states,
                                      const std::vector<PeersApart>& peers_apart);

struct MeasuredLink {
  int first = 0, second = 0;
  double latency = 0;    // seconds, of the smallest message
  double bandwidth = 0;  // bytes per second, of the largest message
};
std::vector<MeasuredLink> links_of(const Profile& profile);
// `stated`: nullptr where nobody states the links; `own`: the user's file says so, not a shipped one.
std::vector<Trouble> troubles_of_links(const std::vector<MeasuredLink>& links, const Cluster* stated, bool own);

// Copies between the host's memory and a GPU's, bytes per second.
struct HostCopies {
  int gpu = 0;
  double to_gpu = 0, from_gpu = 0;
};
std::vector<Trouble> troubles_of_copies(const std::vector<HostCopies>& copies, const Cluster* stated, bool own);

// Loss and gradient norm of each step.
using TrainedSteps = std::vector<std::pair<double, double>>;
// What differs from one process's, in words; empty where nothing does. Tolerances are relative.
std::string difference_of(const TrainedSteps& found, const TrainedSteps& expected, double of_losses, double of_norms);

// What a contract's child said: lines of exec/launch/selftest_parts.hpp. `rules` counts those that were kept.
std::vector<Trouble> troubles_of_contract(const std::string& transport, const std::string& ranks, const ChildEnd& end,
                                          int& rules);

}  // namespace panpipe::cli
