#include "exec/engine/weights/model_folder.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/json_input.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/models.hpp"
#include "exec/engine/checkpoint/state_files.hpp"
#include "exec/engine/weights/published_weights.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

ordered_json json_of(const panpipe::Node& node) {
  if (node.kind == NodeKind::Map) {
    ordered_json map = ordered_json::object();
    for (const auto& entry : node.entries) map[entry.key] = json_of(*entry.value);
    return map;
  }
  if (node.kind == NodeKind::Sequence) {
    ordered_json list = ordered_json::array();
    for (const auto& item : node.items) list.push_back(json_of(*item));
    return list;
  }
  if (node.quoted) return node.text;
  if (node.kind == NodeKind::Null || node.text == "~") return nullptr;
  const ordered_json value = ordered_json::parse(node.text, nullptr, false);
  return value.is_discarded() ? ordered_json(node.text) : value;
}

// The scenario's `workload.config`, a file or a map.
ordered_json given_config(const Scenario& scenario) {
  if (scenario.workload.config_file.empty()) return json_of(*scenario.document->find("workload")->find("config"));
  return parse_json<ordered_json>(input_bytes(scenario.workload.config_file).value_or(""), scenario.workload.config_file);
}

// GPT2Config and LlamaConfig of the built-in families.
ordered_json built_in_config(const WorkloadRequest& workload) {
  const ModelDimensions d = resolve(*find_model(workload.model), workload);
  if (model_type_of(workload) == "gpt2")
    return {{"model_type", "gpt2"},       {"n_layer", d.layers},        {"n_embd", d.hidden},
            {"n_head", d.heads},          {"n_inner", d.ffn},           {"n_positions", std::max(d.positions, d.sequence)},
            {"vocab_size", d.vocabulary}, {"layer_norm_epsilon", 1e-5}, {"tie_word_embeddings", d.tied_embedding}};
  return {{"model_type", "llama"},
          {"num_hidden_layers", d.layers},
          {"hidden_size", d.hidden},
          {"num_attention_heads", d.heads},
          {"num_key_value_heads", key_value_heads(d)},
          {"head_dim", features_of_head(d)},
          {"intermediate_size", d.ffn},
          {"max_position_embeddings", d.sequence},
          {"vocab_size", d.vocabulary},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", d.tied_embedding}};
}

// Fewer layers than the configuration has: the first ones.
void keep_layers(ordered_json& config, int layers) {
  for (const char* key : {"num_hidden_layers", "n_layer"})
    if (config.contains(key)) config[key] = layers;
  for (auto& [key, value] : config.items())
    if (key.ends_with("layer_types") && value.is_array() && value.size() > static_cast<std::size_t>(layers))
      value.erase(value.begin() + layers, value.end());
}

std::string class_name(const Scenario& scenario) {
  if (scenario.workload.config) return scenario.workload.config->model;
  return model_type_of(scenario.workload) == "gpt2" ? "GPT2LMHeadModel" : "LlamaForCausalLM";
}

std::string type_of_weights(Precision precision) {
  if (precision == Precision::Bf16Pure) return "bfloat16";
  return precision == Precision::Fp16Pure ? "float16" : "float32";
}

ordered_json config_of(const Scenario& scenario) {
  ordered_json config = scenario.workload.config ? given_config(scenario) : built_in_config(scenario.workload);
  if (scenario.workload.layers > 0 && scenario.workload.config) keep_layers(config, scenario.workload.layers);
  config["architectures"] = {class_name(scenario)};
  if (scenario.workload.config && scenario.workload.config->dimensions.traits.experts.groups > 1)
    config["n_group"] = config["topk_group"] = 1;  // experts were chosen from all groups
  if (const int further = scenario.workload.config ? scenario.workload.config->dimensions.traits.further_tokens : 0; further > 0)
    config["num_nextn_predict_layers"] = further;
  config.erase("quantization_config");
  config.erase("torch_dtype");
  config["dtype"] = type_of_weights(scenario.precision);
  return config;
}

StatePart model_part(const Trainer& trainer, const StoredModel& model) {
  StatePart part;
  part.file = fmt::format("model-{:05}-of-{:05}.safetensors", trainer.transport().rank() + 1, trainer.transport().size());
  for (NamedState& entry : trainer.model_state())
    if (entry.parameter->role == TensorRole::Parameter || is_trained_state(*entry.parameter))
      part.state.push_back(std::move(entry));
  part.form = [model](const NamedState& entry) { return stored_forms(*entry.parameter, model).front(); };
  return part;
}

// Rank 0: one file by the name of a whole model, or an index of several.
void write_index(const fs::path& folder, const std::vector<json>& shares) {
  std::vector<std::string> files;
  ordered_json map = ordered_json::object();
  std::int64_t bytes = 0;
  for (const json& share : shares) {
    for (const json& file : share.at("files")) {
      files.push_back(file.at("name"));
      bytes += file.at("bytes").get<std::int64_t>();
    }
    for (const auto& [tensor, file] : share.at("tensors").items()) map[tensor] = file;
  }
  if (files.size() == 1) return fs::rename(folder / files.front(), folder / kWholeName);
  write_text_file(folder / kIndexName, ordered_json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(2) + "\n");
}

}  // namespace

void check_exported_model(const Scenario& scenario) {
  const std::string type = model_type_of(scenario.workload);
  if (scenario.workload.config || type == "gpt2" || type == "llama") return;
  throw fault_at(scenario, "workload", "--export writes models that transformers has a class for, and this is none",
                 "models by config.json, and those of the families gpt and llama, can be exported");
}

void write_model_folder(const Trainer& trainer, const std::string& directory) {
  const Scenario& scenario = trainer.run().experiment.scenario;
  fs::path folder = fs::path(directory).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "out/"
  const fs::path unfinished = folder.string() + ".unfinished";
  const std::vector<StatePart> parts = {model_part(trainer, stored_model(scenario.workload))};
  write_folder(trainer, "writing the model " + directory, parts, unfinished, folder, [&](const std::vector<json>& shares) {
    write_index(unfinished, shares);
    write_text_file(unfinished / "config.json", config_of(scenario).dump(2) + "\n");
  });
}

}  // namespace panpipe::exec
