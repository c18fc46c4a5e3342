// Microbatches of unequal length (docs/unequal-microbatches.md): each length has a graph of its own, with the same operators,
// tensors and parameters. A shorter one reads the first tokens of data and of tables of positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "exec/engine/stage/stage.hpp"

namespace panpipe::exec {

// What a worker needs to know of one length.
struct MicrobatchLength {
  const OperatorGraph* graph = nullptr;
  std::vector<std::int64_t> samples{};  // tokens of those in a sequence, which attend to themselves alone; empty: one
  double loss_weight = 1;               // of a microbatch's mean loss: its tokens over the mean of the step's microbatches
};

// One per length of the plan; empty if all microbatches are alike. Throws InputError at `batch.lengths` for what the executor
// does not run: sequences shared over ranks; packed samples in models whose operators mix tokens.
std::vector<MicrobatchLength> microbatch_lengths(const Experiment& experiment, const Plan& plan);

// Of (data replica, microbatch) in the plan's order: the microbatch of the step whose samples it has, which the scenario lists at
// that place. Empty if all microbatches are alike.
std::vector<int> listed_microbatches(const Scenario& scenario, const Plan& plan);

// The first elements of a tensor along each dimension in which `shape` is shorter.
at::Tensor first_part(at::Tensor whole, const Shape& shape);

}  // namespace panpipe::exec
