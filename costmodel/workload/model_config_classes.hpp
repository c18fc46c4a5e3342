// The classes of config.json as rows: defaults, the family of layers, and the traits that its file states. A new class is a row
// in the file of its kind, with a function where no trait here reads what is its own. Internal to this folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "costmodel/workload/model_config_reader.hpp"

namespace panpipe {

// Dimensions that nearly every class has, with its defaults. 0: derived from others.
struct Defaults {
  int vocabulary, hidden, layers, heads, kv_heads, head_size, ffn, positions;
  double epsilon;
  bool tied = false;
  double rotary_base = 10000;
};

// Reads one trait. A class is a list of them, in the order in which they are reported.
using Trait = std::function<void(ConfigReader&, ModelDimensions&)>;

struct ConfigClass {
  std::string type, name;
  Defaults defaults;
  TransformerTraits FamilyTraits::*family;
  std::vector<Trait> traits;
};

// `name` without a "For" or "Model" is that of a class "...ForCausalLM".
template <class... Traits>
ConfigClass model_class(const char* type, const std::string& name, const Defaults& defaults,
                        TransformerTraits FamilyTraits::*family, const Traits&... traits) {
  const bool whole = name.find("For") != std::string::npos || name.find("Model") != std::string::npos;
  return {type, whole ? name : name + "ForCausalLM", defaults, family, {traits...}};
}

std::vector<ConfigClass> dense_classes();          // model_config_dense.cpp
std::vector<ConfigClass> recent_classes();         // model_config_recent.cpp: dense, of 2025 and 2026
std::vector<ConfigClass> expert_classes();         // model_config_experts.cpp
std::vector<ConfigClass> recent_expert_classes();  // model_config_recent_experts.cpp
std::vector<ConfigClass> hybrid_classes();         // model_config_hybrid.cpp: layers of several kinds

constexpr const char* kRotatesPairs = "its rotation of neighbouring features";  // the model here rotates halves
constexpr const char* kNormsBehindRotation = "norms of queries and keys behind their rotation";

// Traits that several classes have, with the class's own numbers.
template <class Member>
Trait has(Member TransformerTraits::*member, Member value) {
  return [=](ConfigReader&, ModelDimensions& d) { d.traits.*member = value; };
}
template <class... Members>
Trait reads_flag(const char* key, bool fallback, Members... members) {
  return [=](ConfigReader& r, ModelDimensions& d) {
    const bool flag = r.flag({key}, fallback);
    ((d.traits.*members = flag), ...);
  };
}
inline Trait leaves_out(const char* what) {
  return [=](ConfigReader& r, ModelDimensions&) { r.leave_out(what); };
}
Trait reads_biases(bool fallback);      // of the attention
Trait reads_query_bias(bool fallback);  // alone
Trait reads_head_norms(const char* key, bool fallback);
Trait reads_rotary_part(double fallback, ConfigKeys keys = {"partial_rotary_factor"});
Trait reads_window(int fallback);  // of all layers
// Layers with a window: the file's list, else all but those of each `step`-th at `at`; from a layer on.
Trait reads_windows(int window, int step, int at = 0);
Trait reads_windows_from(int fallback);
Trait reads_experts(ConfigKeys count, int fallback, int per_token, ConfigKeys ffn, int ffn_fallback);
Trait reads_normalized_experts(bool fallback);
Trait reads_gated_expert(int width, bool normalized);  // for all tokens
Trait reads_expert_scale(const char* key, double fallback);
// A choice by corrected scores of the logistic function.
Trait reads_corrected_experts(int count, int per_token, int width, int shared, int dense);
Trait reads_further_tokens(int fallback);  // layers that predict them

// The attention, router and experts of DeepSeek-V2 and -V3, with the numbers of a class.
struct LatentDefaults {
  bool sigmoid = true;
  int query_rank = 1536, plain = 128, value = 128;
  int groups = 1, groups_per_token = 1;
  double scale = 2.5;
};
Trait reads_deepseek(int dense, int routed, int shared, int per_token, int width, const LatentDefaults& own = {});
void read_latent_attention(ConfigReader& r, ModelDimensions& d, const LatentDefaults& own);

// What their readers are made of.
std::vector<bool> every(int layers, int step, int at);
std::vector<bool> from_layer(int layers, int first);
std::vector<bool> all_but(int layers, const std::vector<int>& listed);
std::vector<bool> inverted(std::vector<bool> flags);
void read_windows(ConfigReader& r, ModelDimensions& d, int window, std::vector<bool> pattern);
Experts& read_experts(ConfigReader& r, ModelDimensions& d, ConfigKeys count, int fallback, int per_token, ConfigKeys ffn,
                      int ffn_fallback, ConfigKeys per_token_keys = {"num_experts_per_tok"});
void read_shared_experts(ConfigReader& r, ModelDimensions& d, ConfigKeys keys, int fallback);
// Layers without experts come first, or a list names those with them.
void read_first_dense(ConfigReader& r, ModelDimensions& d, int first, int step = 1);
void read_sparse_layers(ConfigReader& r, ModelDimensions& d);     // Qwen's: by steps, without those of a list
void read_no_rotary_layers(ConfigReader& r, ModelDimensions& d);  // each n-th, or a list names those with positions
// Traits of the layers for further tokens, which follow the model's last: attention over all tokens, and experts where the model
// has them.
void add_further_layers(ModelDimensions& d);
void read_multipliers(ConfigReader& r, ModelDimensions& d);  // Granite's
void read_exaone_windows(ConfigReader& r, ModelDimensions& d);
void read_llama(ConfigReader& r, ModelDimensions& d);
void read_qwen3(ConfigReader& r, ModelDimensions& d);
void read_qwen_windows(ConfigReader& r, ModelDimensions& d);

}  // namespace panpipe
