// What an optimizer keeps of a parameter, and which ZeRO stage divides it (docs/models/memory-terms.md).
#pragma once

#include <string>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// Tensors of the parameters' size that the optimizer keeps besides the weights.
int moments(const std::string& optimizer);

// What a checkpoint keeps of a parameter, once and not for each rank: the fp32 master where there is one, else the weight, and
// the optimizer's moments beside it. As the executor writes (docs/models/checkpoints.md).
double checkpoint_bytes_per_parameter(const Scenario& scenario);

// ZeRO's stage in effect: 1 optimizer, 2 gradients, 3 weights are divided over the ranks of a shard group (Rajbhandari et al.,
// arXiv 1910.02054). A framework's distributed optimizer is stage 1; a shard group of one rank divides nothing, which is stage 0.
int zero_in_effect(const Framework& framework, const Degrees& degrees);

}  // namespace panpipe
