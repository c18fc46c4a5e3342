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

enum class NormKind : std::uint8_t {
  Layer,
  Rms,
  LayerWithoutBias  // Cohere
};

// The place of normalizations in a layer, with f for attention or MLP.
enum class BlockForm : std::uint8_t {
  PreNorm,          // x + f(norm(x))
  PostNorm,         // norm(f(x) + x): BERT, OPT 350M
  NormAfter,        // x + norm(f(x)): OLMo 2
  Sandwich,         // x + norm(f(norm(x))): Gemma 2 and 3
  NormedStream,     // a norm(x) + b f(norm(x)), the stream itself is normalized: MiniMax-01
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

enum class QueryKeyNorm : std::uint8_t {
  None,
  PerHead,
  Whole,
  Unweighted  // per head, without weights, where positions are rotary: Llama 4
};

// A factor of the attention's result, between 0 and 1, for each of its features.
enum class OutputGate : std::uint8_t {
  None,
  WithQuery,  // from the queries' product, which is twice as wide: Qwen 3 Next
  Own         // from a product of its own: AFMoE
};

// Module names of a layer, relative to its path, and of the modules around the layers; empty if a family lacks them.
struct ModuleNames {
  std::string_view embedding = {}, positions = {}, embedding_norm = {};
  std::string_view layer = {};  // "model.layers."; the number follows
  std::string_view attention_norm = {}, attention_after_norm = {}, mlp_norm = {}, mlp_after_norm = {};
  std::string_view core = {};  // module of the attention core and its preparation
  std::string_view query = {}, key = {}, value = {}, fused = {}, output = {}, query_norm = {}, key_norm = {}, output_gate = {};
  std::string_view linear = {};  // module of a linear mixer
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

// The keys that a query attends to, chosen by scores of narrow heads (DeepSeek-V3.2's indexer, arXiv 2512.02556).
struct KeyIndex {
  int heads = 0, features = 0;
  int keys = 0;                   // chosen for each query
  std::vector<bool> shared = {};  // true for layers that take the choice of the layer before; empty: none
};

// A mixer with a state of fixed size for all tokens before, instead of their keys and values.
enum class LinearKind : std::uint8_t {
  GatedDelta,       // Gated DeltaNet (arXiv 2412.06464): Qwen 3 Next
  ChannelDelta,     // with a decay for each feature of a key (Kimi Delta Attention, arXiv 2510.26692)
  StateSpace,       // Mamba 2 (arXiv 2405.21060)
  SelectiveScan,    // Mamba 1 (arXiv 2312.00752), each channel a head of one feature
  Lightning,        // linear attention with a fixed decay (arXiv 2401.04658): MiniMax-01
  ShortConvolution  // a gated convolution over a few tokens and no other state: LFM2
};

struct LinearMixer {
  LinearKind kind{};
  int key_heads = 0, heads = 0;        // of queries and keys (Mamba 2: groups), of values
  int key_features = 0, features = 0;  // of a key (Mamba 2: the state), of a value
  int kernel = 0;                      // tokens of the causal convolution, 0: none
  int chunk = 64;                      // tokens that a kernel treats at once
  double least_step = 0;               // of Mamba 2's steps
  int gate_rank = 0;                   // of the two narrow products that make gates, or Mamba 1's steps; 0: one product
  bool bias = false, convolution_bias = false;
  bool norm = true;         // of the result; Mamba 1: of its steps, keys and queries
  bool whole_norm = false;  // over all heads together instead of each group's
  bool norm_weights = true;
  double epsilon = 0;       // of that norm, 0: the model's
  bool one_product = true;  // what enters comes from one matrix (Qwen 3.5: from four)
};

// Factors of the normalized stream and of what a half adds to it, where BlockForm::NormedStream.
struct StreamFactors {
  double stream = 1, half = 1;
};

// Gemma 3n's residual streams side by side, and what its layers have besides (transformer_streams.cpp).
struct ResidualStreams {
  int count = 0;                      // 0: one stream, as everywhere else
  int rank = 0;                       // of the narrow product next to the attention
  int per_layer = 0, vocabulary = 0;  // features and rows of the table of what a layer reads of each token
  bool scaled = true;                 // what gates it
};

// What a layer mixes tokens with.
enum class Mixer : std::uint8_t { Attention, Linear, Both, None };

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
  bool correction = false;  // a buffer is added to the scores for the selection (DeepSeek-V3)
  bool transposed = false;  // weights (expert, in, out): GPT-OSS
  // GPT-OSS: gates end at the limit, their sigmoid's slope is steeper, and what they scale, within the limits, is 1 larger. 0:
  // none.
  double gate_limit = 0, gate_slope = 1;
  int latent = 0;                 // features that experts read and write, converted from the hidden size and back; 0: hidden
  std::vector<bool> layers = {};  // true for layers with experts; empty: all
};

struct TransformerTraits {
  const ModuleNames* names = nullptr;
  NormKind norm = NormKind::Layer;
  bool zero_centered_norms = false;  // RMS norms scale by 1 + weight: Gemma
  double epsilon = 1e-5;
  BlockForm form = BlockForm::PreNorm;
  StreamFactors attention_factors = {}, linear_factors = {}, mlp_factors = {};

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
  int further_tokens = 0;            // layers that predict the token after the next, and so on (DeepSeek-V3, section 2.2)
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1;  // Granite, Cohere
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
  OutputGate output_gate = OutputGate::None;
  KeyIndex index = {};  // heads 0: none
  // Layers from this one on attend to the keys and values of the last before it with the same window; 0: none.
  int first_sharing_keys = 0;
  bool value_norm = false;                 // per head, without weights
  std::vector<int> attention_blocks = {};  // of each layer: neighbouring tokens that see each other alone; empty: all do
  bool layer_scale = false;                // a factor for each feature of what a half adds to the stream

  std::vector<Mixer> mixers = {};      // of each layer; empty: attention in all
  LinearMixer linear = {};             // of layers with Mixer::Linear or Both
  std::vector<bool> without_mlp = {};  // true for layers that end behind their mixer (Nemotron-H); empty: none

  Activation activation = Activation::GeluTanh;
  bool gated = false;
  bool fused_gate = false;  // gate and up as one matrix (Phi 3)
  Experts experts = {};     // count 0: none
  // Of each layer: the gate is what exceeds the mean of a token's by so many standard deviations; empty: none.
  std::vector<double> gate_deviations = {};
  ResidualStreams streams = {};

  Mixer mixer_of(int layer) const { return mixers.empty() ? Mixer::Attention : mixers[layer]; }
  bool has_mlp(int layer) const { return without_mlp.empty() || !without_mlp[layer]; }
  bool has_linear() const;
  bool shares_keys(int layer) const { return first_sharing_keys > 0 && layer >= first_sharing_keys; }
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
  // transformer_families_recent.cpp
  TransformerTraits glm, glm4, hunyuan, hunyuan_experts, cohere, starcoder2, stablelm, nemotron, granite_experts, phi_experts,
      llama4, afmoe, flex_olmo, qwen3_next, qwen3_5, minimax, bamba, gemma3n, granite_hybrid, nemotron_h, mamba, mamba2, jamba,
      lfm2, kimi_linear;
};
void add_recent_families(FamilyTraits& families);
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
  mutable int chosen = -1;                   // the keys of each query that the last indexer chose
  mutable int keys[2] = {}, values[2] = {};  // of the last layer without and with a window, for layers that share them
  mutable std::vector<int> per_layer = {};   // what each layer reads of the tokens
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
// transformer_linear.cpp: likewise, of a layer with a linear mixer.
int transformer_linear(const Transformer& model, int x, int layer, const std::string& path, bool whole = true);
// Throws InputError where the degrees do not fit the linear mixers.
void check_linear_degree(const Transformer& model, const std::string& name);
// One layer with its units "<block>.attention" and "<block>.mlp", or one unit "<block>" if they are parallel.
int transformer_layer(const Transformer& model, int x, int layer, const std::string& block, int unit_layer);
// transformer_streams.cpp: what layers read of each token, (batch, tokens, layers x features); all streams in front of the
// layers, a unit of its own; a layer; and one stream behind them, again a unit.
int read_per_layer(const Transformer& model, int ids);
int enter_streams(const Transformer& model, int x, int rows);
int streams_layer(const Transformer& model, int x, int layer, const std::string& path);
int leave_streams(const Transformer& model, int x);
// Final normalization, head and loss over all tokens. `word_weight` is the embedding, for a tied head. Returns the loss.
// `further`: the streams behind the layers that predict further tokens, which share the head.
int transformer_head(const Transformer& model, int x, int labels, int word_weight, const std::vector<int>& further = {});
// transformer_further.cpp: those layers' streams. A unit a half, "mtp.1.attention"; each reads the embedding's weights once more.
// Where there are such layers, the final norm stands in front of them: `x` is then its result.
std::vector<int> further_streams(const Transformer& model, int& x, int labels, int word_weight);
// Labels of the k-th further token.
int further_labels(const Transformer& model, int labels, int k);

}  // namespace panpipe
