// One cost per pass, for families that are searched for given costs.
#pragma once

#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

// Means over `stages` equal stages on devices of one type, in seconds: a stage's forward, input and weight gradient (with what
// recompute adds), the copy of what it saves to the host and back, and the transfer of what crosses a cut, the mean over all
// cuts, between the first two ranks. Where units have no times, the defaults of PassCosts.
PassCosts mean_pass_costs(const Cluster& cluster, const PlanRequest& request, const LoweringCosts& costs, int site, int stages);

// The times of every stage too, when the model is cut before these units.
void add_stage_costs(const PlanRequest& request, const LoweringCosts& costs, int site, const std::vector<int>& cuts,
                     PassCosts& means);

}  // namespace panpipe
