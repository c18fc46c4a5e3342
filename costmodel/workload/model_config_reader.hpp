// Reads the keys of one config.json and remembers where every value came from, which keys were looked up and which were not.
// Internal to this folder.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/input/null_value.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/model_config_keys.hpp"

namespace panpipe {

using ConfigKeys = std::vector<const char*>;

class ConfigReader {
 public:
  ConfigReader(const Node& root, ReadLog& log, ModelConfig& made) : root_(&root), log_(&log), made_(&made) {}

  // The first of the keys that the file has and that is not null; nullptr when it has none.
  const Node* find(ConfigKeys keys) const {
    known_.insert(keys.begin(), keys.end());
    for (const char* key : keys)
      if (const Node* value = root_->find(key); value != nullptr && !is_null(*value)) return value;
    return nullptr;
  }
  bool has(const char* key) const { return root_->find(key) != nullptr; }

  // `name` is Panpipe's word for the dimension; empty: it is not recorded.
  int integer(const char* name, ConfigKeys keys, int at_least, int fallback) {
    const Node* value = one_of_equal(find(keys));
    const int read = value ? read_integer(*value, *log_, at_least).value_or(fallback) : fallback;
    report(name, std::to_string(read), value);
    if (value == nullptr) derived_.insert_or_assign(*keys.begin(), read);
    return read;
  }
  // A dimension for which the class has a number of its own: reported where the file states none.
  int dimension(const char* name, ConfigKeys keys, int at_least, int fallback) {
    const std::string assumed = assumed_text(*keys.begin(), fallback);
    if (find(keys) == nullptr && std::find(absent_.begin(), absent_.end(), assumed) == absent_.end()) absent_.push_back(assumed);
    return integer(name, keys, at_least, fallback);
  }
  double number(ConfigKeys keys, double fallback) {
    const Node* value = find(keys);
    return value ? read_number(*value, *log_, Sign::Positive).value_or(fallback) : fallback;
  }
  // Like `number`, but null switches it off.
  double number_or_none(const char* key, double fallback) {
    known_.insert(key);
    const Node* value = root_->find(key);
    if (value != nullptr && is_null(*value)) return 0;
    return number({key}, fallback);
  }
  bool flag(ConfigKeys keys, bool fallback) {
    const Node* value = find(keys);
    return value ? read_boolean(*value, *log_).value_or(fallback) : fallback;
  }
  std::string text(ConfigKeys keys, const std::string& fallback) {
    const Node* value = find(keys);
    return value ? read_string(*value, *log_).value_or(fallback) : fallback;
  }
  // Tokens that a query sees. Null and absent differ, since a class may have a window by default.
  int window(const char* key, int fallback) {
    known_.insert(key);
    const Node* value = root_->find(key);
    if (value == nullptr) return fallback;
    return is_null(*value) ? 0 : read_integer(*value, *log_, 0).value_or(0);
  }
  // A number of the rotary positions: `rope_parameters` of newer files, `rope_scaling` and keys of their own in older ones.
  double rotary(const char* key, ConfigKeys old_keys, double fallback, const char* part = nullptr) {
    known_.insert(old_keys.begin(), old_keys.end());
    for (const char* folder : {"rope_parameters", "rope_scaling"}) {
      const Node* parameters = root_->find(folder);
      if (parameters != nullptr && part != nullptr && parameters->kind == NodeKind::Map) parameters = parameters->find(part);
      if (parameters == nullptr || parameters->kind != NodeKind::Map) continue;
      if (const Node* value = parameters->find(key); value != nullptr && !is_null(*value))
        return read_number(*value, *log_, Sign::Positive).value_or(fallback);
    }
    return number(old_keys, fallback);
  }
  Activation activation(ConfigKeys keys, Activation fallback) {
    const Node* value = find(keys);
    if (value == nullptr) return fallback;
    const std::string name = text(keys, "");
    for (const auto& [known, kind] :
         {std::pair("gelu", Activation::Gelu), std::pair("gelu_new", Activation::GeluTanh),
          std::pair("gelu_pytorch_tanh", Activation::GeluTanh), std::pair("gelu_fast", Activation::GeluTanh),
          std::pair("silu", Activation::Silu), std::pair("swish", Activation::Silu), std::pair("relu", Activation::Relu),
          std::pair("relu2", Activation::ReluSquared)})
      if (name == known) return kind;
    error(value, fmt::format("the activation '{}' is not known", name),
          "known are gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, silu, swish, relu and relu2");
    return fallback;
  }
  // Which layers a list of words names: `layer_types` with the word in it.
  std::vector<bool> layers_named(const char* key, const char* word, int layers) {
    const Node* list = find({key});
    if (list == nullptr || list->kind != NodeKind::Sequence) return {};
    if (static_cast<int>(list->items.size()) != layers)
      error(list, fmt::format("'{}' names {} layers, and the model has {}", key, list->items.size(), layers));
    std::vector<bool> named;
    for (const auto& item : list->items) named.push_back(item->text == word);
    named.resize(layers);
    return named;
  }
  std::vector<int> list(const char* key) {
    std::vector<int> numbers;
    const Node* value = find({key});
    if (value == nullptr || value->kind != NodeKind::Sequence) return numbers;
    for (const auto& item : value->items) numbers.push_back(read_integer(*item, *log_, 0).value_or(0));
    return numbers;
  }

  void error(const Node* at, const std::string& message, const std::string& help = "") {
    log_->error(at ? *at : *root_, message, help);
  }
  void turn_pairs(bool pairs) { made_->rotary_pairs = pairs; }
  // A computation of the published model that this one lacks.
  void leave_out(std::string what) { made_->not_computed.push_back(std::move(what)); }
  // Scaling of the rotary positions, in the form of the traits.
  std::string rotary_scaling() {
    const auto is = [&](const char* name) {
      for (const char* folder : {"rope_parameters", "rope_scaling"})
        for (const char* key : {"rope_type", "type"})
          if (const Node* map = root_->find(folder); map != nullptr && map->kind == NodeKind::Map)
            if (const Node* type = map->find(key); type != nullptr && !is_null(*type)) return type->text == name;
      return std::string_view(name) == "default";
    };
    const auto value = [&](const char* key, double fallback) { return rotary(key, {}, fallback); };
    if (is("default")) return "";
    if (is("linear")) return fmt::format("linear {:.17g}", value("factor", 1));
    if (is("llama3"))
      return fmt::format("llama3 {:.17g} {:.17g} {:.17g} {:.17g}", value("factor", 8), value("low_freq_factor", 1),
                         value("high_freq_factor", 4), value("original_max_position_embeddings", 8192));
    leave_out("its scaling of rotary positions");
    return "";
  }
  // Kind and numbers of the rotary positions, whether the model here follows them or not.
  void check_rotary() {
    for (const char* folder : {"rope_parameters", "rope_scaling"}) {
      const Node* map = find({folder});
      if (map != nullptr && map->kind != NodeKind::Map)
        error(map, fmt::format("expected a map of {}'s keys", folder));
      else if (map != nullptr)
        check_rotary(*map, folder);
    }
  }
  // The keys of the file that were looked up nowhere, and the dimensions that it leaves to the class.
  void report_rest() {
    if (!absent_.empty())
      assume(fmt::format("{}: the file does not state {}; {} of {}", fmt::join(absent_, ", "),
                         absent_.size() == 1 ? "it" : "them", absent_.size() == 1 ? "it is the default" : "they are the defaults",
                         made_->model));
    for (const Node::Entry& entry : root_->entries) {
      if (known_.count(entry.key) > 0) continue;
      const UnusedKey unused = unused_key(made_->type, entry.key, *entry.value);
      if (unused.effect == KeyEffect::Changes) report_change(*root_, entry, unused.what);
      if (unused.effect == KeyEffect::Unknown) report_unknown(*root_, entry.key);
    }
    for (const char* folder : {"rope_parameters", "rope_scaling"})
      if (const Node* map = find({folder}); map != nullptr && known_.count("partial_rotary_factor") == 0)
        for (const Node::Entry& entry : map->entries)
          if (const UnusedKey unused = unused_key(made_->type, entry.key, *entry.value);
              entry.key == "partial_rotary_factor" && unused.effect == KeyEffect::Changes)
            report_change(*map, entry, unused.what);
    if (unknown_ > kMostDiagnostics) assume(fmt::format("{} more keys are not known", unknown_ - kMostDiagnostics));
  }
  void assume(std::string sentence) { made_->assumptions.push_back(std::move(sentence)); }
  void report(const char* name, const std::string& value, const Node* at) {
    if (*name) made_->values.push_back({name, value, at ? origin_of(*at) : "default of the class"});
  }

  // Positive and negative numbers of a list; empty: there is none.
  std::vector<double> numbers(const char* key) {
    std::vector<double> made;
    const Node* value = find({key});
    if (value == nullptr || value->kind != NodeKind::Sequence) return made;
    for (const auto& item : value->items) made.push_back(read_number(*item, *log_).value_or(0));
    return made;
  }

 private:
  // A list of a number for each layer (Gemma 3n's widths) is that number if they are equal.
  const Node* one_of_equal(const Node* value) {
    if (value == nullptr || value->kind != NodeKind::Sequence || value->items.empty()) return value;
    for (const auto& item : value->items)
      if (item->text != value->items.front()->text) {
        error(value, "layers have different numbers here, and all are alike in this model");
        break;
      }
    return value->items.front().get();
  }
  void check_rotary(const Node& map, const std::string& folder) {
    const Node* kind = map.find("rope_type") != nullptr ? map.find("rope_type") : map.find("type");
    const std::vector<std::string>& kinds = rotary_scaling_kinds();
    if (kind != nullptr && !is_null(*kind)) {
      if (std::find(kinds.begin(), kinds.end(), kind->text) == kinds.end())
        error(kind, fmt::format("the scaling of rotary positions '{}' is not known{}", kind->text, suggestion(kind->text, kinds)),
              fmt::format("known are {}", fmt::join(kinds, ", ")));
    } else if (const Node* factor = map.find("factor"); factor != nullptr && !is_null(*factor)) {
      error(factor, fmt::format("'{}' has a factor and no rope_type", folder),
            fmt::format("rope_type is one of {}", fmt::join(kinds, ", ")));
    }
    for (const Node::Entry& entry : map.entries) {
      if (is_null(*entry.value) || entry.key.starts_with('_')) continue;
      const auto is_among = [&](const std::vector<std::string>& keys) {
        return std::find(keys.begin(), keys.end(), entry.key) != keys.end();
      };
      if (entry.value->kind == NodeKind::Map && (entry.key == "full_attention" || entry.key == "sliding_attention")) {
        check_rotary(*entry.value, folder);
        if (const Node* inner = entry.value->find("rope_type"); inner != nullptr && inner->text != "default")
          leave_out("its scaling of rotary positions");
      } else if (is_among(rotary_numbers())) {
        read_number(*entry.value, *log_);
      } else if (!is_among(rotary_keys())) {
        report_unknown(map, entry.key);
      }
    }
  }
  static std::string assumed_text(const std::string& key, int value) { return fmt::format("{} {}", key, value); }
  void report_change(const Node& map, const Node::Entry& entry, const std::string& what) {
    const std::string value = entry.value->kind == NodeKind::Scalar ? ": " + entry.value->text : "";
    const std::string message = fmt::format("{}{} has no effect here; with it, {} {}", entry.key, value, made_->model, what);
    assume(message);
    made_->not_followed.push_back(
        diagnostic_at_key(map, entry.key, message,
                          "state the value without this effect, or export the model: {pt2: FILE} (tools/export_model.py)"));
  }
  void report_unknown(const Node& map, const std::string& key) {
    if (++unknown_ > kMostDiagnostics) return;
    // Other libraries' names of this key.
    for (const char* kv_heads : {"num_kv_heads", "n_kv_heads", "n_head_kv"})
      if (&map == root_ && key == kv_heads) return report_unknown(map, key, "num_key_value_heads");
    std::vector<std::string> near;
    if (&map == root_) {
      for (const std::string_view known : known_)
        if (root_->find(std::string(known)) == nullptr) near.emplace_back(known);
      if (!nearest_name(key, near)) {
        near = unused_keys_of(made_->type);
        near.insert(near.end(), known_.begin(), known_.end());
      }
    } else {
      near = rotary_keys();
    }
    report_unknown(map, key, nearest_name(key, near).value_or(""));
  }
  // `meant`: the key that the file may mean; empty: none.
  void report_unknown(const Node& map, const std::string& key, const std::string& meant) {
    // Dimensions with a number of the class's own are reported together.
    const auto derived = &map == root_ && root_->find(meant) == nullptr ? derived_.find(meant) : derived_.end();
    if (derived != derived_.end() &&
        std::find(absent_.begin(), absent_.end(), assumed_text(meant, derived->second)) == absent_.end())
      assume(fmt::format("{}: the file does not state it; it is the default of {}", assumed_text(meant, derived->second),
                         made_->model));
    const std::string message =
        fmt::format("'{}' is no key that is known for {}{}", key, made_->model, meant.empty() ? "" : ", " + did_you_mean(meant));
    assume(message + (message.back() == '?' ? " It has no effect" : "; it has no effect"));
    made_->not_followed.push_back(diagnostic_at_key(map, key, message, "leave it out if the model is the same without it"));
  }

  const Node* root_;
  ReadLog* log_;
  ModelConfig* made_;
  mutable std::set<std::string_view> known_;  // keys that were looked up
  std::vector<std::string> absent_;           // "hidden_size 4096"
  std::map<std::string, int> derived_;        // whole numbers that the file does not state, by their first key
  std::size_t unknown_ = 0;
};

}  // namespace panpipe
