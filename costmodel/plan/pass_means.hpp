// One mean cost per pass, for families that search their order for given costs.
#pragma once

#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

// Means over `stages` equal stages on devices of one type, in seconds: a stage's forward, input and weight gradient (including
// recompute), the copy of its saved bytes to the host and back, and the transfer across a cut, averaged over all cuts, between
// the first two ranks. Units without times give the defaults of PassCosts.
PassCosts mean_pass_costs(const Cluster& cluster, const PlanRequest& request, const LoweringCosts& costs, int site, int stages);

// Adds the times of every stage when the model is cut before these units.
void add_stage_costs(const PlanRequest& request, const LoweringCosts& costs, int site, const std::vector<int>& cuts,
                     PassCosts& means);

}  // namespace panpipe
