// Computes the costs of a workload's units. Internal to this folder.
#pragma once

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

struct Site;

// Units of an operator graph; their collectives run over the site's groups.
WorkloadCost cost_of_graph(const CostModel& model, const OperatorGraph& graph, const DeviceRates& rates,
                           const Calibration& calibration, const Site& site);

// Measured layers as units, with their times and bytes as given.
WorkloadCost cost_of_layers(const LayerTable& table);

}  // namespace panpipe
