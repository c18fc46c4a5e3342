#include "exec/engine/weights/published_weights.hpp"

#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/cached_document.hpp"
#include "base/input/json_input.hpp"
#include "base/text/first_few.hpp"
#include "costmodel/scenario/at_key.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/models.hpp"
#include "exec/engine/checkpoint/manifest.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Masks and tables that older files hold in addition to the parameters: the model makes them itself.
bool is_of_no_parameter(const std::string& name) {
  constexpr std::array kEnds = {".attn.bias",           ".attn.masked_bias",        ".attention.bias", ".attention.masked_bias",
                                ".rotary_emb.inv_freq", ".embeddings.position_ids", ".slope_rate",     ".query_decay",
                                ".key_decay",           ".diagonal_decay"};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](const char* end) { return name.ends_with(end); });
}

// A table of positions may be longer than the sequence: positions beyond it are not used.
bool is_of_positions(const std::string& name) {
  return name.ends_with(".wpe.weight") || name.ends_with(".embed_positions.weight") ||
         name.ends_with(".position_embeddings.weight");
}

json json_file(const fs::path& path) {
  const std::optional<std::string> text = input_bytes(path);
  if (!text) throw InputError(fmt::format("cannot read {}", path.string()));
  register_input(path.string());
  return parse_json<json>(*text, path.string());
}

// Parameters by root, with the names of those that are tied to each.
std::map<std::string, std::vector<std::string>> tied_names(const OperatorGraph& graph) {
  std::map<std::string, std::vector<std::string>> names;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].role != TensorRole::Parameter) continue;
    const auto root = static_cast<std::size_t>(root_of(graph, static_cast<int>(i)));
    std::vector<std::string>& others = names[graph.tensors[root].name];
    if (root != i) others.push_back(graph.tensors[i].name);
  }
  return names;
}

}  // namespace

InputError PublishedWeights::fault(const std::string& message, const std::string& help) const {
  return fault_at(*scenario_, "workload.weights", message, help);
}

PublishedWeights::PublishedWeights(const Scenario& scenario, const OperatorGraph& graph)
    : scenario_(&scenario), path_(scenario.workload.weights) {
  at_key(scenario, "workload.weights", [&] {
    open(path_);
    if (!own_ && !scenario.workload.config)
      check_config(fs::is_directory(path_) ? path_ : fs::path(path_).parent_path().string());
  });
  model_ = own_ ? StoredModel{} : stored_model(scenario.workload);
  if (!own_ && scenario.workload.config && !scenario.workload.config->not_computed.empty())
    throw fault(fmt::format("published weights of {} would compute something else here: the model leaves out {}",
                            scenario.workload.config->model, fmt::join(scenario.workload.config->not_computed, ", ")),
                "export the model with its weights instead: {pt2: FILE}");
  assign(graph);
}

void PublishedWeights::open(const std::string& path) {
  const fs::path folder(path);
  if (!fs::is_directory(folder)) return folder.extension() == ".json" ? open_index(path) : add_file(path);
  if (fs::exists(folder / kIndexName)) return open_index((folder / kIndexName).string());
  if (fs::exists(folder / kWholeName)) return add_file((folder / kWholeName).string());
  if (!fs::exists(folder / "manifest.json"))
    throw InputError(fmt::format("the folder {} holds neither {} nor {}, nor a checkpoint", path, kWholeName, kIndexName));
  own_ = true;
  for (const WrittenFile& file : read_manifest(path).files)
    if (file.name.rfind("model-", 0) == 0) add_file((folder / file.name).string());
}

void PublishedWeights::add_file(const std::string& path) {
  files_.emplace_back(path);
  for (const auto& [name, tensor] : files_.back().tensors())
    if (!file_of_.emplace(name, files_.size() - 1).second)
      throw InputError(fmt::format("{} holds '{}', and {} does too", path, name, files_[file_of_.at(name)].path()));
}

void PublishedWeights::open_index(const std::string& path) {
  const json root = json_file(path);
  const json map = root.is_object() ? root.value("weight_map", json()) : json();
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      throw InputError(fmt::format("{}: '{}' is in no file of the folder", path, tensor));
    names.insert(file.get<std::string>());
  }
  if (names.empty()) throw InputError(fmt::format("{} has no weight_map", path));
  for (const std::string& name : names) add_file((fs::path(path).parent_path() / name).string());
  for (const auto& [tensor, file] : map.items()) {
    const auto found = file_of_.find(tensor);
    if (found == file_of_.end() || fs::path(files_[found->second].path()).filename() != file.get<std::string>())
      throw InputError(fmt::format("{} puts '{}' into {}, which does not hold it", path, tensor, file.get<std::string>()));
  }
}

// Numbers that the built-in models fix, or that no shape shows: with others the weights would compute something else.
void PublishedWeights::check_config(const std::string& folder) const {
  const fs::path path = fs::path(folder) / "config.json";
  if (!fs::exists(path)) return;
  const json config = json_file(path);
  if (!config.is_object()) throw InputError(fmt::format("{} is not an object", path.string()));
  const auto refuse = [&](const std::string& key, const json& value, const std::string& ours) {
    throw InputError(fmt::format("{} says {} {}; the built-in model has {}", path.string(), key, value.dump(), ours));
  };
  const auto number = [&](const json& of, const char* key, double ours) {
    const json value = of.value(key, json());
    if (value.is_number() && std::abs(value.get<double>() - ours) > 1e-9 * std::abs(ours))
      refuse(key, value, fmt::format("{:g}", ours));
  };
  const auto count = [&](std::initializer_list<const char*> keys, const char* dimension) {
    const std::string wanted = fmt::format("workload.{}", dimension);
    const auto resolved = std::find_if(scenario_->resolved.begin(), scenario_->resolved.end(),
                                       [&](const ResolvedValue& value) { return value.path == wanted; });
    if (resolved == scenario_->resolved.end()) return;
    for (const char* key : keys)
      if (const json value = config.value(key, json()); value.is_number_integer() && value.dump() != resolved->value)
        refuse(key, value, fmt::format("{} {}", resolved->value, dimension));
  };
  count({"n_head", "num_attention_heads"}, "heads");
  count({"num_key_value_heads"}, "kv_heads");
  count({"n_layer", "num_hidden_layers"}, "layers");
  number(config, "layer_norm_epsilon", 1e-5);
  number(config, "rms_norm_eps", 1e-5);
  number(config, "rope_theta", 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json rope = config.value(key, json());
    if (!rope.is_object()) continue;
    number(rope, "rope_theta", 10000);
    for (const char* kind : {"rope_type", "type"})
      if (const json type = rope.value(kind, json("default")); type != "default")
        refuse(fmt::format("{}.{}", key, kind), type, "\"default\"");
  }
  for (const auto& [key, ours] : {std::pair("activation_function", std::set<std::string>{"gelu_new", "gelu_pytorch_tanh"}),
                                  {"hidden_act", {"silu", "swish"}}})
    if (const json value = config.value(key, json()); value.is_string() && ours.count(value.get<std::string>()) == 0)
      refuse(key, value, *ours.begin());
  const auto document = cached_document(path.string());
  if (document->find("model_type") == nullptr && document->find("architectures") == nullptr) return;
  const ModelConfig read = read_model_config(*document, 0);
  if (!read.not_followed.empty()) throw InputError(read.not_followed);
}

// The name that the class with the head writes, or that of the model inside it, without the first part. Empty: the files have
// neither.
std::string PublishedWeights::found_name(const std::string& name) const {
  if (file_of_.count(name) > 0) return name;
  const std::string inner = name.substr(name.find('.') + 1);
  const bool has_inner = name.rfind("transformer.", 0) == 0 || name.rfind("model.", 0) == 0;
  return has_inner && file_of_.count(inner) > 0 ? inner : "";
}

StoredForm PublishedWeights::found_form(const Tensor& tensor) const {
  std::vector<StoredForm> forms;
  if (own_)
    forms = {{StoredLayout::Whole, {{tensor.name, whole_shape(tensor)}}}};
  else
    forms = stored_forms(tensor, model_);
  for (StoredForm& form : forms) {
    for (StoredPart& part : form.parts) part.name = found_name(part.name);
    if (std::none_of(form.parts.begin(), form.parts.end(), [](const StoredPart& part) { return part.name.empty(); }))
      return std::move(form);
  }
  return {};
}

PublishedWeights::Entry PublishedWeights::entry_of(const Tensor& tensor, StoredForm form) const {
  Entry entry;
  for (StoredPart& part : form.parts) {
    const StoredTensor& found = files_[file_of_.at(part.name)].tensors().at(part.name);
    const bool longer = is_of_positions(tensor.name) && found.shape.size() == 2 && found.shape[0] > part.shape[0];
    if (longer) entry.rows = part.shape[0], part.shape[0] = found.shape[0];
    if (found.shape != part.shape)
      throw fault(fmt::format("'{}' has shape ({}); the model's {} wants ({})", part.name, fmt::join(found.shape, ", "),
                              tensor.name, fmt::join(part.shape, ", ")),
                  "give the model the dimensions of the file");
    if (!at::isFloatingType(found.dtype))
      throw fault(fmt::format("'{}' holds {}; weights are real numbers", part.name, safetensors_name(found.dtype)));
  }
  entry.form = std::move(form);
  return entry;
}

void PublishedWeights::assign(const OperatorGraph& graph) {
  std::vector<std::string> missing;
  const auto tied = tied_names(graph);
  for (const Tensor& tensor : graph.tensors) {
    const auto names = tied.find(tensor.name);
    const bool parameter = tensor.role == TensorRole::Parameter && names != tied.end() && tensor.tied_to < 0;
    if (!parameter && !is_trained_state(tensor)) continue;
    StoredForm form = found_form(tensor);
    std::vector<std::string> more;
    if (parameter)
      for (const std::string& other : names->second) {
        const std::string name = found_name(other);
        if (name.empty()) continue;
        if (form.parts.empty())
          form = {StoredLayout::Whole, {{name, whole_shape(tensor)}}};
        else
          more.push_back(name);
      }
    if (parameter && tensor.name == "lm_head.weight")  // copies of layers that predict further tokens
      for (const auto& [name, file] : file_of_)
        if (name.ends_with(".shared_head.head.weight")) more.push_back(name);
    if (!form.parts.empty()) {
      Entry entry = entry_of(tensor, std::move(form));
      entry.tied = std::move(more);
      entries_.emplace(tensor.name, std::move(entry));
    } else if (parameter) {
      missing.push_back(tensor.name);
    }
  }
  check_all_used(missing);
}

void PublishedWeights::check_all_used(const std::vector<std::string>& missing) const {
  std::set<std::string> used;
  for (const auto& [name, entry] : entries_) {
    used.insert(entry.tied.begin(), entry.tied.end());
    for (const StoredPart& part : entry.form.parts) used.insert(part.name);
  }
  // Layers that predict further tokens, which the model may leave out: DeepSeek's begin with a product of two streams.
  std::vector<std::string> further = {"mtp."};
  constexpr std::string_view kJoin = "eh_proj.weight";
  for (const auto& [name, file] : file_of_)
    if (name.ends_with(kJoin)) further.push_back(name.substr(0, name.size() - kJoin.size()));
  const auto left_out = [&](const std::string& name) {
    return is_of_no_parameter(name) ||
           std::any_of(further.begin(), further.end(), [&](const std::string& layer) { return name.starts_with(layer); });
  };
  std::vector<std::string> foreign;
  for (const auto& [name, file] : file_of_)
    if (used.count(name) == 0 && !own_ && !left_out(name)) foreign.push_back(name);
  if (!missing.empty())
    throw fault(fmt::format("{} lacks {}", path_, first_few(missing)),
                missing.size() == 1 && missing.front() == "lm_head.weight"
                    ? "a file without a head is of a model that ties it to the embedding: workload.tied_embedding: true"
                : foreign.empty() ? ""
                                  : fmt::format("it holds {}, which this model does not have", first_few(foreign)));
  if (!foreign.empty())
    throw fault(fmt::format("{} holds {}, which the model does not have", path_, first_few(foreign)),
                "give the model the dimensions of the file");
}

at::Tensor PublishedWeights::read(const Tensor& tensor) const {
  const Entry& entry = entries_.at(tensor.name);
  const auto values = [&](const std::string& name) {
    const SafetensorsFile& file = files_[file_of_.at(name)];
    return entry.rows >= 0 ? file.read_rows(name, 0, entry.rows) : file.read(name);
  };
  std::vector<at::Tensor> parts;
  for (const StoredPart& part : entry.form.parts) parts.push_back(values(part.name));
  for (const std::string& other : entry.tied)
    if (!at::equal(parts[0], values(other)))
      throw fault(fmt::format("'{}' and '{}' differ, and the model ties the one to the other", entry.form.parts[0].name, other),
                  "give the model a head of its own: workload.tied_embedding: false");
  return whole_of_parts(entry.form, parts);
}

bool is_trained_state(const Tensor& tensor) {
  return tensor.role == TensorRole::Buffer && (tensor.init == "zeros" || tensor.init == "ones");
}

std::string model_type_of(const WorkloadRequest& workload) {
  if (workload.config) return workload.config->type;
  const BuiltInModel* model = find_model(workload.model);
  if (model == nullptr) return "";
  return model->family->name == "gpt" ? "gpt2" : std::string(model->family->name);
}

StoredModel stored_model(const WorkloadRequest& workload) {
  StoredModel model{model_type_of(workload)};
  if (workload.config && workload.config->rotary_pairs) model.latent = workload.config->dimensions.traits.latent;
  if (workload.config) {
    model.linear = workload.config->dimensions.traits.linear;
    model.index_features = workload.config->dimensions.traits.index.features;
  }
  return model;
}

std::shared_ptr<const PublishedWeights> published_weights(const Scenario& scenario, const OperatorGraph& graph) {
  if (scenario.workload.weights.empty()) return nullptr;
  return std::make_shared<const PublishedWeights>(scenario, graph);
}

}  // namespace panpipe::exec
