// The classes of config.json as rows: defaults, the family of layers, and a function that reads what is the class's own. A new
// class is a row and such a function in the file of its kind. Internal to this folder.
#pragma once

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

using Apply = void (*)(ConfigReader&, ModelDimensions&);

struct ConfigClass {
  const char* type;
  const char* name;
  Defaults defaults;
  TransformerTraits FamilyTraits::*traits;
  Apply apply;
};

std::vector<ConfigClass> dense_classes();          // model_config_dense.cpp
std::vector<ConfigClass> recent_classes();         // model_config_recent.cpp: dense, of 2025 and 2026
std::vector<ConfigClass> expert_classes();         // model_config_experts.cpp
std::vector<ConfigClass> recent_expert_classes();  // model_config_recent_experts.cpp
std::vector<ConfigClass> hybrid_classes();         // model_config_hybrid.cpp: layers of several kinds

// What several of them read.
std::vector<bool> every(int layers, int step, int at);
std::vector<bool> inverted(std::vector<bool> flags);
// Layers with a window: the file's list, else the class's pattern.
void read_windows(ConfigReader& r, ModelDimensions& d, int window, std::vector<bool> pattern);
void read_biases(ConfigReader& r, ModelDimensions& d, bool fallback);  // of the attention
void read_part_of_rotary(ConfigReader& r, ModelDimensions& d, ConfigKeys keys, double fallback);
Experts& read_experts(ConfigReader& r, ModelDimensions& d, ConfigKeys count, int fallback, int per_token, ConfigKeys ffn,
                      int ffn_fallback, ConfigKeys per_token_keys = {"num_experts_per_tok"});
// The attention, router and experts of DeepSeek-V2 and -V3, with the numbers of a class.
struct LatentDefaults {
  int dense = 0, routed = 0, shared = 0, per_token = 0, width = 0;
  bool sigmoid = true;
  int query_rank = 1536, plain = 128, value = 128;
  int groups = 1, groups_per_token = 1;
  double scale = 2.5;
};
void read_deepseek(ConfigReader& r, ModelDimensions& d, const LatentDefaults& own);
void read_latent_attention(ConfigReader& r, ModelDimensions& d, const LatentDefaults& own);
Experts& read_corrected_experts(ConfigReader& r, ModelDimensions& d, int count, int per_token, int width, int shared, int dense);
void read_further_tokens(ConfigReader& r, ModelDimensions& d, int fallback);  // layers that predict them
// Traits of those layers, which follow the model's last: attention over all tokens, and experts where the model has them.
void add_further_layers(ModelDimensions& d);
void read_multipliers(ConfigReader& r, ModelDimensions& d);  // Granite's
void read_exaone_windows(ConfigReader& r, ModelDimensions& d);
void read_llama(ConfigReader& r, ModelDimensions& d);
void read_qwen3(ConfigReader& r, ModelDimensions& d);
void read_qwen_windows(ConfigReader& r, ModelDimensions& d);

}  // namespace panpipe
