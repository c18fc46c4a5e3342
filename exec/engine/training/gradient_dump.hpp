// Writes the gradients of a step to a file, whole on rank 0, for any placement.
#pragma once

#include <string>

namespace panpipe::exec {

class Trainer;

// All ranks call this between the reductions and the update. Values are F32, divided by `loss_scale`, under the parameters' own
// names; a tied parameter appears under each of its names. Throws MachineError on rank 0 if the file cannot be written.
void dump_gradients(const Trainer& trainer, double loss_scale, const std::string& path);

}  // namespace panpipe::exec
