// What each slow device and each degraded link of a cluster costs: the step without it, next to the step with all of them (Lin et
// al., arXiv 2505.05713, who ask the same of measured timelines).
#pragma once

#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

struct Blame {
  std::string what;  // "device 3 (rank 1)", "node0.nic3"
  double share = 1;  // of the device's rate or of the link's bandwidth
  Duration step{0};  // without it
  Duration lost{0};  // by which it makes the step longer; negative where a collective changes its algorithm
};

// One for each, as the cluster states them. On idle links, with the same plan: costs an estimate each.
std::vector<Blame> blame_of(const Scenario& scenario, const Plan& plan);

// A sentence for each.
std::vector<std::string> blame_texts(const Scenario& scenario, const Plan& plan);

}  // namespace panpipe
