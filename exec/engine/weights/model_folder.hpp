// Writes a model as a folder for transformers' from_pretrained(): config.json, and the weights as safetensors under its names.
#pragma once

#include <string>

#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

// Throws InputError at the workload if its model has no class in transformers.
void check_exported_model(const Scenario& scenario);

// Call it on every rank after the last step. Each rank writes its share; rank 0 adds the index and the configuration and renames,
// so the folder is complete or absent. Weights are those that the optimizer updates (fp32 under mixed precision). On failure
// every rank throws MachineError with the failing rank and the reason.
void write_model_folder(const Trainer& trainer, const std::string& directory);

}  // namespace panpipe::exec
