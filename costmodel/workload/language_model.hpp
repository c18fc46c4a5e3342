// The dimensions and traits of a scenario's language model, for code that expresses them in the terms of other programs.
#pragma once

#include <optional>
#include <string>

#include "costmodel/workload/models.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {

struct LanguageModel {
  std::string type;  // as in config.json's "model_type"; for a built-in model "gpt2" or "llama"
  ModelDimensions dimensions;
};

// nullopt for all other workloads: encoders, images, measured layers, archives.
std::optional<LanguageModel> language_model_of(const WorkloadRequest& request);

}  // namespace panpipe
