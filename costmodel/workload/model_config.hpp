// A model from its `config.json` as Hugging Face's transformers writes it: dimensions and traits, without torch. Keys that are
// absent take the class's defaults of transformers 5.23 (docs/models/workloads.md lists the classes).
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
  std::vector<std::string> assumptions;  // what the file asks for and the model does otherwise, a sentence each
  // Of these, what makes published weights compute something else here: "yarn scaling of rotary positions".
  std::vector<std::string> not_computed;
  bool rotary_pairs = false;  // published weights turn neighbouring features; the model turns halves (DeepSeek)
};

// Reads the file; `sequence` 0 takes the most positions that the model has, `layers` 0 as many as the file says, else its first
// ones. Throws InputError with places: unknown class, a key with a wrong value, dimensions that do not fit together.
ModelConfig read_model_config(const std::string& path, int sequence, int layers = 0);
// The same of a configuration written in place.
ModelConfig read_model_config(const Node& root, int sequence, int layers = 0);

// The values of "model_type" that are known.
std::vector<std::string> model_config_types();

}  // namespace panpipe
