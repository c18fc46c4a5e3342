// The order in which microbatches of unequal length run (docs/unequal-microbatches.md).
#pragma once

#include "costmodel/plan/plan.hpp"

namespace panpipe {

// True if the scenario asks for a search (`batch.order`) and its microbatches differ.
bool searches_order(const Scenario& scenario);

// Permutes the microbatches of each replica for the shortest estimated step that fits into memory as well as the order given:
// first whole classes of length in every order, as DynaPipe does (arXiv 2311.10418), then exchanges of two, from the best. The
// plan is left alone if nothing is shorter. The result depends on nothing but the arguments.
void order_microbatches(const Scenario& scenario, const CostModel& model, Plan& plan);

}  // namespace panpipe
