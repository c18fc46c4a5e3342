// Ranks that share the cores of a host: the facts from a profile of processors, and the cost of sharing. docs/models/profile.md
// has the formula and its limits.
#pragma once

#include <string>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// A host from the scenario's profile, with the ranks that share it under some degrees. Cores are 0 if unknown (no profile, a
// profile of GPUs, or one that lacks the number); nothing is shared then.
struct SharedCores {
  int cores = 0;
  int threads = 1;         // per rank
  int profiled_ranks = 1;  // computing side by side when the profile was made
  double ranks = 0;        // on one host

  bool crowded() const { return cores > 0 && ranks * threads > cores; }
};

SharedCores shared_cores(const Scenario& scenario, const Degrees& degrees);

// Factor on the time of busy ranks compared with ranks on cores of their own: at least 1.
double slowdown_of(const SharedCores& host, double busy);

// Factor on the profile's pass times: the mean slowdown of the working ranks over a pipeline's step, divided by the slowdown
// during profiling. 1 if every rank has its own cores both in the profile and in the step.
double pass_slowdown(const Scenario& scenario, const Degrees& degrees);
// The same for the optimizer step, which the devices of a rank run at the same time.
double optimizer_slowdown(const Scenario& scenario, const Degrees& degrees);

// The note that a prediction shows if ranks outnumber the cores: "3 ranks share a host of 2 cores ..."; else empty.
std::string reported_cores(const Scenario& scenario, int pipeline);

}  // namespace panpipe
