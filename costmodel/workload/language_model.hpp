// A language model of a scenario as its dimensions and traits: for what says it in the words of other programs.
#pragma once

#include <optional>
#include <string>

#include "costmodel/workload/models.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {

struct LanguageModel {
  std::string type;  // as config.json's "model_type" says; of a built-in model "gpt2" or "llama"
  ModelDimensions dimensions;
};

// nullopt for every other workload: encoders, images, measured layers, archives.
std::optional<LanguageModel> language_model_of(const WorkloadRequest& request);

}  // namespace panpipe
