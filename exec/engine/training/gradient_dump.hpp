// The gradients of a step as a file, whole on rank 0 whatever the placement.
#pragma once

#include <string>

namespace panpipe::exec {

class Trainer;

// Called by every rank between the reductions and the update. F32, divided by `loss_scale`, under the parameters' own names; a
// tied parameter under each of its names. MachineError on rank 0 when the file cannot be written.
void dump_gradients(const Trainer& trainer, double loss_scale, const std::string& path);

}  // namespace panpipe::exec
