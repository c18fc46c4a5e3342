// A model as a folder that transformers' from_pretrained() loads: config.json, and the weights as safetensors under its names.
#pragma once

#include <string>

#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

// Throws InputError at the workload when its model has no class in transformers.
void check_exported_model(const Scenario& scenario);

// On every rank, behind the last step. Each writes what it stands for; rank 0 adds the index and the configuration and renames:
// the folder is whole or absent. Weights are those that the optimizer updates (fp32 under mixed precision). MachineError on
// every rank, naming the one that could not write and why.
void write_model_folder(const Trainer& trainer, const std::string& directory);

}  // namespace panpipe::exec
