// A model from a `config.json` of Hugging Face's transformers: dimensions and traits, without torch. Absent keys take the class's
// defaults of transformers 5.23 (docs/models/workloads.md lists the classes).
#pragma once

#include <string>
#include <vector>

#include "base/input/reader.hpp"
#include "costmodel/workload/models.hpp"

namespace panpipe {

struct ModelConfig {
  std::string type;   // "qwen3_moe"
  std::string model;  // for messages and tables: the class's name, "Qwen3MoeForCausalLM"
  ModelDimensions dimensions;
  OperatorGraph (*build)(const std::string& model, const ModelDimensions&, const WorkloadShape&) = nullptr;
  std::vector<ResolvedValue> values;     // "hidden", "4096", origin: the file's line, or "default of LlamaConfig"
  std::vector<std::string> assumptions;  // differences between the file and the model as built here, one sentence each
  // The differences that change the results of published weights: "yarn scaling of rotary positions".
  std::vector<std::string> not_computed;
  // The keys of the file that the model here does not follow: unknown ones, and those with a value that changes what the class
  // computes. Predictions report them as assumptions; nothing is trained with them.
  std::vector<Diagnostic> not_followed;
  bool rotary_pairs = false;  // published weights rotate neighbouring features; this model rotates halves (DeepSeek)
};

// Reads the file. `sequence` 0 means all positions of the model; `layers` 0 means all layers of the file, otherwise its first
// ones. Throws InputError with places for an unknown class, a wrong value, or dimensions that do not fit together.
ModelConfig read_model_config(const std::string& path, int sequence, int layers = 0);
// The same for a configuration written in place.
ModelConfig read_model_config(const Node& root, int sequence, int layers = 0);

// The known values of "model_type".
std::vector<std::string> model_config_types();

}  // namespace panpipe
