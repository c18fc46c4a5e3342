// Blocks whose activations or gradients lie in the host's memory and stream over its link while other blocks run. Internal to
// this folder.
#pragma once

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

// Marks the first `count` blocks of the model, and the inputs of the others if `inputs` is set: what a microbatch keeps of them
// goes to the host as the forward goes on, and comes back before the backward needs it.
void stream_activations(int count, bool inputs, WorkloadCost& cost);

// The sums of trained weights' gradients, of so many bytes an element: each backward reads and writes them. Two units' gradients
// are on the device, those that are made and those that leave.
void stream_gradients(double bytes_each, WorkloadCost& cost);

}  // namespace panpipe
