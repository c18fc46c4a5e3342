#include "costmodel/workload/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>

#include "base/input/cached_document.hpp"
#include "base/input/null_value.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "costmodel/workload/bounds.hpp"
#include "costmodel/workload/model_config_keys.hpp"

namespace panpipe {
namespace {

using Keys = std::initializer_list<const char*>;

// Reads one config, and remembers where every value came from.
class ConfigReader {
 public:
  ConfigReader(const Node& root, ReadLog& log, ModelConfig& made) : root_(&root), log_(&log), made_(&made) {}

  // The first of the keys that the file has and that is not null; nullptr when it has none.
  const Node* find(Keys keys) const {
    known_.insert(keys.begin(), keys.end());
    for (const char* key : keys)
      if (const Node* value = root_->find(key); value != nullptr && !is_null(*value)) return value;
    return nullptr;
  }
  bool has(const char* key) const { return root_->find(key) != nullptr; }

  // `name` is Panpipe's word for the dimension; empty: it is not recorded.
  int integer(const char* name, Keys keys, int at_least, int fallback) {
    const Node* value = find(keys);
    const int read = value ? read_integer(*value, *log_, at_least).value_or(fallback) : fallback;
    report(name, std::to_string(read), value);
    if (value == nullptr) derived_.insert_or_assign(*keys.begin(), read);
    return read;
  }
  // A dimension for which the class has a number of its own: reported where the file states none.
  int dimension(const char* name, Keys keys, int at_least, int fallback) {
    const std::string assumed = assumed_text(*keys.begin(), fallback);
    if (find(keys) == nullptr && std::find(absent_.begin(), absent_.end(), assumed) == absent_.end()) absent_.push_back(assumed);
    return integer(name, keys, at_least, fallback);
  }
  double number(Keys keys, double fallback) {
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
  bool flag(Keys keys, bool fallback) {
    const Node* value = find(keys);
    return value ? read_boolean(*value, *log_).value_or(fallback) : fallback;
  }
  std::string text(Keys keys, const std::string& fallback) {
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
  double rotary(const char* key, Keys old_keys, double fallback, const char* part = nullptr) {
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
  Activation activation(Keys keys, Activation fallback) {
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

 private:
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

constexpr int kMostHeadFeatures = 1 << 14;  // of a latent head's parts, so that their sum is no overflow

// Dimensions that nearly every class has, with its defaults. 0: derived from others.
struct Defaults {
  int vocabulary, hidden, layers, heads, kv_heads, head_size, ffn, positions;
  double epsilon;
  bool tied = false;
  double rotary_base = 10000;
};

using Apply = void (*)(ConfigReader&, ModelDimensions&);

struct ConfigClass {
  const char* type;
  const char* name;
  Defaults defaults;
  TransformerTraits FamilyTraits::*traits;
  Apply apply;
};

std::vector<bool> every(int layers, int step, int at) {
  std::vector<bool> chosen;
  for (int i = 0; i < layers; ++i) chosen.push_back(step > 0 && (i + 1) % step == at);
  return chosen;
}

std::vector<bool> inverted(std::vector<bool> flags) {
  flags.flip();
  return flags;
}

// Layers with a window: the file's list, else the class's pattern.
void read_windows(ConfigReader& r, ModelDimensions& d, int window, std::vector<bool> pattern) {
  d.traits.window = r.window("sliding_window", window);
  std::vector<bool> named = r.layers_named("layer_types", "sliding_attention", d.layers);
  d.traits.windowed = named.empty() ? std::move(pattern) : std::move(named);
}

void all_biases(ConfigReader& r, ModelDimensions& d, bool fallback) {
  d.traits.query_bias = d.traits.output_bias = r.flag({"attention_bias"}, fallback);
}

void llama(ConfigReader& r, ModelDimensions& d) {
  all_biases(r, d, false);
  d.traits.mlp_bias = r.flag({"mlp_bias"}, false);
}

void mistral(ConfigReader& r, ModelDimensions& d) { d.traits.window = r.window("sliding_window", 4096); }

// Qwen 2 and 3: a window only where it is switched on, from `max_window_layers` on.
void qwen_windows(ConfigReader& r, ModelDimensions& d) {
  if (!r.flag({"use_sliding_window"}, false)) return;
  const int first = r.integer("", {"max_window_layers"}, 0, 28);
  std::vector<bool> pattern;
  for (int i = 0; i < d.layers; ++i) pattern.push_back(i >= first);
  read_windows(r, d, 4096, std::move(pattern));
}

void qwen2(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = true;
  qwen_windows(r, d);
}

void qwen3(ConfigReader& r, ModelDimensions& d) {
  all_biases(r, d, false);
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  qwen_windows(r, d);
}

void gemma(ConfigReader& r, ModelDimensions& d) {
  all_biases(r, d, false);
  d.traits.scaled_embedding = true;
  d.traits.zero_centered_norms = true;
  d.traits.activation = r.activation({"hidden_activation", "hidden_act"}, Activation::GeluTanh);
}

void gemma2(ConfigReader& r, ModelDimensions& d) {
  gemma(r, d);
  d.traits.score_cap = r.number_or_none("attn_logit_softcapping", 50);
  d.traits.logit_cap = r.number_or_none("final_logit_softcapping", 30);
  d.traits.attention_scale = 1 / std::sqrt(r.number({"query_pre_attn_scalar"}, 256));
  read_windows(r, d, 4096, every(d.layers, 2, 1));
}

void gemma3(ConfigReader& r, ModelDimensions& d) {
  gemma(r, d);
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  d.traits.score_cap = r.number_or_none("attn_logit_softcapping", 0);
  d.traits.logit_cap = r.number_or_none("final_logit_softcapping", 0);
  d.traits.attention_scale = 1 / std::sqrt(r.number({"query_pre_attn_scalar"}, 256));
  const int pattern = r.integer("", {"sliding_window_pattern", "_sliding_window_pattern"}, 1, 6);
  read_windows(r, d, 4096, inverted(every(d.layers, pattern, 0)));
  d.traits.rotary_base = r.rotary("rope_theta", {"rope_theta"}, 1e6, "full_attention");
  d.traits.rotary_local_base = r.rotary("rope_theta", {"rope_local_base_freq"}, 1e4, "sliding_attention");
}

void part_of_rotary(ConfigReader& r, ModelDimensions& d, Keys keys, double fallback) {
  const double part = r.rotary("partial_rotary_factor", keys, fallback);
  const int features = static_cast<int>(features_of_head(d) * part);
  if (part < 1 && features > 0) d.traits.rotary_features = features;
}

void phi(ConfigReader& r, ModelDimensions& d) {
  part_of_rotary(r, d, {"partial_rotary_factor"}, 0.5);
  if (r.flag({"qk_layernorm"}, false)) d.traits.query_key_norm = QueryKeyNorm::PerHead;
}

void phi3(ConfigReader& r, ModelDimensions& d) {
  part_of_rotary(r, d, {"partial_rotary_factor"}, 1);
  d.traits.window = r.window("sliding_window", 0);
}

void gpt_neox(ConfigReader& r, ModelDimensions& d) {
  part_of_rotary(r, d, {"partial_rotary_factor", "rotary_pct"}, 0.25);
  if (!r.flag({"use_parallel_residual"}, true)) d.traits.form = BlockForm::PreNorm;
  all_biases(r, d, true);
}

void opt(ConfigReader& r, ModelDimensions& d) {
  const bool bias = r.flag({"enable_bias"}, true);
  d.traits.query_bias = d.traits.output_bias = d.traits.mlp_bias = bias;
  const int width = r.integer("", {"word_embed_proj_dim"}, 1, d.hidden);
  if (width != d.hidden) d.traits.embedding_width = width;
  if (r.flag({"_remove_final_layer_norm"}, false)) d.traits.final_norm = false;
  if (!r.flag({"layer_norm_elementwise_affine"}, true))
    r.assume("normalizations have weights and biases, which layer_norm_elementwise_affine: false leaves out");
  if (r.flag({"do_layer_norm_before"}, true)) return;
  d.traits.form = BlockForm::PostNorm;
  d.traits.final_norm = false;
}

void bloom(ConfigReader& r, ModelDimensions& d) {
  d.ffn = 4 * std::min(d.hidden, kMostHidden);
  if (r.flag({"apply_residual_connection_post_layernorm"}, false))
    r.error(r.find({"apply_residual_connection_post_layernorm"}), "a residual connection behind the normalization is not known");
}

// One product for queries, keys and values: per head, one group for all heads (multi-query), or several groups.
void falcon(ConfigReader& r, ModelDimensions& d) {
  const bool grouped = r.flag({"new_decoder_architecture"}, false);
  const int heads = r.integer("", {"num_kv_heads", "n_head_kv"}, 1, d.heads);
  d.kv_heads = grouped ? heads : r.flag({"multi_query"}, true) ? 1 : d.heads;
  const bool bias = r.flag({"bias"}, false);
  d.traits.query_bias = d.traits.output_bias = d.traits.mlp_bias = bias;
  if (r.flag({"alibi"}, false)) d.traits.positions = Positions::Alibi;
  const bool two = grouped && r.integer("", {"num_ln_in_parallel_attn"}, 1, 2) == 2;
  const bool parallel = grouped || r.flag({"parallel_attn"}, true);
  d.traits.form = two ? BlockForm::ParallelTwoNorms : parallel ? BlockForm::Parallel : BlockForm::PreNorm;
  if (two) d.traits.names = &falcon_two_norm_names();
}

Experts& experts(ConfigReader& r, ModelDimensions& d, Keys count, int fallback, int per_token, Keys ffn, int ffn_fallback) {
  Experts& e = d.traits.experts;
  e.count = r.dimension("experts", count, 1, fallback);
  e.per_token = r.dimension("experts_per_token", {"num_experts_per_tok"}, 1, per_token);
  e.ffn = r.dimension("expert_ffn", ffn, 1, ffn_fallback);
  return e;
}

void mixtral(ConfigReader& r, ModelDimensions& d) {
  experts(r, d, {"num_local_experts", "num_experts"}, 8, 2, {"intermediate_size"}, 14336);
  d.traits.window = r.window("sliding_window", 0);
}

// Layers without experts by a list or by steps.
void sparse_layers(ConfigReader& r, ModelDimensions& d) {
  const int step = r.integer("", {"decoder_sparse_step"}, 1, 1);
  d.traits.experts.layers = every(d.layers, step, 0);
  for (const int dense : r.list("mlp_only_layers"))
    if (dense < d.layers) d.traits.experts.layers[dense] = false;
}

void qwen2_moe(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"qkv_bias"}, true);
  qwen_windows(r, d);
  Experts& e = experts(r, d, {"num_experts"}, 60, 4, {"moe_intermediate_size"}, 1408);
  e.shared_ffn = r.dimension("shared_expert_ffn", {"shared_expert_intermediate_size"}, 0, 5632);
  e.shared_gate = true;
  e.normalized = r.flag({"norm_topk_prob"}, false);
  sparse_layers(r, d);
}

void qwen3_moe(ConfigReader& r, ModelDimensions& d) {
  qwen3(r, d);
  experts(r, d, {"num_experts", "num_local_experts"}, 128, 8, {"moe_intermediate_size"}, 768).normalized =
      r.flag({"norm_topk_prob"}, false);
  sparse_layers(r, d);
}

void deepseek(ConfigReader& r, ModelDimensions& d, int dense, int routed, int shared, int per_token, int width, bool sigmoid) {
  d.traits.query_bias = d.traits.output_bias = r.flag({"attention_bias"}, false);
  LatentAttention& l = d.traits.latent;
  const bool direct = r.has("q_lora_rank") && r.find({"q_lora_rank"}) == nullptr;
  l.query_rank = direct ? 0 : r.dimension("query_rank", {"q_lora_rank"}, 1, 1536);
  l.kv_rank = r.dimension("kv_rank", {"kv_lora_rank"}, 1, 512);
  l.plain = std::min(r.dimension("", {"qk_nope_head_dim"}, 1, 128), kMostHeadFeatures);
  l.rotary = std::min(r.dimension("", {"qk_rope_head_dim"}, 2, 64), kMostHeadFeatures);
  l.value = std::min(r.dimension("", {"v_head_dim"}, 1, 128), kMostHeadFeatures);
  d.head_size = l.plain + l.rotary;
  r.turn_pairs(!sigmoid || r.flag({"rope_interleave"}, true));
  d.kv_heads = d.heads;
  Experts& e = experts(r, d, {"n_routed_experts", "num_local_experts", "num_experts"}, routed, per_token,
                       {"moe_intermediate_size"}, width);
  const long long shared_ffn = static_cast<long long>(e.ffn) * r.dimension("shared_experts", {"n_shared_experts"}, 0, shared);
  e.shared_ffn = static_cast<int>(std::min<long long>(shared_ffn, 1 << 30));
  e.normalized = r.flag({"norm_topk_prob"}, sigmoid);
  e.sigmoid = e.correction = sigmoid;
  e.scale = r.number({"routed_scaling_factor"}, sigmoid ? 2.5 : 1);
  e.groups = r.integer("", {"n_group"}, 1, sigmoid ? 8 : 1);
  e.groups_per_token = r.integer("", {"topk_group"}, 1, sigmoid ? 4 : 1);
  if (e.groups > 1) {
    r.assume("a token's experts may come from all groups (n_group, topk_group are left out)");
    r.leave_out("its choice of experts by groups");
  }
  const int first = r.dimension("dense_layers", {"first_k_dense_replace"}, 0, dense);
  const int step = r.integer("", {"moe_layer_freq"}, 1, 1);
  for (int i = 0; i < d.layers; ++i) e.layers.push_back(i >= first && i % step == 0);
}

void deepseek_v2(ConfigReader& r, ModelDimensions& d) {
  deepseek(r, d, 0, 64, 2, 0, 1407, false);
  if (d.traits.experts.per_token == 0) r.error(nullptr, "'num_experts_per_tok' is missing, and its class has no default");
  d.traits.experts.per_token = std::max(1, d.traits.experts.per_token);
}

void deepseek_v3(ConfigReader& r, ModelDimensions& d) {
  deepseek(r, d, 3, 256, 1, 8, 2048, true);
  if (r.integer("", {"num_nextn_predict_layers", "num_mtp_layers"}, 0, 1) > 0)
    r.assume("layers that predict further tokens (num_nextn_predict_layers) are left out, as transformers does");
}

void gpt_oss(ConfigReader& r, ModelDimensions& d) {
  all_biases(r, d, true);
  read_windows(r, d, 128, every(d.layers, 2, 1));
  Experts& e = experts(r, d, {"num_local_experts", "num_experts"}, 128, 4, {"intermediate_size"}, 2880);
  e.router_bias = e.biases = e.transposed = true;
  d.traits.sinks = true;
  r.leave_out("the clamped activation of its experts");
}

void olmo2(ConfigReader& r, ModelDimensions& d) {
  all_biases(r, d, false);
  d.traits.form = BlockForm::NormAfter;
  d.traits.query_key_norm = QueryKeyNorm::Whole;
}

// Layers without rotary positions: the list names those with them.
void smollm3(ConfigReader& r, ModelDimensions& d) {
  llama(r, d);
  const int interval = r.integer("", {"no_rope_layer_interval"}, 1, 4);
  d.traits.no_rotary = every(d.layers, interval, 0);
  const std::vector<int> listed = r.list("no_rope_layers");
  for (std::size_t i = 0; i < std::min(listed.size(), d.traits.no_rotary.size()); ++i) d.traits.no_rotary[i] = listed[i] == 0;
  if (r.flag({"use_sliding_window"}, false)) read_windows(r, d, 0, d.traits.no_rotary);  // windows where positions are not rotary
}

void plain(ConfigReader& /*r*/, ModelDimensions& /*d*/) {}

void bert(ConfigReader& r, ModelDimensions& d) {
  const Node* list = r.find({"architectures"});
  const bool masked =
      list && list->kind == NodeKind::Sequence && !list->items.empty() && list->items[0]->text == "BertForMaskedLM";
  d.traits.next_sentence = !masked;
  if (r.integer("", {"type_vocab_size"}, 1, 2) != 2) r.error(r.find({"type_vocab_size"}), "BERT has two token types here");
}

// Shipped defaults: transformers 5.23, the configuration classes of src/transformers/models/*.
const std::vector<ConfigClass>& classes() {
  using Families = FamilyTraits;
  static const std::vector<ConfigClass> table = {
      {"llama", "LlamaForCausalLM", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6, false}, &Families::llama, llama},
      {"mistral", "MistralForCausalLM", {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-6, false}, &Families::llama, mistral},
      {"qwen2", "Qwen2ForCausalLM", {151936, 4096, 32, 32, 32, 0, 22016, 32768, 1e-6, false}, &Families::llama, qwen2},
      {"qwen3", "Qwen3ForCausalLM", {151936, 4096, 32, 32, 32, 128, 22016, 32768, 1e-6, false}, &Families::llama, qwen3},
      {"gemma", "GemmaForCausalLM", {256000, 3072, 28, 16, 16, 256, 24576, 8192, 1e-6, true}, &Families::llama, gemma},
      {"gemma2", "Gemma2ForCausalLM", {256000, 2304, 26, 8, 4, 256, 9216, 8192, 1e-6, true}, &Families::gemma2, gemma2},
      {"gemma3_text", "Gemma3ForCausalLM", {262208, 2304, 26, 8, 4, 256, 9216, 131072, 1e-6, true}, &Families::gemma2, gemma3},
      {"phi", "PhiForCausalLM", {51200, 2048, 24, 32, 0, 0, 8192, 2048, 1e-5, false}, &Families::phi, phi},
      {"phi3", "Phi3ForCausalLM", {32064, 3072, 32, 32, 0, 0, 8192, 4096, 1e-5, false}, &Families::phi3, phi3},
      {"gpt2", "GPT2LMHeadModel", {50257, 768, 12, 12, 0, 0, 0, 1024, 1e-5, true}, &Families::gpt, plain},
      {"gpt_neox", "GPTNeoXForCausalLM", {50432, 6144, 44, 64, 0, 0, 24576, 2048, 1e-5, false}, &Families::gpt_neox, gpt_neox},
      {"opt", "OPTForCausalLM", {50272, 768, 12, 12, 0, 0, 3072, 2048, 1e-5, true}, &Families::opt, opt},
      {"bloom", "BloomForCausalLM", {250880, 64, 2, 8, 0, 0, 0, 2048, 1e-5, true}, &Families::bloom, bloom},
      {"falcon", "FalconForCausalLM", {65024, 4544, 32, 71, 0, 0, 0, 2048, 1e-5, true}, &Families::falcon, falcon},
      {"mixtral",
       "MixtralForCausalLM",
       {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-5, false, 1e6},
       &Families::experts,
       mixtral},
      {"qwen2_moe",
       "Qwen2MoeForCausalLM",
       {151936, 2048, 24, 16, 16, 0, 5632, 32768, 1e-6, false},
       &Families::qwen2_experts,
       qwen2_moe},
      {"qwen3_moe", "Qwen3MoeForCausalLM", {151936, 2048, 24, 32, 4, 0, 6144, 32768, 1e-6, false}, &Families::experts, qwen3_moe},
      {"deepseek_v2",
       "DeepseekV2ForCausalLM",
       {102400, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6, false},
       &Families::experts,
       deepseek_v2},
      {"deepseek_v3",
       "DeepseekV3ForCausalLM",
       {129280, 7168, 61, 128, 0, 0, 18432, 4096, 1e-6, false},
       &Families::experts,
       deepseek_v3},
      {"gpt_oss",
       "GptOssForCausalLM",
       {201088, 2880, 36, 64, 8, 64, 2880, 131072, 1e-5, false, 150000},
       &Families::gpt_oss,
       gpt_oss},
      {"olmo2", "Olmo2ForCausalLM", {50304, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5, false}, &Families::olmo2, olmo2},
      {"smollm3", "SmolLM3ForCausalLM", {128256, 2048, 36, 16, 4, 0, 11008, 32768, 1e-6, true, 2e6}, &Families::llama, smollm3},
      {"arcee", "ArceeForCausalLM", {32000, 2560, 32, 32, 0, 0, 18432, 4096, 1e-5, false}, &Families::squared_relu, llama},
      {"bert", "BertForPreTraining", {30522, 768, 12, 12, 0, 0, 3072, 512, 1e-12, true}, &Families::bert, bert},
  };
  return table;
}

const ConfigClass* class_of(const Node& root, ReadLog& log) {
  const Node* type = root.find("model_type");
  const Node* architectures = root.find("architectures");
  const std::string name = type ? read_string(*type, log).value_or("") : "";
  const bool listed = architectures && architectures->kind == NodeKind::Sequence && !architectures->items.empty();
  const std::string class_name = listed ? architectures->items.front()->text : "";
  for (const ConfigClass& known : classes())
    if (type ? name == known.type : class_name == known.name) return &known;
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
  const auto own = [&](const char* name, Keys keys, int own_number, int derived) {
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
  const ConfigClass* known = class_of(*document, log);
  log.throw_if_errors();
  made.type = known->type, made.model = known->name;
  report_architecture(*document, made);
  ConfigReader reader(*document, log, made);
  ModelDimensions& d = made.dimensions;
  read_dimensions(reader, known->defaults, (family_traits().*known->traits).positions == Positions::Learned, sequence, d);
  if (d.layers > kMostLayers)
    log.error(root, fmt::format("'layers' of {} is {}, more than {}", made.model, d.layers, kMostLayers));
  log.throw_if_errors();  // lists of layers are counted by them
  d.traits = family_traits().*known->traits;
  d.traits.epsilon = reader.number({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"}, known->defaults.epsilon);
  if (d.traits.positions == Positions::Rotary)
    d.traits.rotary_base = reader.rotary("rope_theta", {"rope_theta", "rotary_emb_base"}, known->defaults.rotary_base);
  reader.check_rotary();
  d.traits.rotary_scaling = reader.rotary_scaling();
  d.traits.activation =
      reader.activation({"hidden_act", "hidden_activation", "activation_function", "activation"}, d.traits.activation);
  known->apply(reader, d);
  if (layers > d.layers)
    log.error(*document, fmt::format("{} layers are asked for, and the model has {}", layers, d.layers));
  else if (layers > 0)
    d.layers = layers;  // lists of layers stay longer: the first ones are taken
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
