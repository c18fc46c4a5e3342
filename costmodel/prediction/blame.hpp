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
  int device = -1;   // -1: a link
  int rank = -1;     // the device's rank of the pipeline; -1: it is not in use, or a link
  double share = 1;  // of the device's rate or of the link's bandwidth
  Duration step{0};  // without it
  Duration lost{0};  // by which it makes the step longer; negative where a collective changes its algorithm

  double of_step() const { return lost / (step + lost); }
};

// One for each, as the cluster states them. On idle links, with the same plan: costs an estimate each.
std::vector<Blame> blame_of(const Scenario& scenario, const Plan& plan);

std::string to_text(const Blame& blame);  // a sentence

}  // namespace panpipe
