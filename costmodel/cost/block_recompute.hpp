// Recompute that a scenario describes more closely than by a mode: kinds of operators, one block in so many. Internal to this
// folder.
#pragma once

#include <vector>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/cost/unit_view.hpp"

namespace panpipe {

// Of a unit, where the backward of its block makes the results of the listed kinds of operators again.
struct UnitRecompute {
  Bytes kept{0};  // what the forward leaves: what the backward reads and nothing makes again, and what that is made from
  std::vector<bool> again;  // the unit's operators that run again
  std::vector<bool> whole;  // of these, those of a module that runs again as a whole, with all that it communicates
};

// Per unit of the graph; units of no block have neither. A result is made again only if the backward reads it, or something that
// is made again does, or where its module runs again as a whole. Results of reductions over the tensor-parallel ranks are kept;
// gathers run again. Throws InputError where a listed module is not in the graph.
std::vector<UnitRecompute> recompute_in_blocks(const OperatorGraph& graph, const TensorUse& use, const RecomputeScope& scope,
                                               const DeviceRates& rates);

// Leaves of the recompute modes nothing in blocks whose number, from 1, `every` does not divide.
void recompute_one_block_in(int every, WorkloadCost& cost);

}  // namespace panpipe
