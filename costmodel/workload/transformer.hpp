// Transformers as one table of traits: normalization, positions, attention, MLP, experts, and the parameter names of the
// published weights. A family is a row of traits (transformer_families.cpp, model_config.cpp); one builder builds them all.
// Internal to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe {

class GraphBuilder;
struct ModelDimensions;

enum class NormKind : std::uint8_t { Layer, Rms };

// The place of normalizations in a layer, with f for attention or MLP.
enum class BlockForm : std::uint8_t {
  PreNorm,          // x + f(norm(x))
  PostNorm,         // norm(f(x) + x): BERT, OPT 350M
  NormAfter,        // x + norm(f(x)): OLMo 2
  Sandwich,         // x + norm(f(norm(x))): Gemma 2 and 3
  Parallel,         // x + attention(norm(x)) + mlp(norm(x)), one norm: Phi, Falcon 7B
  ParallelTwoNorms  // x + attention(norm(x)) + mlp(norm'(x)): GPT-NeoX, Falcon 40B
};

enum class Positions : std::uint8_t { None, Learned, Rotary, Alibi };

enum class Activation : std::uint8_t { Gelu, GeluTanh, Silu, Relu, ReluSquared };

// Query, key and value as separate matrices, or as one product.
enum class FusedProjections : std::uint8_t {
  Separate,
  InTurn,  // all queries, all keys, all values: GPT-2, Phi 3
  ByHead   // per key-value head its queries, its key, its value: GPT-NeoX, BLOOM, Falcon
};

enum class QueryKeyNorm : std::uint8_t { None, PerHead, Whole };

// Module names of a layer, relative to its path, and of the modules around the layers; empty if a family lacks them.
struct ModuleNames {
  std::string_view embedding = {}, positions = {}, embedding_norm = {};
  std::string_view layer = {};  // "model.layers."; the number follows
  std::string_view attention_norm = {}, attention_after_norm = {}, mlp_norm = {}, mlp_after_norm = {};
  std::string_view core = {};  // module of the attention core and its preparation
  std::string_view query = {}, key = {}, value = {}, fused = {}, output = {}, query_norm = {}, key_norm = {};
  std::string_view gate = {}, up = {}, gate_up = {}, activation = {}, down = {};
  std::string_view router = {}, experts = {}, shared = {};  // folders of experts: "<experts>.gate_up_proj", "<shared>.up_proj"
  std::string_view final_norm = {}, head = {};
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434). Queries, keys and values are computed from narrow latents; a part
// of every key holds the position and is shared by all heads.
struct LatentAttention {
  int query_rank = 0;  // 0: queries are computed from the hidden state itself
  int kv_rank = 0;
  int plain = 0, rotary = 0;  // features of a query or key without and with positions
  int value = 0;              // features of a value
};

// Experts instead of an MLP: every token is sent to `per_token` of `count`.
struct Experts {
  int count = 0, per_token = 0;
  int ffn = 0;                           // width of one expert
  int groups = 1, groups_per_token = 1;  // a token's experts lie in this many groups; 1: in any
  int shared_ffn = 0;                    // width of the expert that all tokens use, 0: none
  bool shared_gate = false;              // a gate of one feature scales it (Qwen 2 MoE)
  bool router_bias = false, biases = false;
  bool sigmoid = false;    // scores by the logistic function instead of the softmax
  bool normalized = true;  // the weights of a token's experts sum to `scale`
  double scale = 1;
  bool correction = false;        // a buffer is added to the scores for the selection (DeepSeek-V3)
  bool transposed = false;        // weights (expert, in, out): GPT-OSS
  std::vector<bool> layers = {};  // true for layers with experts; empty: all
};

struct TransformerTraits {
  const ModuleNames* names = nullptr;
  NormKind norm = NormKind::Layer;
  bool zero_centered_norms = false;  // RMS norms scale by 1 + weight: Gemma
  double epsilon = 1e-5;
  BlockForm form = BlockForm::PreNorm;

  Positions positions = Positions::Learned;
  int extra_positions = 0;  // rows before the first position (OPT has 2)
  double rotary_base = 10000;
  double rotary_local_base = 0;      // of layers with a window, 0: the same
  std::string rotary_scaling = {};   // "llama3 8 1 4 8192" (factor, low, high, trained positions), "linear 4"; empty: none
  int rotary_features = 0;           // of a head, 0: all
  std::vector<bool> no_rotary = {};  // layers without positions (SmolLM 3)
  bool embedding_norm = false;       // BLOOM
  int embedding_width = 0;           // of the embedding, if products convert it to the hidden size and back (OPT 350M); 0: hidden
  bool final_norm = true;            // after the last layer
  bool next_sentence = true;         // BERT's second loss
  bool scaled_embedding = false;     // by the square root of the hidden size: Gemma
  bool causal = true;

  FusedProjections projections = FusedProjections::Separate;
  bool query_bias = false, output_bias = false, mlp_bias = false, head_bias = false;
  bool scaled_residual_init = false;  // scales the initial weights of outputs by the number of residual additions (GPT-2)
  QueryKeyNorm query_key_norm = QueryKeyNorm::None;
  NormKind query_key_norm_kind = NormKind::Rms;
  double attention_scale = 0;  // 0: one over the square root of the head size
  double score_cap = 0;        // soft cap on scores: cap x tanh(score / cap); 0: none
  double logit_cap = 0;
  bool sinks = false;               // one learned number per head takes part in the softmax (GPT-OSS)
  int window = 0;                   // tokens that a query sees, itself included, in layers with a window
  std::vector<bool> windowed = {};  // true for layers with a window; if empty and window > 0: all
  LatentAttention latent = {};      // kv_rank 0: none

  Activation activation = Activation::GeluTanh;
  bool gated = false;
  bool fused_gate = false;  // gate and up as one matrix (Phi 3)
  Experts experts = {};     // count 0: none

  bool has_experts(int layer) const { return experts.count > 0 && (experts.layers.empty() || experts.layers[layer]); }
  // Tokens that a query of the layer sees; 0: all.
  int window_of(int layer) const { return window > 0 && (windowed.empty() || windowed[layer]) ? window : 0; }
  bool rotates(int layer) const { return positions == Positions::Rotary && (no_rotary.empty() || !no_rotary[layer]); }
};

// The path of a module: a layer's path followed by a name.
inline std::string module_at(const std::string& path, std::string_view name) { return path + std::string(name); }

// transformer_families.cpp: the traits of the families that scenarios and configurations name.
struct FamilyTraits {
  TransformerTraits gpt, llama, gemma2, phi, phi3, gpt_neox, opt, bloom, falcon, experts, qwen2_experts, gpt_oss, olmo2,
      squared_relu, bert, vit;
};
const FamilyTraits& family_traits();
const ModuleNames& falcon_two_norm_names();

// A transformer under construction.
struct Transformer {
  GraphBuilder& g;
  const ModelDimensions& d;
  const TransformerTraits& t;
  std::int64_t tokens;         // of a sample, on this context-parallel rank
  int cosine = -1, sine = -1;  // buffers (tokens, rotated features), so that stages need not send the tables
  int local_cosine = -1, local_sine = -1;
};

// Adds the tables of rotary positions, if the traits have them.
void add_rotary_tables(Transformer& model);
// The initial values of weights that end a residual branch.
std::string residual_init(const Transformer& model);
int transformer_norm(const Transformer& model, int x, const std::string& name);
int transformer_activation(const Transformer& model, int x);
// transformer_attention.cpp, transformer_mlp.cpp: x has shape (batch, tokens, hidden), normalized and inside the parallel region.
// Return the output product. With `whole` it includes the sum over the tensor-parallel ranks and the bias; otherwise the caller
// adds them.
int transformer_attention(const Transformer& model, int x, int layer, const std::string& path, bool whole = true);
int transformer_mlp(const Transformer& model, int x, int layer, const std::string& path, bool whole = true);
// One layer with its units "<block>.attention" and "<block>.mlp", or one unit "<block>" if they are parallel.
int transformer_layer(const Transformer& model, int x, int layer, const std::string& block, int unit_layer);
// Final normalization, head and loss over all tokens. `word_weight` is the embedding, for a tied head. Returns the loss.
int transformer_head(const Transformer& model, int x, int labels, int word_weight);

}  // namespace panpipe
