// Recompute given in more detail than a mode: kinds of operators, one block in so many. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

// A unit's recompute when the backward of its block recomputes the results of the listed kinds of operators.
struct UnitRecompute {
  Bytes kept{0};            // kept by the forward: inputs of the backward that are not recomputed, and inputs of the recompute
  Bytes weight_copies{0};   // of products that do not run again
  std::vector<int> inputs;  // tensors that earlier units of the block made and that are counted here, where they are read
  std::vector<bool> again;  // the unit's operators that run again
  std::vector<bool> whole;  // of these, the operators of modules that run again completely, including their communication
};

// Returns one entry per unit of the graph; units outside blocks have none set. A result is recomputed only if the backward or
// another recomputed operator reads it, or if its module runs again completely. Results of reductions over the tensor-parallel
// ranks are kept; gathers run again. Throws InputError if a listed module is not in the graph.
std::vector<UnitRecompute> recompute_in_blocks(const OperatorGraph& graph, const TensorUse& use, const RecomputeScope& scope,
                                               const DeviceRates& rates);

// Disables the recompute modes in every block whose number (from 1) is not a multiple of `every`.
void recompute_one_block_in(int every, WorkloadCost& cost);

}  // namespace panpipe
