// Ranks that share the cores of a host: what a profile of processors says of it, and what sharing costs. docs/models/profile.md
// has the formula and its limits.
#pragma once

#include <string>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// A host as the scenario's profile describes it, with the ranks of some degrees that share it. Cores 0: nothing is known (no
// profile, one of GPUs, one that does not say), and nothing is shared.
struct SharedCores {
  int cores = 0;
  int threads = 1;         // of a rank
  int profiled_ranks = 1;  // that computed side by side when the profile was made
  double ranks = 0;        // on one host

  bool crowded() const { return cores > 0 && ranks * threads > cores; }
};

SharedCores shared_cores(const Scenario& scenario, const Degrees& degrees);

// Busy ranks take so many times as long as each would with cores of its own: at least 1.
double slowdown_of(const SharedCores& host, double busy);

// Factor on the profile's pass times: the mean over a pipeline's step of what the ranks at work take, over what those that were
// profiled side by side took. 1 where every rank has its cores in the profile and in the step.
double pass_slowdown(const Scenario& scenario, const Degrees& degrees);
// The same for the optimizer step, which the devices of a rank do at the same time.
double optimizer_slowdown(const Scenario& scenario, const Degrees& degrees);

// "3 ranks share a host of 2 cores ...": what a prediction tells when ranks outnumber the cores; else empty.
std::string told_of_cores(const Scenario& scenario, int pipeline);

}  // namespace panpipe
