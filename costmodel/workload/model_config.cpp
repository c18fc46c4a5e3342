#include "costmodel/workload/model_config.hpp"

#include <algorithm>

#include "base/input/cached_document.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "costmodel/workload/bounds.hpp"
#include "costmodel/workload/model_config_classes.hpp"
#include "costmodel/workload/model_config_vision.hpp"

namespace panpipe {
namespace {

const std::vector<ConfigClass>& classes() {
  static const std::vector<ConfigClass> table = [] {
    std::vector<ConfigClass> all = dense_classes();
    for (const auto& more : {expert_classes(), recent_classes(), recent_expert_classes(), hybrid_classes()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return table;
}

// `part`: of a model of text and images, where its keys stand at the top of the file; nullptr: the file's own type.
const ConfigClass* class_of(const Node& root, const char* part, ReadLog& log) {
  const Node* type = root.find("model_type");
  const Node* architectures = root.find("architectures");
  const std::string name = part ? part : type ? read_string(*type, log).value_or("") : "";
  const bool listed = architectures && architectures->kind == NodeKind::Sequence && !architectures->items.empty();
  const std::string class_name = listed ? architectures->items.front()->text : "";
  for (const ConfigClass& known : classes())
    if (type || part ? name == known.type : class_name == known.name) return &known;
  const std::vector<std::string> types = model_config_types();
  if (!type && !listed) {
    log.error(root, "this is no configuration of a model: it has neither 'model_type' nor 'architectures'",
              "config.json of a model on Hugging Face, or of save_pretrained, has both");
    return nullptr;
  }
  if (const Node* inner = root.find("text_config"); inner != nullptr && inner->kind == NodeKind::Map)
    log.error(type ? *type : *architectures,
              fmt::format("'{}' is a model of text and images, which is not known", type ? name : class_name),
              "its 'text_config' may be: write that part to a file of its own");
  else
    log.error(
        type ? *type : *architectures,
        fmt::format("unknown {} '{}'{}", type ? "model_type" : "architecture", type ? name : class_name, suggestion(name, types)),
        fmt::format("known are {}; any other model can be exported (tools/export_model.py)", fmt::join(types, ", ")),
        code::kUnknownName);
  return nullptr;
}

// The text part of a model of text and images, where its class is known and the whole's is not; nullptr otherwise.
const Node* text_part(const Node& root) {
  const Node *type = root.find("model_type"), *text = root.find("text_config");
  if (type == nullptr || text == nullptr || text->kind != NodeKind::Map) return nullptr;
  const Node* inner = text->find("model_type");
  const auto is_known = [](const Node* name) {
    return name != nullptr &&
           std::any_of(classes().begin(), classes().end(), [&](const ConfigClass& known) { return name->text == known.type; });
  };
  const bool named = inner == nullptr && vision_class(root) != nullptr;  // its class is the whole's
  return is_known(type) || !(named || is_known(inner)) ? nullptr : text;
}

// The whole's key, that of its text part, or the class's default.
bool whole_ties(const Node& root, const Node& text, bool own, ReadLog& log) {
  for (const Node* node : {&root, &text})
    if (const Node* key = node->find("tie_word_embeddings"); key != nullptr) return read_boolean(*key, log).value_or(own);
  return own;
}

// The other parts are not computed: predictions report it, nothing is trained.
void report_text_part(const Node& root, ModelConfig& made) {
  const std::string message =
      fmt::format("the text part of '{}' alone: images and other parts have no effect", root.find("model_type")->text);
  made.assumptions.push_back(message);
  made.not_followed.push_back(
      diagnostic_at_key(root, "text_config", message, "write text_config to a file of its own, to train that part alone"));
}

// Layers follow the model's type; a head of another class is reported.
void report_architecture(const Node& root, ModelConfig& made) {
  const Node* list = root.find("architectures");
  if (list == nullptr || list->kind != NodeKind::Sequence || list->items.empty()) return;
  const std::string& asked = list->items.front()->text;
  if (made.type == "bert" && asked == "BertForMaskedLM") made.model = asked;
  if (asked != made.model)
    made.assumptions.push_back(fmt::format("the model is built as {}, where architectures names {}", made.model, asked));
}

// transformers refuses heads that do not divide the hidden size, where nothing states a head's own.
void check_head_size(const ConfigReader& r, const ModelDimensions& d, ReadLog& log, const Node& root) {
  if (r.find({"head_dim"}) != nullptr || d.traits.latent.kv_rank > 0 || d.hidden % d.heads == 0) return;
  const Node* heads = r.find({"num_attention_heads", "n_head"});
  log.error(heads ? *heads : root, fmt::format("{} heads do not divide the hidden size {}", d.heads, d.hidden));
}

void read_dimensions(ConfigReader& r, const Defaults& defaults, bool learned, int sequence, ModelDimensions& d) {
  d.layers = r.dimension("layers", {"num_hidden_layers", "n_layer"}, 1, defaults.layers);
  d.hidden = r.dimension("hidden", {"hidden_size", "n_embd", "n_embed"}, 1, defaults.hidden);
  d.heads = r.dimension("heads", {"num_attention_heads", "n_head"}, 1, defaults.heads);
  // 0: the class derives it from others.
  const auto own = [&](const char* name, ConfigKeys keys, int own_number, int derived) {
    return own_number > 0 ? r.dimension(name, keys, 1, own_number) : r.integer(name, keys, 1, derived);
  };
  d.kv_heads = own("kv_heads", {"num_key_value_heads"}, std::min(defaults.kv_heads, d.heads), d.heads);
  d.head_size = own("", {"head_dim"}, defaults.head_size, std::max(1, d.hidden / d.heads));
  const int wide = 4 * std::min(d.hidden, kMostHidden);
  d.ffn = own("ffn", {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, defaults.ffn, wide);
  d.vocabulary = r.dimension("vocabulary", {"vocab_size"}, 1, defaults.vocabulary);
  // Read for scenarios without a sequence, and for tables of learned positions.
  const auto positions = sequence > 0 && !learned ? &ConfigReader::integer : &ConfigReader::dimension;
  d.positions = (r.*positions)("", {"max_position_embeddings", "n_positions", "seq_length"}, 1, defaults.positions);
  d.sequence = sequence > 0 ? sequence : d.positions;
  d.tied_embedding = r.flag({"tie_word_embeddings"}, defaults.tied);
}

void read_traits(ConfigReader& r, const ConfigClass& of, ModelDimensions& d) {
  TransformerTraits& t = d.traits = family_traits().*of.family;
  t.epsilon = r.number({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"}, of.defaults.epsilon);
  if (t.positions == Positions::Rotary)
    t.rotary_base = r.rotary("rope_theta", {"rope_theta", "rotary_emb_base"}, of.defaults.rotary_base);
  r.check_rotary();
  t.rotary_scaling = r.rotary_scaling();
  t.activation =
      r.activation({"hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act"}, t.activation);
  for (const Trait& read : of.traits) read(r, d);
}

}  // namespace

std::vector<std::string> model_config_types() {
  std::vector<std::string> types;
  for (const ConfigClass& known : classes()) types.emplace_back(known.type);
  return types;
}

ModelConfig read_model_config(const Node& root, int sequence, int layers) {
  const Node* document = &root;
  ReadLog log;
  ModelConfig made;
  if (document->kind != NodeKind::Map) log.error(*document, "a model's configuration is one object of keys and values");
  log.throw_if_errors();
  const VisionClass* whole = vision_class(root);
  const Node* text = text_part(root);
  if (text != nullptr) document = text;
  const bool named = whole == nullptr || (text != nullptr && text->find("model_type") != nullptr);
  const ConfigClass* known = class_of(*document, named ? nullptr : whole->text, log);
  log.throw_if_errors();
  made.type = known->type, made.model = known->name;
  if (whole == nullptr) report_architecture(*document, made);
  ConfigReader reader(*document, log, made);
  ModelDimensions& d = made.dimensions;
  read_dimensions(reader, known->defaults, (family_traits().*known->family).positions == Positions::Learned, sequence, d);
  if (d.layers > kMostLayers)
    log.error(root, fmt::format("'layers' of {} is {}, more than {}", made.model, d.layers, kMostLayers));
  log.throw_if_errors();  // lists of layers are counted by them
  read_traits(reader, *known, d);
  if (layers > d.layers)
    log.error(*document, fmt::format("{} layers are asked for, and the model has {}", layers, d.layers));
  else if (layers > 0)
    d.layers = layers;  // lists of layers stay longer: the first ones are taken
  add_further_layers(d);
  if (whole != nullptr) {
    reader.find({"vision_config", "images_per_sample", "image_size", "audio_config"});  // not of the text part
    d.tied_embedding = whole_ties(root, *document, whole->tied, log);
    d.tower = read_tower(root, *whole, d, log, made);
  }
  if (d.tower != nullptr)
    made.model = whole->name;
  else if (whole != nullptr || text != nullptr)
    report_text_part(root, made);
  if (d.traits.positions == Positions::Learned && d.sequence > d.positions)
    log.error(*document, fmt::format("a sequence of {} tokens is longer than the {} learned positions of the model", d.sequence,
                                     d.positions));
  if (const Node* quantized = reader.find({"quantization_config"}); quantized != nullptr)
    made.assumptions.emplace_back("quantized weights (quantization_config) are trained in the scenario's precision");
  reader.report_rest();
  if (known->defaults.head_size == 0) check_head_size(reader, d, log, root);
  log.throw_if_errors();
  made.build = made.type == "bert" ? build_bert : build_language_model;
  try {
    check_language_model(made.model, d);
  } catch (const InputError& error) {
    log.add_at(root, error);
    log.throw_if_errors();
  }
  return made;
}

ModelConfig read_model_config(const std::string& path, int sequence, int layers) {
  return read_model_config(*cached_document(path), sequence, layers);
}

std::vector<std::string> assumptions_of(const WorkloadRequest& request) {
  return request.config ? request.config->assumptions : std::vector<std::string>();
}

}  // namespace panpipe
