#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "jobs/export_parts.hpp"
#include "jobs/megatron/export.hpp"
#include "jobs/megatron/fused_permutation.hpp"

namespace panpipe::jobs {
namespace {

class ModelArguments {
 public:
  ModelArguments(const LanguageModel& model, const Scenario& scenario, int tensor, ArgumentLines& lines, ExportedJob& job)
      : d_(model.dimensions), t_(model.dimensions.traits), scenario_(scenario), tensor_(tensor), lines_(lines), job_(job) {}

  void add() {
    add_sizes();
    add_layers();
    add_positions();
    add_vocabulary();
    if (t_.latent.kv_rank > 0) add_latent();
    if (t_.experts.count > 0) add_experts();
    report_traits(t_, job_);
  }

 private:
  template <class... Values>
  void line(fmt::format_string<Values...> text, Values&&... values) {
    lines_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  void cannot(const std::string& phrase) { job_.cannot.push_back(phrase); }
  void cannot_if(bool has, const char* phrase) {
    if (has) cannot(phrase);
  }

  void add_sizes() {
    line("--num-layers {} --hidden-size {} --ffn-hidden-size {} --num-attention-heads {}", d_.layers, d_.hidden, d_.ffn,
         d_.heads);
    if (t_.latent.kv_rank == 0 && key_value_heads(d_) != d_.heads)
      line("--group-query-attention --num-query-groups {}", key_value_heads(d_));
    if (t_.latent.kv_rank == 0 && features_of_head(d_) * d_.heads != d_.hidden) line("--kv-channels {}", features_of_head(d_));
    line("--seq-length {} --max-position-embeddings {}", d_.sequence, std::max(d_.positions, d_.sequence));
  }

  void add_layers() {
    if (t_.norm == NormKind::Rms)
      line("--normalization RMSNorm --norm-epsilon {}", number_text(t_.epsilon));
    else
      line("--norm-epsilon {}", number_text(t_.epsilon));
    const bool smooth = t_.activation == Activation::Gelu || t_.activation == Activation::GeluTanh;
    if (t_.gated && t_.activation == Activation::Silu)
      line("--swiglu");
    else if (!t_.gated && t_.activation == Activation::ReluSquared)
      line("--squared-relu");
    else if (t_.gated || !smooth)
      cannot(t_.gated ? "an MLP whose gate is no SiLU"
                      : "the activation of the MLP, which is neither GELU, SwiGLU nor squared ReLU");
    const bool none = !t_.query_bias && !t_.output_bias && !t_.mlp_bias, all = t_.query_bias && t_.output_bias && t_.mlp_bias;
    if (!all) line("--disable-bias-linear{}", t_.query_bias ? " --add-qkv-bias" : "");
    cannot_if(!all && !none && (t_.output_bias || t_.mlp_bias), "biases of some products of a layer alone");
    if (t_.query_key_norm == QueryKeyNorm::PerHead && t_.latent.kv_rank == 0) line("--qk-layernorm");
    cannot_if(t_.query_key_norm == QueryKeyNorm::Whole, "a norm over the queries of all heads together");
    line("--hidden-dropout {} --attention-dropout {}", number_text(d_.dropout), number_text(d_.dropout));
  }

  void add_positions() {
    switch (t_.positions) {
      case Positions::Rotary:
        line("--position-embedding-type rope --rotary-base {:.0f}", t_.rotary_base);
        if (t_.rotary_features > 0) line("--rotary-percent {}", number_text(double(t_.rotary_features) / features_of_head(d_)));
        add_rotary_scaling();
        break;
      case Positions::Learned:
        line("--position-embedding-type learned_absolute");
        break;
      case Positions::None:
        line("--position-embedding-type none");
        break;
      case Positions::Alibi:
        cannot("linear biases instead of positions (ALiBi)");
    }
    cannot_if(t_.rotary_local_base > 0 && t_.rotary_local_base != t_.rotary_base,
              "a rotary base of its own for layers with a window");
    cannot_if(!t_.no_rotary.empty(), "layers without rotary positions");
    if (t_.window > 0 && t_.window < d_.sequence) {
      if (t_.windowed.empty())
        line("--window-size {},0", t_.window - 1);  // tokens before the query, and behind it
      else
        cannot("attention windows in some of the layers");
    }
  }

  // Megatron-LM's scaling as of Llama 3 takes the factor alone; MLA has another module.
  void add_rotary_scaling() {
    if (t_.rotary_scaling.empty()) return;
    std::istringstream words(t_.rotary_scaling);
    std::string kind;
    double factor = 0, low = 0, high = 0, trained = 0;
    words >> kind >> factor >> low >> high >> trained;
    const bool plain = t_.latent.kv_rank == 0;
    if (plain && kind == "llama3" && low == 1 && high == 4 && trained == 8192)
      line("--use-rope-scaling --rope-scaling-factor {}", number_text(factor));
    else if (plain && kind == "linear" && factor == std::floor(factor))
      line("--rotary-seq-len-interpolation-factor {}", number_text(factor));
    else
      cannot(fmt::format("the scaling of rotary positions: {}", t_.rotary_scaling));
  }

  // Megatron-LM pads to a multiple of this times the tensor-parallel degree.
  void add_vocabulary() {
    constexpr int kUsual = 128;
    int divisor = kUsual;
    while (divisor > 1 && d_.vocabulary % (divisor * tensor_) != 0) --divisor;
    line("--vocab-size {} --make-vocab-size-divisible-by {}", d_.vocabulary, divisor);
    if (d_.vocabulary % tensor_ != 0)
      cannot(fmt::format("a vocabulary of {}, which tensor {} does not divide: it is padded", d_.vocabulary, tensor_));
    if (!d_.tied_embedding) line("--untie-embeddings-and-output-weights");
  }

  void add_latent() {
    const LatentAttention& l = t_.latent;
    // MLA normalizes its latents where it is asked to, and takes YaRN by default.
    line("--qk-layernorm --rope-type rope");
    line("--multi-latent-attention{} --kv-lora-rank {} --qk-head-dim {} --qk-pos-emb-head-dim {} --v-head-dim {}",
         l.query_rank > 0 ? fmt::format(" --q-lora-rank {}", l.query_rank) : "", l.kv_rank, l.plain, l.rotary, l.value);
  }

  // "([0]*3+[1]*58)".
  std::string layer_frequency() const {
    std::vector<std::string> runs;
    for (int i = 0; i < d_.layers;) {
      int end = i;
      while (end < d_.layers && t_.has_experts(end) == t_.has_experts(i)) ++end;
      runs.push_back(fmt::format("[{}]*{}", t_.has_experts(i) ? 1 : 0, end - i));
      i = end;
    }
    return fmt::format("({})", fmt::join(runs, "+"));
  }

  void add_experts() {
    const Experts& e = t_.experts;
    line("--num-experts {} --moe-router-topk {} --moe-ffn-hidden-size {}", e.count, e.per_token, e.ffn);
    const auto first = e.layers.begin(), last = e.layers.begin() + std::min<long>(d_.layers, std::ssize(e.layers));
    if (std::find(first, last, false) != last) line("--moe-layer-freq {}", shell_word(layer_frequency()));
    if (e.shared_ffn > 0)
      line("--moe-shared-expert-intermediate-size {}{}", e.shared_ffn, e.shared_gate ? " --moe-shared-expert-gate" : "");
    std::string router;
    if (e.sigmoid) router += " --moe-router-score-function sigmoid";
    if (!e.sigmoid && !e.normalized) router += " --moe-router-pre-softmax";
    if (e.correction) router += " --moe-router-enable-expert-bias";
    if (e.scale != 1) router += fmt::format(" --moe-router-topk-scaling-factor {}", number_text(e.scale));
    if (!router.empty()) lines_.push_back(router.substr(1));
    add_products();
    if (const auto capacity = scenario_.expert_load.capacity) {
      const bool padded = scenario_.expert_load.padded;
      line("--moe-expert-capacity-factor {}{}", number_text(*capacity), padded ? " --moe-pad-expert-input-to-capacity" : "");
      for (const char* key : {"experts.capacity", "experts.padded"}) job_.stated.emplace_back(key);
    }
    cannot_if(e.router_bias || e.biases, "biases of the router and of experts");
    cannot_if(e.sigmoid && !e.normalized, "weights of experts by the logistic function that do not add up to one");
  }

  // Without --moe-grouped-gemm Megatron-LM runs one expert after another; with it each has a product.
  void add_products() {
    const Framework& framework = scenario_.framework;
    const bool loop = framework.expert_products == ExpertProducts::Loop;
    // Grouped products have no kernel in fp32.
    const bool bf16 = compute_dtype(scenario_.precision) == DType::BFloat16 && is_mixed(scenario_.precision);
    if (!loop && bf16) line("--moe-grouped-gemm");
    cannot_if(!loop && !bf16, "products of all experts at once in another format than bf16 (--moe-grouped-gemm)");
    if (loop || framework.expert_products == ExpertProducts::Each) job_.stated.emplace_back("framework.expert_products");
    const Framework fused = with_fused_permutation();
    if (framework.expert_forward_operators == fused.expert_forward_operators &&
        framework.expert_backward_operators == fused.expert_backward_operators)
      line("--moe-permute-fusion");
  }

  const ModelDimensions& d_;
  const TransformerTraits& t_;
  const Scenario& scenario_;
  int tensor_;
  ArgumentLines& lines_;
  ExportedJob& job_;
};

}  // namespace

void add_megatron_model(const LanguageModel& model, const Scenario& scenario, int tensor, ArgumentLines& lines,
                        ExportedJob& job) {
  ModelArguments(model, scenario, tensor, lines, job).add();
}

}  // namespace panpipe::jobs
