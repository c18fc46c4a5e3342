// Parameters with their own settings: no weight decay, another learning rate.
#pragma once

#include <map>

#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/graph.hpp"
#include "exec/engine/training/optimizer.hpp"

namespace panpipe::exec {

// The scenario's optimizer settings for every trained parameter, by root. They do not depend on how the model is cut. Throws
// InputError at a pattern that matches no parameter's name.
std::map<int, ParameterNumbers> parameter_numbers(const OperatorGraph& graph, const Scenario& scenario);

}  // namespace panpipe::exec
