#include <algorithm>

#include "base/error.hpp"
#include "jobs/bounds.hpp"
#include "jobs/config_text.hpp"
#include "jobs/megatron/job.hpp"
#include "jobs/megatron/vocabulary.hpp"
#include "jobs/repeats.hpp"

namespace panpipe::jobs {
namespace {

constexpr int kGpt2Vocabulary = 50257;
constexpr int kMostFurther = 16;

class MegatronModel {
 public:
  explicit MegatronModel(MegatronJob& megatron) : m_(megatron), a_(megatron.arguments) {}

  void read() {
    read_traits();
    m_.layers = m_.needed("--num-layers", kMostLayers);
    hidden_ = m_.needed("--hidden-size", kMostHidden);
    heads_ = m_.needed("--num-attention-heads", kMostHidden);
    const int sequence = read_sequence();
    ffn_ = a_.integer("--ffn-hidden-size").value_or(gated_ ? 8 * hidden_ / 3 / 64 * 64 : 4 * hidden_);
    if (experts_) read_experts();
    choose_type();
    add_dimensions(sequence);
    report_differences();
    add_biases();
    if (const auto base = a_.number("--rotary-base"); base || is("mixtral")) config_.add("rope_theta", base.value_or(10000));
    if (latent_) add_latent();
    if (experts_) add_experts();
    m_.job.set("workload.config", config_.text(), "the model's arguments, in the words of config.json");
    const double dropout = std::max(a_.number("--hidden-dropout").value_or(0.1), a_.number("--attention-dropout").value_or(0.1));
    if (dropout > 0)
      m_.job.set("workload.dropout", fmt::format("{:g}", dropout), "--hidden-dropout, --attention-dropout (default 0.1)");
  }

 private:
  // Models with a decoder behind an encoder state two lengths, and no --seq-length.
  int read_sequence() {
    const bool encoder = a_.has("--encoder-seq-length") && !a_.has("--seq-length");
    const char* option = encoder ? "--encoder-seq-length" : "--seq-length";
    if (m_.options.sequence) a_.ignore(option);
    const int sequence =
        m_.options.sequence ? *m_.options.sequence : m_.needed(option, kMostTokens, "--sequence N states the tokens of a sample");
    m_.job.set("workload.sequence", sequence, m_.options.sequence ? "--sequence" : option);
    if (encoder && a_.has("--decoder-seq-length"))
      m_.job.not_modelled.push_back(one_line("--decoder-seq-length " + a_.text("--decoder-seq-length").value_or("")) +
                                    " (an encoder and a decoder are predicted as one stack of --num-layers)");
    return sequence;
  }

  int count(const char* option, int fallback) { return a_.integer(option).value_or(fallback); }
  bool is(std::string_view type) const { return type_ == type; }

  void read_traits() {
    gated_ = a_.flag("--swiglu"), squared_ = a_.flag("--squared-relu");
    const std::string norm = a_.text("--normalization").value_or("LayerNorm");
    rms_ = norm == "RMSNorm" || norm == "rmsnorm";  // Megatron-DeepSpeed's word
    bool flagged = false;
    for (const char* flag : {"--use-rotary-position-embeddings", "--use-llama2-rotary-position-embeddings"})
      flagged |= a_.flag(flag);
    std::string positions = a_.text("--position-embedding-type").value_or(flagged ? "rope" : "learned_absolute");
    if (a_.flag("--no-position-embedding") && positions == "learned_absolute") positions = "none";
    // `rotary` and `absolute` are the forks' words; `mrope` turns each part of a head by its own position.
    rotary_ = positions == "rope" || positions == "rotary" || positions == "yarn" || positions == "mrope";
    alibi_ = positions == "alibi";
    if (!rotary_ && !alibi_ && positions != "learned_absolute" && positions != "absolute" && positions != "none")
      a_.refuse("--position-embedding-type", fmt::format("is '{}', which is not known", positions),
                "known are rope, rotary, mrope, yarn, alibi, learned_absolute, absolute and none");
    bias_ = !a_.flag("--disable-bias-linear");
    qkv_bias_ = a_.flag("--add-qkv-bias") || bias_;
    norms_ = a_.flag("--qk-layernorm");
    latent_ = a_.flag("--multi-latent-attention");
    experts_ = a_.integer("--num-experts", 1, kMostRanks);
    if (experts_ == 1) experts_.reset();  // Megatron-DeepSpeed's word for none
    modern_ = rotary_ || rms_ || gated_ || squared_ || experts_ || latent_;
  }

  // A class of transformers that has the same layers: our names for a model are theirs.
  void choose_type() {
    if (latent_)
      type_ = "deepseek_v3";
    else if (experts_)
      type_ = norms_ ? "qwen3_moe" : has_mixtrals_layers() ? "mixtral" : "qwen2_moe";
    else if (norms_)
      type_ = "qwen3";
    else if (squared_)
      type_ = "arcee";
    else if (modern_)
      type_ = qkv_bias_ && !bias_ ? "qwen2" : "llama";
    else if (alibi_)
      type_ = "bloom";
    config_.add("model_type", type_);
  }

  // Experts in every layer, none for all tokens, weights that are a softmax over a token's own experts, no biases.
  bool has_mixtrals_layers() const {
    return shared_ == 0 && normalized_ && gated_ && !qkv_bias_ &&
           std::find(sparse_.begin(), sparse_.end(), false) == sparse_.end();
  }

  void add_dimensions(int sequence) {
    const bool grouped = a_.flag("--group-query-attention");
    const auto stated = a_.integer("--num-query-groups");
    const int groups = grouped ? stated.value_or(1) : count("--num-key-value-heads", heads_);
    config_.add("num_hidden_layers", m_.layers);
    config_.add("hidden_size", hidden_);
    config_.add("num_attention_heads", heads_);
    config_.add(modern_ ? "intermediate_size" : "n_inner", is("mixtral") ? width_ : ffn_);
    if (modern_) config_.add("num_key_value_heads", groups);
    if (const auto channels = a_.integer("--kv-channels")) config_.add("head_dim", *channels);
    if (modern_) config_.add("rms_norm_eps", 1e-5);
    config_.add("vocab_size", vocabulary());
    config_.add(modern_ ? "max_position_embeddings" : "n_positions", a_.integer("--max-position-embeddings").value_or(sequence));
    config_.add("tie_word_embeddings", !a_.flag("--untie-embeddings-and-output-weights"));
  }

  void report_differences() {
    auto& assumptions = m_.job.assumptions;
    if (modern_ && !rms_)
      assumptions.emplace_back("layers normalize by RMSNorm (--normalization is LayerNorm, whose cost is nearly the same).");
    const bool norm = a_.flag("--embed-layernorm");
    if (norm != is("bloom"))
      assumptions.emplace_back(norm ? "the norm behind the embedding (--embed-layernorm) is left out."
                                    : "the embedding is normalized, as BLOOM's is (--embed-layernorm is missing).");
    if (is("bloom") && ffn_ != 4 * hidden_)
      assumptions.push_back(fmt::format("the MLP is {} wide, as BLOOM's is (--ffn-hidden-size {}).", 4 * hidden_, ffn_));
    if (modern_ && !rotary_)
      assumptions.emplace_back("positions are rotary (the job has others, whose cost is nearly the same).");
    if (!gated_ && !is("gpt2") && !is("bloom") && !is("arcee"))
      assumptions.emplace_back("the MLP is gated (--swiglu is missing).");
  }

  void add_biases() {
    if (is("llama") || is("qwen3") || is("qwen3_moe") || is("arcee")) config_.add("attention_bias", qkv_bias_);
    if (is("llama") || is("arcee")) config_.add("mlp_bias", bias_);
    if (is("qwen2_moe")) config_.add("qkv_bias", qkv_bias_);
  }

  void add_latent() {
    if (const auto rank = a_.integer("--q-lora-rank"))
      config_.add("q_lora_rank", *rank);
    else
      config_.add("q_lora_rank", "null");
    config_.add("kv_lora_rank", count("--kv-lora-rank", 32));
    config_.add("qk_nope_head_dim", count("--qk-head-dim", 128));
    config_.add("qk_rope_head_dim", count("--qk-pos-emb-head-dim", 64));
    config_.add("v_head_dim", count("--v-head-dim", 128));
    m_.further = a_.integer("--mtp-num-layers", 0, kMostFurther).value_or(0);
    config_.add("num_nextn_predict_layers", m_.further);
    if (m_.further > 0) config_.add("mtp_num_layers", m_.further);
    if (experts_) return;
    config_.add("n_routed_experts", 1);
    config_.add("num_experts_per_tok", 1);
    config_.add("n_shared_experts", 0);
    config_.add("first_k_dense_replace", m_.layers);
  }

  // "--moe-layer-freq": every so many layers, or a list such as ([0]*3+[1]*58).
  std::vector<bool> sparse_layers() {
    const auto layers = static_cast<std::size_t>(m_.layers);
    std::vector<bool> sparse(layers, true);
    const auto text = a_.text("--moe-layer-freq");
    if (!text) return sparse;
    if (!text->empty() && text->find_first_not_of("0123456789", (*text)[0] == '-' ? 1 : 0) == std::string::npos) {
      const int every = *a_.integer("--moe-layer-freq", -kMostLayers, kMostLayers);  // -1, of MindSpeed: every layer
      if (every == 0) a_.refuse("--moe-layer-freq", "is 0; it must be at least 1");
      const auto step = static_cast<std::size_t>(std::abs(every));
      for (std::size_t i = 0; i < layers; ++i) sparse[i] = i % step == 0;
      return sparse;
    }
    const Repeats list = expand_repeats(*text, "()[]", kMostRanks);
    if (!list.problem.empty()) a_.refuse("--moe-layer-freq", list.problem);
    std::vector<bool> listed;
    for (const char c : list.flat) {
      if (c == '0' || c == '1')
        listed.push_back(c == '1');
      else if (c != '+' && c != ',' && c != ' ')
        a_.refuse("--moe-layer-freq", fmt::format("holds '{}'", c), "it is a number, or a list such as ([0]*3+[1]*58)");
    }
    if (listed.size() != layers)
      a_.refuse("--moe-layer-freq", fmt::format("names {} layers, and the model has {}", listed.size(), m_.layers));
    return listed;
  }

  void read_experts() {
    width_ = a_.integer("--moe-ffn-hidden-size").value_or(ffn_);
    shared_ = a_.integer("--moe-shared-expert-intermediate-size", 0).value_or(0);
    sparse_ = sparse_layers();
    const bool softmax = a_.text("--moe-router-score-function").value_or("softmax") == "softmax";
    normalized_ = !(a_.flag("--moe-router-pre-softmax") && softmax);
  }

  void add_experts() {
    config_.add(latent_ ? "n_routed_experts" : is("mixtral") ? "num_local_experts" : "num_experts", *experts_);
    config_.add("num_experts_per_tok", count("--moe-router-topk", 2));
    if (!is("mixtral")) {
      config_.add("moe_intermediate_size", width_);
      config_.add("norm_topk_prob", normalized_);
    }
    if (latent_)
      add_experts_of_deepseek(shared_, width_, sparse_);
    else if (!is("mixtral"))
      add_experts_of_qwen(shared_, sparse_);
    for (const char* known : {"--moe-router-enable-expert-bias", "--moe-router-topk-scaling-factor",
                              "--moe-router-bias-update-rate", "--moe-shared-expert-gate"})
      a_.flag(known);
    m_.grouped_products = a_.flag("--moe-grouped-gemm");
    m_.fused_permutation = a_.flag("--moe-permute-fusion");
    m_.dispatcher = a_.text("--moe-token-dispatcher-type").value_or("alltoall");
    if (m_.dispatcher != "alltoall" && m_.dispatcher != "flex")
      m_.job.not_modelled.push_back(one_line("--moe-token-dispatcher-type " + m_.dispatcher) + " (predicted as alltoall)");
  }

  void add_experts_of_deepseek(int shared, int width, const std::vector<bool>& sparse) {
    if (shared % width != 0)
      a_.refuse("--moe-shared-expert-intermediate-size",
                fmt::format("is {}, no multiple of an expert's {} features", shared, width));
    config_.add("n_shared_experts", shared / width);
    m_.expert_groups = a_.integer("--moe-router-num-groups").value_or(1);
    config_.add("n_group", m_.expert_groups);
    config_.add("topk_group", a_.integer("--moe-router-group-topk").value_or(m_.expert_groups));
    const auto first = static_cast<int>(std::find(sparse.begin(), sparse.end(), true) - sparse.begin());
    config_.add("first_k_dense_replace", first);
    if (std::find(sparse.begin() + first, sparse.end(), false) != sparse.end())
      m_.job.assumptions.push_back(
          fmt::format("all layers behind the first {} have experts (--moe-layer-freq names others without).", first));
  }

  void add_experts_of_qwen(int shared, const std::vector<bool>& sparse) {
    if (is("qwen2_moe"))
      config_.add("shared_expert_intermediate_size", shared);
    else if (shared > 0)
      m_.job.not_modelled.push_back(fmt::format("--moe-shared-expert-intermediate-size {} (beside --qk-layernorm)", shared));
    std::vector<std::size_t> dense;
    for (std::size_t i = 0; i < sparse.size(); ++i)
      if (!sparse[i]) dense.push_back(i);
    if (!dense.empty()) config_.add("mlp_only_layers", fmt::format("[{}]", fmt::join(dense, ", ")));
  }

  // Megatron pads the vocabulary to a multiple of 128 x the tensor-parallel degree; parameters and products have the padded rows.
  int vocabulary() {
    const auto given = a_.integer("--vocab-size");
    const auto divisor = a_.integer("--make-vocab-size-divisible-by", 1, kMostRanks);
    for (const char* option : {"--padded-vocab-size", "--pad-vocab-size-to"})
      if (const auto padded = a_.integer(option)) return *padded;
    std::optional<int> stated = given ? given : m_.options.vocabulary;
    if (!stated && !a_.is_unknown("--vocab-size")) {
      if (const auto known = known_vocabulary(a_)) {
        m_.job.assumptions.push_back(fmt::format("a vocabulary of {} tokens ({}).", known->tokens, one_line(known->origin)));
        if (known->padded) return known->tokens;
        stated = known->tokens;
      }
    }
    if (!stated)
      m_.job.assumptions.push_back(
          fmt::format("a vocabulary of GPT-2's {} tokens; --vocabulary N states the tokenizer's.", kGpt2Vocabulary));
    const int tokens = stated.value_or(kGpt2Vocabulary);
    const long long multiple = static_cast<long long>(divisor.value_or(128)) * m_.degrees.tensor;
    const long long padded = (tokens + multiple - 1) / multiple * multiple;
    if (padded > kMostVocabulary)
      throw InputError(fmt::format("{}: {} tokens, padded to a multiple of {}, are {}, more than {}", a_.name(), tokens, multiple,
                                   padded, kMostVocabulary));
    if (padded != tokens)
      m_.job.assumptions.push_back(fmt::format("the vocabulary of {} tokens is padded to {}, a multiple of {} x tensor {}.",
                                               tokens, padded, divisor.value_or(128), m_.degrees.tensor));
    return static_cast<int>(padded);
  }

  MegatronJob& m_;
  Arguments& a_;
  ConfigText config_;
  std::string_view type_ = "gpt2";
  bool alibi_ = false, gated_ = false, squared_ = false, rms_ = false, rotary_ = false, bias_ = false, qkv_bias_ = false;
  bool norms_ = false, latent_ = false;
  bool modern_ = false;  // more than GPT-2's layers
  std::optional<int> experts_;
  int width_ = 0, shared_ = 0;  // of an expert, and of the one for all tokens
  bool normalized_ = true;      // the weights of a token's experts add up to one
  std::vector<bool> sparse_;    // layers with experts
  int hidden_ = 0, heads_ = 0, ffn_ = 0;
};

}  // namespace

void read_megatron_model(MegatronJob& megatron) { MegatronModel(megatron).read(); }

}  // namespace panpipe::jobs
