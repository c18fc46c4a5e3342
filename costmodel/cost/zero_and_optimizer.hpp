// The optimizer's state per parameter, and the ZeRO stage that divides it (docs/models/memory-terms.md).
#pragma once

#include <string>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// Number of tensors of the parameters' size that the optimizer keeps in addition to the weights.
int moments(const std::string& optimizer);

// Bytes of an element of the weights that the step updates: of the master copy if there is one.
double updated_bytes(const Scenario& scenario);

// Bytes per parameter in a checkpoint, stored once for all ranks: the fp32 master if there is one, else the weight, and the
// optimizer's moments. Matches the executor's files (docs/models/checkpoints.md).
double checkpoint_bytes_per_parameter(const Scenario& scenario);

// Bytes per parameter of the states that lie on the host and stream through the devices, which update them.
double streamed_state_bytes(const Scenario& scenario);

// The effective ZeRO stage. Stage 1 divides the optimizer state over the ranks of a shard group, 2 also the gradients, 3 also the
// weights (Rajbhandari et al., arXiv 1910.02054). A framework's distributed optimizer is stage 1. Where one rank alone holds
// every weight, or is a shard group, nothing is divided: stage 0.
int zero_in_effect(const Framework& framework, const Degrees& degrees);

// Where the fp32 weights are. Autocast's weights that ZeRO 2 or 3 divides are FSDP's shards.
MixedPrecision mixed_precision_in_effect(const Framework& framework, const Degrees& degrees);

// Bytes that the optimizer's step allocates: for each element that a rank updates, and for each of its largest parameter.
struct OptimizerTemporary {
  double all = 0, largest = 0;
};
OptimizerTemporary optimizer_temporary(const Scenario& scenario);

// Bytes in which the optimizer's step holds the gradients of a group of the `elements` that a rank updates.
double grouped_gradients(const Scenario& scenario, const Degrees& degrees, double elements);

// Bytes of the buffers in which gradients are reduced, whatever their number.
double reduction_buckets(const Scenario& scenario, const Degrees& degrees);

// True if ranks hold the sum of whole gradients until a step's last microbatch, although ZeRO divides them.
bool keeps_whole_gradients(const Scenario& scenario, const Degrees& degrees);

}  // namespace panpipe
