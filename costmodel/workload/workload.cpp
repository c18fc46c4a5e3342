#include "costmodel/workload/workload.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/input/declare.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/workload/archive.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/tuning.hpp"
#include "costmodel/workload/vocabulary_apart.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

std::string unknown_model(const std::string& name) {
  return fmt::format("unknown model '{}'{}", name, suggestion(name, model_names()));
}

// `layers` is a count with a model, and a file without one.
bool is_count(const Node& node) {
  return node.kind == NodeKind::Scalar && !node.text.empty() && node.text.find_first_not_of("+-.0123456789") == std::string::npos;
}

// Tokens: 4096, or 4k = 4 x 1024 as sequences are called. Other counts have no short form: a vocabulary of 32k has 32,000 words.
int read_sequence(MapReader& map) {
  const Node& node = *map.find("sequence");
  constexpr long long kMost = 1 << 20;
  const std::string& text = node.text;
  if (node.kind == NodeKind::Scalar && (text.ends_with('k') || text.ends_with('K'))) {
    const auto thousands = parse_integer(std::string_view(text).substr(0, text.size() - 1)).value;
    if (thousands && *thousands >= 1 && *thousands <= kMost) {
      map.log().resolved(node.path, std::to_string(1024 * *thousands), origin_of(node));
      return static_cast<int>(1024 * *thousands);
    }
  }
  return map.integer("sequence", 1);
}

void read_dropout(MapReader& map, WorkloadRequest& request) {
  request.dropout = map.number("dropout", Sign::NonNegative, 0.0);
  if (request.dropout >= 1) map.log().error(*map.find("dropout"), fmt::format("a dropout of {} leaves nothing", request.dropout));
}

void read_weights(MapReader& map, WorkloadRequest& request) {
  if (const Node* weights = map.find("weights"))
    request.weights = read_file_reference(*weights, map.log(), "file or folder of weights").value_or("");
}

void read_model(MapReader& map, WorkloadRequest& request) {
  ReadLog& log = map.log();
  const Node& name = *map.find("model");
  request.model = read_string(name, log).value_or("");
  const BuiltInModel* model = find_model(request.model);
  if (!request.model.empty() && !model)
    log.error(name, unknown_model(request.model), fmt::format("the models are {}", fmt::join(model_names(), ", ")),
              code::kUnknownName);
  for (const CountKey& count : kCounts) {
    const Node* value = map.find(count.key);
    if (!value) continue;
    if (count.asked == &WorkloadRequest::layers && value->kind == NodeKind::Scalar && !is_count(*value)) {
      log.error(*value, fmt::format("'{}' is not a number of layers", value->text),
                "with a model 'layers' is a count; a file of measured layers takes no 'model'");
      continue;
    }
    const bool known =
        !model || std::find(model->family->keys.begin(), model->family->keys.end(), count.key) != model->family->keys.end();
    if (!known) {
      log.error_at_key(map.node(), count.key, fmt::format("the model '{}' has no '{}'", request.model, count.key));
      continue;
    }
    request.*count.asked = count.asked == &WorkloadRequest::sequence ? read_sequence(map) : map.integer(count.key, 1);
  }
  if (map.has("tied_embedding")) request.tied_embedding = map.boolean("tied_embedding");
  map.find("tied_embedding");
  // Other families have no published files under the names of their parameters here.
  if (model && model->family->name != "gpt" && model->family->name != "llama" && map.find("weights") != nullptr)
    log.error(*map.find("weights"),
              fmt::format("weights are read into models by config.json and into the families gpt and llama, not into {}",
                          model->family->name));
  read_weights(map, request);
  read_dropout(map, request);
  if (!model || log.has_errors()) return;
  try {
    const ModelDimensions dimensions = resolve(*model, request);
    for (const CountKey& count : kCounts)
      if (!map.has(count.key) && dimensions.*count.resolved > 0)
        log.resolved(map.node().path.empty() ? count.key : map.node().path + "." + count.key,
                     std::to_string(dimensions.*count.resolved), fmt::format("derived: model {}", request.model));
  } catch (const InputError& error) {
    log.add_at(map.node(), error);
  }
}

// Keeps every byte count of a step within 64 bits.
void check_size(const ModelDimensions& d, const WorkloadShape& shape) {
  const double image = static_cast<double>(d.image) * d.image;
  const double tokens = shape.degrees.micro * std::max<double>(d.sequence, image);
  const double elements = tokens * std::max({1.0 * d.hidden, 1.0 * d.ffn, 1.0 * d.vocabulary / d.layers}) * d.layers;
  constexpr double kMostElements = 0x1p52;
  if (elements > kMostElements)
    throw InputError(
        fmt::format("a microbatch of {} samples makes more than 2^52 numbers; it is too large", shape.degrees.micro));
}

// Keys that do not apply to a file of layers, or that an exported program decides.
void refuse_tuning(MapReader& map, const char* what) {
  for (const char* key : {"lora", "frozen"})
    if (map.find(key) != nullptr)
      map.log().error_at_key(map.node(), key, fmt::format("{} say themselves what is trained", what),
                             "'lora' and 'frozen' are for built-in models and models by 'config'");
}

void read_file(MapReader& map, const char* key, const std::string& what, std::string& path) {
  if (const auto found = read_file_reference(*map.find(key), map.log(), what)) path = *found;
}

// `workload: {config: FILE, sequence: N}`: the file has the dimensions; the scenario states the choices of a run.
void read_config(MapReader& map, WorkloadRequest& request) {
  ReadLog& log = map.log();
  const Node& config = *map.find("config");
  const bool in_place = config.kind == NodeKind::Map;
  const auto file = in_place ? std::nullopt : read_file_reference(config, log, "configuration of a model");
  request.sequence = map.has("sequence") ? read_sequence(map) : 0;
  request.layers = map.has("layers") ? map.integer("layers", 1) : 0;
  read_weights(map, request);
  read_dropout(map, request);
  if (log.has_errors()) return;
  request.config_file = file.value_or("");
  request.config = read_or_log(log, [&] {
    return std::make_shared<ModelConfig>(in_place ? read_model_config(config, request.sequence, request.layers)
                                                  : read_model_config(*file, request.sequence, request.layers));
  });
  if (!request.config) return;
  const std::string path = map.node().path.empty() ? "" : map.node().path + ".";
  for (const ResolvedValue& value : request.config->values)
    if (!map.has(value.path)) log.resolved(path + value.path, value.value, value.origin);
}

// A model whose graph holds no part of experts has nothing to cut.
void require_experts(const Workload& workload, const WorkloadShape& shape) {
  const bool found = workload.graph && workload.graph->routing.experts > 0;
  if (!found && shape.expert_load.stated())
    throw InputError(fmt::format("'experts' says how tokens fall on experts, and {} has none; leave it out", workload.name));
  if (!found) require_degrees(shape, 0, workload.name);
}

// Only the builder of transformers divides sequences.
void refuse_context(const WorkloadShape& shape, const std::string& what) {
  if (shape.degrees.context > 1)
    throw InputError(
        fmt::format("{}: context parallelism is known for language models by name, dimensions or config.json alone; "
                    "set parallel.context to 1",
                    what));
}

Workload exported_workload(const std::string& file, const WorkloadShape& shape) {
  refuse_context(shape, file);
  if (shape.degrees.tensor > 1)
    throw InputError(fmt::format("{}: an exported model cannot be split by tensor parallelism; set parallel.tensor to 1", file));
  Workload workload;
  workload.name = file;
  workload.shape = shape;
  workload.graph = load_exported(file, shape.degrees.micro);
  require_experts(workload, shape);
  workload.parameters = workload.graph->parameter_count();
  workload.trained_parameters = workload.graph->trained_count();
  workload.model_flops = model_flops(*workload.graph) / static_cast<double>(shape.degrees.micro);
  return workload;
}

}  // namespace

WorkloadRequest read_workload(const Node& node, ReadLog& log) {
  MapReader map(node, log);
  WorkloadRequest request;
  const Node* layers = map.has("layers") ? node.find("layers") : nullptr;
  if (map.has("config")) {
    for (const char* other : {"model", "pt2"})
      if (map.find(other))
        log.error_at_key(node, other, fmt::format("'{}' and 'config' exclude each other", other), "", code::kConflict);
    request.tuning = read_tuning(map);
    read_config(map, request);
  } else if (map.has("model")) {
    if (map.find("pt2")) log.error_at_key(node, "pt2", "'pt2' and 'model' exclude each other", "", code::kConflict);
    request.tuning = read_tuning(map);
    read_model(map, request);
  } else if (map.has("pt2")) {
    if (layers) {
      map.find("layers");
      log.error_at_key(node, "layers", "'layers' and 'pt2' exclude each other", "", code::kConflict);
    }
    refuse_tuning(map, "exported models");
    read_file(map, "pt2", "exported model", request.pt2_file);
  } else if (layers && !is_count(*layers)) {
    refuse_tuning(map, "measured layers");
    read_file(map, "layers", "table of layers", request.layers_file);
  } else if (node.kind == NodeKind::Map) {
    if (layers)
      log.error(*layers, fmt::format("{} layers of which model? 'model' is missing", layers->text));
    else
      log.error(node, "the workload names no model",
                "write {model: gpt2-large}, {config: FILE} for a model's config.json, {layers: FILE} for measured layers, or "
                "{pt2: FILE} for an exported model");
    return request;  // no fault of each key as well
  }
  map.finish();
  return request;
}

Key workload_key() {
  std::vector<Key> keys = {declare("model", "a built-in model", form::text(), Page{"models/workloads.md"}),
                           declare("config", "a model's `config.json`, or that map in place", form::file(), kOpen,
                                   Page{"models/workloads.md#models-by-configjson"}),
                           declare("pt2", "an archive of `torch.export`, as `tools/export_model.py` writes it", form::file(),
                                   Page{"models/exported.md"})};
  for (const CountKey& count : kCounts) {
    keys.push_back(declare(count.key, count.meaning, form::whole(1), Otherwise{"the model's"}));
    if (count.asked == &WorkloadRequest::head_size) keys.back().example = "64";  // no built-in model states it
    if (count.asked == &WorkloadRequest::layers) keys.back().forms.push_back(form::file());
    if (count.asked == &WorkloadRequest::sequence) keys.back().forms.push_back(form::text());
  }
  const std::vector<Key> more = {
      declare("tied_embedding", "the head has the embedding's weights", form::truth(), Otherwise{"the model's"},
              Example{"false"}),
      declare("dropout", "share of activations dropped in training; below 1", form::number(Sign::NonNegative), Fallback{"0"}),
      declare("weights",
              "file or folder of published weights that a run of a model by `config.json`, or of a built-in GPT or Llama, begins "
              "with",
              form::file(), Otherwise{"drawn by `seed`"}, Page{"training.md#weights"}, ActsOn::Training),
      declare("lora", "low-rank adapters are trained, and nothing else; only in predictions",
              Inside{declare("rank", "width of the two factors", form::whole(1), kRequired, Example{"8"}),
                     declare("alpha", "the update is multiplied by alpha / rank", form::number(Sign::Positive),
                             Otherwise{"`rank`"}, Example{"16"}, ActsOn::Training),
                     declare("targets", "names of modules, or `all-linear`", form::text(), items(form::text()), kRequired),
                     declare("dropout", "share of the first factor's input that training drops; below 1",
                             form::number(Sign::NonNegative), Fallback{"0"}, Example{"0.05"}),
                     declare("base", "format of the frozen weights", Words{"bf16", "nf4"}, Fallback{"bf16"})},
              Page{"models/workloads.md#lora-and-frozen-parameters"}, InExports::Reported),
      declare("frozen", "patterns of names of parameters that are not trained; only in predictions", form::text(),
              items(form::text()), Page{"models/workloads.md#lora-and-frozen-parameters"}, InExports::Reported)};
  keys.insert(keys.end(), more.begin(), more.end());
  return declare("workload",
                 "the model: `{model: NAME}` with dimensions where they differ, `{config: FILE}`, `{pt2: FILE}`, or `{layers: "
                 "FILE}`, measured layers",
                 Inside{std::move(keys)}, kRequired, Page{"models/workloads.md"}, InExports::Stated);
}

Workload make_workload(const WorkloadRequest& request, const WorkloadShape& shape) {
  Workload workload;
  workload.shape = shape;
  if (shape.vocabulary_apart && !(request.pt2_file.empty() && request.layers_file.empty()))
    throw InputError("only the vocabulary of a built-in model, or of one by its config, is cut over the stages",
                     "leave the option vocabulary out of the schedule");
  if (!request.pt2_file.empty()) return exported_workload(request.pt2_file, shape);
  if (!request.layers_file.empty()) {
    refuse_context(shape, request.layers_file);
    workload.name = request.layers_file;
    workload.layers = load_layers(request.layers_file, shape.degrees.tensor);
    require_experts(workload, shape);
    return workload;
  }
  const BuiltInModel* model = find_model(request.model);
  if (!model && !request.config) throw InputError(unknown_model(request.model), "", code::kUnknownName);
  if (shape.degrees.micro < 1) throw InputError(fmt::format("a microbatch of {} samples is none", shape.degrees.micro));
  if (shape.degrees.tensor < 1) throw InputError(fmt::format("tensor parallelism of {} is none", shape.degrees.tensor));
  ModelDimensions dimensions = request.config ? request.config->dimensions : resolve(*model, request);
  dimensions.dropout = request.dropout;
  if (request.config && request.sequence > 0) dimensions.sequence = request.sequence;
  check_size(dimensions, shape);
  workload.name = request.config ? request.config->model : request.model;
  const auto build = request.config ? request.config->build : model->family->build;
  if (build != build_language_model && build != build_bert) refuse_context(shape, workload.name);
  WorkloadShape tuned = shape;
  tuned.tuning = request.tuning.any() ? &request.tuning : nullptr;
  workload.graph = build(workload.name, dimensions, tuned);
  require_experts(workload, shape);
  check_tuning(request.tuning, *workload.graph);
  workload.parameters = workload.graph->parameter_count();
  workload.trained_parameters = workload.graph->trained_count();
  workload.model_flops = model_flops(*workload.graph) / static_cast<double>(shape.degrees.micro);
  if (shape.vocabulary_apart) set_vocabulary_apart(*workload.graph, shape.degrees.pipeline);
  return workload;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const BuiltInModel& model : built_in_models()) names.emplace_back(model.name);
  return names;
}

int tokens_per_sample(const Workload& workload) {
  if (!workload.graph) return 0;
  for (const int input : workload.graph->inputs) {
    const Tensor& tensor = workload.graph->tensors[input];
    if (tensor.name == "input_ids" && tensor.shape.size() == 2)
      return static_cast<int>(tensor.shape[1] * workload.graph->degrees.context);
  }
  return 0;
}

}  // namespace panpipe
