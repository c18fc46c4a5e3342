// The heading of every answer for people, in one or two lines: the model, the cluster, the degrees, the schedule, the precision,
// the framework and the global batch.
//
//   gpt2-large (36 layers, hidden 1280, 774.0 M parameters) on 8 x RTX-3090 (clusters/rtx3090x8.yaml)
//   pipeline 8 x tensor 1 x data 1, 1f1b, fp16, framework eager; global batch 16 = 8 microbatches of 2 x 1 replica
#pragma once

#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe::present {

// For a plan. Every line ends with "\n".
std::string heading_of(const Scenario& scenario, const Workload& workload, const Plan& plan);

// For a search: the stated values, and the keys left open.
std::string heading_of_search(const Scenario& scenario, const Workload& workload);

// For a sweep over `keys` ("parallel.data"), with or without planning each cell: the facts that all cells share. `scenario` is
// that of any cell.
std::string heading_of_sweep(const Scenario& scenario, const Workload& workload, const std::vector<std::string>& keys,
                             bool planned);

// "16 x A100-80G-SXM in 2 nodes", "4 x H100-SXM and 4 x RTX3090".
std::string devices_of(const Cluster& cluster);

}  // namespace panpipe::present
