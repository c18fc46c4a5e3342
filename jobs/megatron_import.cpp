#include "jobs/megatron_import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/input/scalar_text.hpp"
#include "jobs/arguments.hpp"

namespace panpipe::jobs {
namespace {

// Arguments that do not move a step: data, paths, logging, numbers of the optimizer, seeds.
const std::vector<std::string> kWithoutEffect = {"--lr",
                                                 "--min-lr",
                                                 "--lr-*",
                                                 "--weight-decay*",
                                                 "--start-weight-decay",
                                                 "--end-weight-decay",
                                                 "--adam-*",
                                                 "--clip-grad",
                                                 "--train-iters",
                                                 "--train-samples",
                                                 "--exit-*",
                                                 "--data-path",
                                                 "--data-cache-path",
                                                 "--split",
                                                 "--train-data-path",
                                                 "--valid-data-path",
                                                 "--test-data-path",
                                                 "--data-args-path",
                                                 "--per-split-data-args-path",
                                                 "--mock-data",
                                                 "--tokenizer-*",
                                                 "--vocab-file",
                                                 "--merge-file",
                                                 "--tiktoken-*",
                                                 "--save",
                                                 "--load",
                                                 "--save-*",
                                                 "--no-save-*",
                                                 "--no-load-*",
                                                 "--ckpt-*",
                                                 "--auto-detect-ckpt-format",
                                                 "--async-save",
                                                 "--use-dist-ckpt",
                                                 "--dist-ckpt-*",
                                                 "--log-*",
                                                 "--no-log-*",
                                                 "--tensorboard-*",
                                                 "--wandb-*",
                                                 "--timing-log-*",
                                                 "--eval-*",
                                                 "--seed",
                                                 "--data-parallel-random-init",
                                                 "--init-method-*",
                                                 "--distributed-timeout-minutes",
                                                 "--num-workers",
                                                 "--dataloader-type",
                                                 "--reset-position-ids",
                                                 "--reset-attention-mask",
                                                 "--eod-mask-loss",
                                                 "--no-create-attention-mask-in-dataloader",
                                                 "--no-mmap-bin-files",
                                                 "--norm-epsilon",
                                                 "--layernorm-epsilon",
                                                 "--rotary-percent",
                                                 "--rotary-seq-len-interpolation-factor",
                                                 "--use-rope-scaling",
                                                 "--rope-scaling-factor",
                                                 "--initial-loss-scale",
                                                 "--min-loss-scale",
                                                 "--loss-scale*",
                                                 "--hysteresis",
                                                 "--master-addr",
                                                 "--master-port",
                                                 "--node-rank",
                                                 "--rdzv-*",
                                                 "--max-restarts",
                                                 "--local-ranks-filter",
                                                 "--tee",
                                                 "--redirects",
                                                 "--distributed-backend",
                                                 "--use-mcore-models",
                                                 "--use-legacy-models",
                                                 "--override-opt-param-scheduler",
                                                 "--use-checkpoint-*",
                                                 "--manual-gc*",
                                                 "--check-for-*",
                                                 "--no-check-for-*",
                                                 "--profile*",
                                                 "--use-pytorch-profiler",
                                                 "--moe-aux-loss-coeff",
                                                 "--moe-z-loss-coeff",
                                                 "--moe-router-load-balancing-type",
                                                 "--moe-per-layer-logging",
                                                 "--attention-softmax-in-fp32",
                                                 "--apply-layernorm-1p",
                                                 "--rotary-interleaved",
                                                 "--lazy-mpu-init",
                                                 "--local-rank",
                                                 "--module",
                                                 "--num-dataset-builder-threads"};

// Arguments that move a step, and that predictions do not know.
const std::vector<std::string> kNotModelled = {"--rampup-batch-size",
                                               "--cuda-graph*",
                                               "--enable-cuda-graph",
                                               "--external-cuda-graph",
                                               "--te-rng-tracker",
                                               "--mtp-*",
                                               "--moe-token-dispatcher-type",
                                               "--moe-permute-fusion",
                                               "--moe-token-drop-policy",
                                               "--moe-shared-expert-overlap",
                                               "--moe-enable-deepep",
                                               "--moe-grouped-gemm",
                                               "--moe-use-legacy-grouped-gemm",
                                               "--moe-router-dtype",
                                               "--moe-router-group-topk",
                                               "--moe-router-num-groups",
                                               "--moe-router-fusion",
                                               "--overlap-moe-expert-parallel-comm",
                                               "--delay-wgrad-compute",
                                               "--no-gradient-accumulation-fusion",
                                               "--nccl-ub",
                                               "--use-sharp",
                                               "--ddp-*",
                                               "--align-param-gather",
                                               "--no-align-grad-reduce",
                                               "--num-distributed-optimizer-instances",
                                               "--fp8-param-gather",
                                               "--first-last-layers-bf16",
                                               "--optimizer-cpu-offload*",
                                               "--cpu-offloading*",
                                               "--use-precision-aware-optimizer",
                                               "--main-grads-dtype",
                                               "--main-params-dtype",
                                               "--exp-avg-dtype",
                                               "--exp-avg-sq-dtype",
                                               "--window-size",
                                               "--cross-entropy-fusion-impl",
                                               "--microbatch-group-size-per-virtual-pipeline-stage",
                                               "--defer-embedding-wgrad-compute",
                                               "--fp16-lm-cross-entropy",
                                               "--deterministic-mode",
                                               "--batch-p2p-communication",
                                               "--no-overlap-p2p-communication",
                                               "--overlap-p2p-communication-warmup-flush"};

constexpr int kGpusOfANode = 8;
// Far beyond any job, and small enough that products of them are no fault of ours.
constexpr int kMostLayers = 1 << 12, kMostFeatures = 1 << 20, kMostRanks = 1 << 16;
constexpr int kGpt2Vocabulary = 50257;

class Import {
 public:
  Import(Arguments& arguments, const MegatronOptions& options) : a_(arguments), options_(options) {
    job_.trainer = "Megatron-LM";
    job_.source = arguments.name();
  }

  ImportedJob job() {
    read_degrees();
    read_cluster();
    read_model();
    read_batch();
    read_precision();
    read_schedule();
    read_recompute();
    read_optimizer();
    read_framework();
    for (std::string& left : a_.take(kNotModelled)) job_.not_modelled.push_back(std::move(left));
    job_.without_effect = a_.take(kWithoutEffect);
    job_.not_understood = a_.rest();
    return std::move(job_);
  }

 private:
  // A count with its argument as origin, or Megatron's default.
  int count(const char* option, int fallback) { return a_.integer(option).value_or(fallback); }
  int needed(const char* option, int at_most) {
    const auto value = a_.integer(option, 1, at_most);
    if (!value)
      throw InputError(fmt::format("{}: {} is missing\n  help: give the arguments of pretrain_gpt.py, as a shell would pass them",
                                   a_.name(), option));
    return *value;
  }
  void put(const char* key, int value, const std::string& origin) { job_.set(key, std::to_string(value), origin); }

  void read_degrees() {
    tensor_ = a_.integer("--tensor-model-parallel-size", 1, kMostRanks).value_or(1);
    pipeline_ = a_.integer("--pipeline-model-parallel-size", 1, kMostRanks).value_or(1);
    context_ = a_.integer("--context-parallel-size", 1, kMostRanks).value_or(1);
    expert_ = a_.integer("--expert-model-parallel-size", 1, kMostRanks).value_or(1);
    if (static_cast<long long>(tensor_) * pipeline_ > kMostRanks)
      a_.refuse("--pipeline-model-parallel-size", fmt::format("x tensor {} are {} ranks, more than {}", tensor_,
                                                              static_cast<long long>(tensor_) * pipeline_, kMostRanks));
    if (context_ > 1)
      a_.refuse("--context-parallel-size", fmt::format("is {}; predictions do not know context parallelism", context_),
                "predict the job without it");
    expert_tensor_ = a_.integer("--expert-tensor-parallel-size").value_or(tensor_);
    if (expert_tensor_ != tensor_ && expert_tensor_ != 1) {
      job_.not_modelled.push_back(
          fmt::format("--expert-tensor-parallel-size {} (experts are cut like the rest, {})", expert_tensor_, tensor_));
      expert_tensor_ = tensor_;
    }
  }

  // What divides experts, and how full they are.
  void read_expert_degrees(int data) {
    const int ranks = tensor_ / expert_tensor_ * context_ * data;
    if (ranks % expert_ != 0)
      a_.refuse("--expert-model-parallel-size",
                expert_tensor_ == tensor_
                    ? fmt::format("is {}, which does not divide the {} ranks of data and context parallelism", expert_, ranks)
                    : fmt::format("is {}, which does not divide the {} ranks that hold experts whole", expert_, ranks));
    if (expert_ > 1) put("parallel.expert", expert_, "--expert-model-parallel-size");
    if (expert_tensor_ != tensor_) put("parallel.expert_tensor", expert_tensor_, "--expert-tensor-parallel-size");
    const auto capacity = a_.number("--moe-expert-capacity-factor");
    const bool padded = a_.flag("--moe-pad-expert-input-to-capacity");
    if (capacity && padded)
      job_.set("experts.capacity", fmt::format("{}", *capacity), "--moe-expert-capacity-factor, padded");
    else if (capacity)
      job_.assumptions.push_back(
          fmt::format("tokens fall evenly on experts, so that --moe-expert-capacity-factor {} drops none.", *capacity));
  }

  void read_cluster() {
    std::optional<int> gpus = options_.gpus;
    int per_node = kGpusOfANode;
    std::string origin = "--gpus";
    if (gpus) {
      for (const char* launcher : {"--nnodes", "--nproc-per-node", "--world-size"}) a_.flag(launcher);
    } else if (a_.has("--nnodes") || a_.has("--nproc-per-node")) {
      per_node = a_.integer("--nproc-per-node", 1, 1 << 10).value_or(kGpusOfANode);
      gpus = per_node * a_.integer("--nnodes", 1, kMostRanks).value_or(1);
      origin = "--nnodes x --nproc_per_node";
    } else {
      gpus = a_.integer("--world-size", 1, kMostRanks);
      origin = "--world-size";
    }
    const int model = tensor_ * pipeline_ * context_;
    if (!gpus) {
      gpus = (model + kGpusOfANode - 1) / kGpusOfANode * kGpusOfANode;
      origin = "assumed";
      job_.assumptions.push_back(fmt::format(
          "{} GPUs, the fewest nodes of {} that hold one replica; --gpus N states another number.", *gpus, kGpusOfANode));
    }
    if (*gpus % model != 0)
      throw InputError(
          fmt::format("{}: {} GPUs ({}) are no multiple of tensor {} x pipeline {} x context {} = {}\n  help: the degrees must "
                      "divide the number of GPUs",
                      a_.name(), *gpus, origin, tensor_, pipeline_, context_, model));
    const int data = *gpus / model;
    if (options_.cluster.empty()) {
      per_node = std::min(per_node, *gpus);
      if (*gpus % per_node != 0)
        throw InputError(fmt::format("{}: {} GPUs ({}) do not fill nodes of {}\n  help: --cluster FILE states the machine",
                                     a_.name(), *gpus, origin, per_node));
      const std::string size = per_node == kGpusOfANode ? "" : fmt::format(", devices_per_node: {}", per_node);
      job_.set("cluster", fmt::format("{{file: clusters/h100x8.yaml, nodes: {}{}}}", *gpus / per_node, size), origin);
      job_.assumptions.push_back(fmt::format("nodes of {} H100; --cluster FILE states the machine.",
                                             per_node == kGpusOfANode ? "eight" : std::to_string(per_node)));
    } else {
      job_.set("cluster", quoted_scalar(options_.cluster), "--cluster");
    }
    put("parallel.pipeline", pipeline_, "--pipeline-model-parallel-size");
    put("parallel.tensor", tensor_, "--tensor-model-parallel-size");
    put("parallel.data", data, fmt::format("{} GPUs / (tensor x pipeline)", *gpus));
    read_expert_degrees(data);
    if (a_.flag("--sequence-parallel")) job_.set("parallel.sequence_parallel", "true", "--sequence-parallel");
    if (a_.flag("--use-distributed-optimizer")) put("parallel.zero", 1, "--use-distributed-optimizer");
    bool fsdp = false;
    for (const char* flag : {"--use-custom-fsdp", "--use-megatron-fsdp", "--use-torch-fsdp2"}) fsdp |= a_.flag(flag);
    const std::string strategy = a_.text("--data-parallel-sharding-strategy").value_or("optim_grads_params");
    if (fsdp && strategy != "no_shard")
      put("parallel.zero", strategy == "optim" ? 1 : strategy == "optim_grads" ? 2 : 3, "--data-parallel-sharding-strategy");
  }

  // A class of transformers that has the same layers: our names for a model are theirs.
  void read_model() {
    layers_ = needed("--num-layers", kMostLayers);
    const int hidden = needed("--hidden-size", kMostFeatures), heads = needed("--num-attention-heads", kMostFeatures);
    const int sequence = needed("--seq-length", 1 << 24);
    const bool gated = a_.flag("--swiglu"), squared = a_.flag("--squared-relu");
    const bool rms = a_.text("--normalization").value_or("LayerNorm") == "RMSNorm";
    const std::string positions =
        a_.text("--position-embedding-type").value_or(a_.flag("--use-rotary-position-embeddings") ? "rope" : "learned_absolute");
    a_.flag("--use-rotary-position-embeddings");
    const bool rotary = positions == "rope" || positions == "yarn";
    if (!rotary && positions != "learned_absolute" && positions != "none")
      a_.refuse("--position-embedding-type", fmt::format("is '{}', which is not known", positions),
                "known are rope, yarn, learned_absolute and none");
    const bool bias = !a_.flag("--disable-bias-linear"), qkv_bias = a_.flag("--add-qkv-bias") || bias;
    const bool norms = a_.flag("--qk-layernorm"), latent = a_.flag("--multi-latent-attention");
    const auto experts = a_.integer("--num-experts");
    const int ffn = a_.integer("--ffn-hidden-size").value_or(gated ? 8 * hidden / 3 / 64 * 64 : 4 * hidden);
    const int groups =
        a_.flag("--group-query-attention") ? count("--num-query-groups", 1) : (a_.integer("--num-query-groups"), heads);

    std::vector<std::string> config;
    const auto add = [&](const char* key, auto value) { config.push_back(fmt::format("{}: {}", key, value)); };
    const bool modern = rotary || rms || gated || squared || experts || latent;
    const char* type = "gpt2";
    if (latent)
      type = "deepseek_v3";
    else if (experts)
      type = norms ? "qwen3_moe" : "qwen2_moe";
    else if (norms)
      type = "qwen3";
    else if (squared)
      type = "arcee";
    else if (modern)
      type = qkv_bias && !bias ? "qwen2" : "llama";
    add("model_type", type);
    add("num_hidden_layers", layers_);
    add("hidden_size", hidden);
    add("num_attention_heads", heads);
    add(modern ? "intermediate_size" : "n_inner", ffn);
    if (modern) add("num_key_value_heads", groups);
    if (const auto channels = a_.integer("--kv-channels")) add("head_dim", *channels);
    if (modern) add("rms_norm_eps", 1e-5);
    add("vocab_size", vocabulary());
    add(modern ? "max_position_embeddings" : "n_positions", a_.integer("--max-position-embeddings").value_or(sequence));
    add("tie_word_embeddings", !a_.flag("--untie-embeddings-and-output-weights"));
    if (modern && !rms)
      job_.assumptions.emplace_back("layers normalize by RMSNorm (--normalization is LayerNorm, whose cost is nearly the same).");
    if (modern && !rotary)
      job_.assumptions.emplace_back("positions are rotary (the job has others, whose cost is nearly the same).");
    if (!gated && type != std::string_view("gpt2") && type != std::string_view("arcee"))
      job_.assumptions.emplace_back("the MLP is gated (--swiglu is missing).");
    if (type == std::string_view("llama") || type == std::string_view("qwen3") || type == std::string_view("qwen3_moe") ||
        type == std::string_view("arcee"))
      add("attention_bias", qkv_bias);
    if (type == std::string_view("llama") || type == std::string_view("arcee")) add("mlp_bias", bias);
    if (type == std::string_view("qwen2_moe")) add("qkv_bias", qkv_bias);
    if (const auto base = a_.number("--rotary-base")) add("rope_theta", *base);
    if (latent) read_latent(config);
    if (latent && !experts)
      for (const char* key : {"n_routed_experts: 1", "num_experts_per_tok: 1", "n_shared_experts: 0"}) config.emplace_back(key);
    if (latent && !experts) add("first_k_dense_replace", layers_);
    if (experts) read_experts(config, *experts, ffn, type);
    job_.set("workload.config", fmt::format("{{{}}}", fmt::join(config, ", ")),
             "the model's arguments, in the words of config.json");
    put("workload.sequence", sequence, "--seq-length");
    const double dropout = std::max(a_.number("--hidden-dropout").value_or(0.1), a_.number("--attention-dropout").value_or(0.1));
    if (dropout > 0)
      job_.set("workload.dropout", fmt::format("{:g}", dropout), "--hidden-dropout, --attention-dropout (default 0.1)");
  }

  void read_latent(std::vector<std::string>& config) {
    const auto add = [&](const char* key, auto value) { config.push_back(fmt::format("{}: {}", key, value)); };
    if (const auto rank = a_.integer("--q-lora-rank"))
      add("q_lora_rank", *rank);
    else
      add("q_lora_rank", "null");
    add("kv_lora_rank", count("--kv-lora-rank", 32));
    add("qk_nope_head_dim", count("--qk-head-dim", 128));
    add("qk_rope_head_dim", count("--qk-pos-emb-head-dim", 64));
    add("v_head_dim", count("--v-head-dim", 128));
    add("num_nextn_predict_layers", 0);
  }

  // "--moe-layer-freq": every so many layers, or a list such as ([0]*3+[1]*58).
  std::vector<bool> sparse_layers() {
    std::vector<bool> sparse(static_cast<std::size_t>(layers_), true);
    const auto text = a_.text("--moe-layer-freq");
    if (!text) return sparse;
    if (!text->empty() && text->find_first_not_of("0123456789") == std::string::npos && text->size() < 6) {
      const int step = std::max(1, std::stoi(*text));
      for (int i = 0; i < layers_; ++i) sparse[static_cast<std::size_t>(i)] = i % step == 0;
      return sparse;
    }
    std::vector<bool> listed;
    for (std::size_t at = 0; (at = text->find('[', at)) != std::string::npos;) {
      std::vector<bool> inner;
      const std::size_t end = std::min(text->find(']', at), text->size());
      for (; at < end; ++at)
        if ((*text)[at] == '0' || (*text)[at] == '1') inner.push_back((*text)[at] == '1');
      int times = 1;
      if (end + 1 < text->size() && (*text)[end + 1] == '*') times = std::atoi(text->c_str() + end + 2);
      for (int i = 0; i < std::min(times, layers_); ++i) listed.insert(listed.end(), inner.begin(), inner.end());
    }
    // "([1]*3+[0]*1)*3": the whole list again.
    if (const std::size_t close = text->rfind(")*"); close != std::string::npos && text->find('[', close) == std::string::npos) {
      const std::vector<bool> once = listed;
      const int times = std::min(std::atoi(text->c_str() + close + 2), layers_);
      for (int i = 1; i < times && static_cast<int>(listed.size()) < layers_; ++i)
        listed.insert(listed.end(), once.begin(), once.end());
    }
    if (static_cast<int>(listed.size()) != layers_)
      a_.refuse("--moe-layer-freq", fmt::format("names {} layers, and the model has {}", listed.size(), layers_));
    return listed;
  }

  void read_experts(std::vector<std::string>& config, int experts, int ffn, std::string_view type) {
    const auto add = [&](const char* key, auto value) { config.push_back(fmt::format("{}: {}", key, value)); };
    const int width = a_.integer("--moe-ffn-hidden-size").value_or(ffn);
    const int shared = a_.integer("--moe-shared-expert-intermediate-size", 0).value_or(0);
    const std::vector<bool> sparse = sparse_layers();
    const bool deepseek = type == "deepseek_v3";
    add(deepseek ? "n_routed_experts" : "num_experts", experts);
    add("num_experts_per_tok", count("--moe-router-topk", 2));
    add("moe_intermediate_size", width);
    add("norm_topk_prob", true);
    if (deepseek) {
      if (shared % width != 0)
        a_.refuse("--moe-shared-expert-intermediate-size",
                  fmt::format("is {}, no multiple of an expert's {} features", shared, width));
      add("n_shared_experts", shared / width);
      const auto first = static_cast<int>(std::find(sparse.begin(), sparse.end(), true) - sparse.begin());
      add("first_k_dense_replace", first);
      if (std::find(sparse.begin() + first, sparse.end(), false) != sparse.end())
        job_.assumptions.push_back(
            fmt::format("all layers behind the first {} have experts (--moe-layer-freq names others without).", first));
    } else {
      if (type == "qwen2_moe")
        add("shared_expert_intermediate_size", shared);
      else if (shared > 0)
        job_.not_modelled.push_back(fmt::format("--moe-shared-expert-intermediate-size {} (beside --qk-layernorm)", shared));
      std::vector<int> dense;
      for (int i = 0; i < layers_; ++i)
        if (!sparse[static_cast<std::size_t>(i)]) dense.push_back(i);
      if (!dense.empty()) add("mlp_only_layers", fmt::format("[{}]", fmt::join(dense, ", ")));
    }
    for (const char* known :
         {"--moe-router-score-function", "--moe-router-enable-expert-bias", "--moe-router-topk-scaling-factor",
          "--moe-router-bias-update-rate", "--moe-router-pre-softmax", "--moe-shared-expert-gate"})
      a_.flag(known);
  }

  // Megatron pads the vocabulary to a multiple of 128 x the tensor-parallel degree.
  int vocabulary() {
    if (const auto padded = a_.integer("--padded-vocab-size")) return *padded;
    const long long multiple =
        static_cast<long long>(a_.integer("--make-vocab-size-divisible-by", 1, kMostRanks).value_or(128)) * tensor_;
    const auto given = a_.integer("--vocab-size");
    const std::optional<int> stated = given ? given : options_.vocabulary;
    if (!stated)
      job_.assumptions.push_back(
          fmt::format("a vocabulary of GPT-2's {} tokens; --vocabulary N states the tokenizer's.", kGpt2Vocabulary));
    const int tokens = stated.value_or(kGpt2Vocabulary);
    return static_cast<int>(std::min<long long>((tokens + multiple - 1) / multiple * multiple, 1 << 24));
  }

  void read_batch() {
    const int micro = needed("--micro-batch-size", 1 << 20);
    put("batch.micro", micro, "--micro-batch-size");
    if (const auto global = a_.integer("--global-batch-size"))
      put("batch.global", *global, "--global-batch-size");
    else
      put("batch.microbatches", 1, "--global-batch-size is missing: micro batch x data");
  }

  void read_precision() {
    if (a_.has("--fp8-format") || a_.has("--fp8-hybrid")) {
      const std::string recipe = a_.text("--fp8-recipe").value_or("delayed");
      a_.flag("--fp8-format"), a_.flag("--fp8-hybrid"), a_.flag("--bf16");
      for (const char* known : {"--fp8-amax-history-len", "--fp8-amax-compute-algo", "--fp8-margin", "--fp8-interval"})
        a_.flag(known);
      job_.set("precision", "bf16", "--fp8-format");
      job_.not_modelled.push_back(fmt::format("--fp8-format (recipe {}): products are predicted in bf16", recipe));
      return;
    }
    const bool bf16 = a_.flag("--bf16"), fp16 = a_.flag("--fp16");
    if (bf16 && fp16) a_.refuse("--fp16", "contradicts --bf16");
    job_.set("precision",
             bf16   ? "bf16"
             : fp16 ? "fp16"
                    : "fp32",
             bf16   ? "--bf16"
             : fp16 ? "--fp16"
                    : "neither --bf16 nor --fp16");
  }

  void read_schedule() {
    const auto per_stage = a_.integer("--num-layers-per-virtual-pipeline-stage", 1, kMostLayers);
    auto virtual_stages = a_.integer("--num-virtual-stages-per-pipeline-rank", 1, kMostLayers);
    if (per_stage && virtual_stages)
      a_.refuse("--num-layers-per-virtual-pipeline-stage", "and --num-virtual-stages-per-pipeline-rank exclude each other");
    if (const auto layout = a_.text("--pipeline-model-parallel-layout")) {
      if (per_stage || virtual_stages) a_.refuse("--pipeline-model-parallel-layout", "excludes the arguments for virtual stages");
      const auto stages = static_cast<int>(layers_of_layout(*layout).size());
      if (stages % pipeline_ != 0)
        a_.refuse("--pipeline-model-parallel-layout", fmt::format("has {} stages, no multiple of {}", stages, pipeline_));
      virtual_stages = stages / pipeline_;
    }
    if (per_stage) {
      const int counted = layers_ + (a_.flag("--account-for-embedding-in-pipeline-split") ? 1 : 0) +
                          (a_.flag("--account-for-loss-in-pipeline-split") ? 1 : 0);
      if (counted % (static_cast<long long>(pipeline_) * *per_stage) != 0)
        a_.refuse("--num-layers-per-virtual-pipeline-stage",
                  fmt::format("is {}, and {} layers over {} stages are no multiple of it", *per_stage, counted, pipeline_));
      virtual_stages = counted / pipeline_ / *per_stage;
    }
    if (virtual_stages && *virtual_stages > 1 && pipeline_ > 1) {
      put("parallel.virtual_stages", *virtual_stages,
          per_stage ? "--num-layers / --pipeline-model-parallel-size / --num-layers-per-virtual-pipeline-stage"
                    : "--num-virtual-stages-per-pipeline-rank");
      job_.set("schedule", "interleaved-1f1b", "Megatron's schedule with virtual stages");
    } else {
      job_.set("schedule", "1f1b", "Megatron's schedule without virtual stages");
    }
    read_stages(virtual_stages.value_or(1));
  }

  // Layers of the first and last stage, or a layout "Et*2|t*3|tL": as units that start a stage.
  void read_stages(int virtual_stages) {
    std::vector<int> layers;
    const int stages = pipeline_ * virtual_stages;
    if (const auto layout = a_.text("--pipeline-model-parallel-layout")) {
      layers = layers_of_layout(*layout);
    } else if (a_.has("--decoder-first-pipeline-num-layers") || a_.has("--decoder-last-pipeline-num-layers")) {
      const auto first = a_.integer("--decoder-first-pipeline-num-layers"),
                 last = a_.integer("--decoder-last-pipeline-num-layers");
      const int others = stages - (first ? 1 : 0) - (last ? 1 : 0), rest = layers_ - first.value_or(0) - last.value_or(0);
      if (others < 1 || rest < 0 || rest % others != 0)
        a_.refuse(first ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers",
                  fmt::format("leaves {} layers for {} stages, which is not the same for each", rest, others));
      layers.assign(static_cast<std::size_t>(stages), rest / std::max(1, others));
      if (first) layers.front() = *first;
      if (last) layers.back() = *last;
    } else if (a_.flag("--account-for-embedding-in-pipeline-split") || a_.flag("--account-for-loss-in-pipeline-split")) {
      const bool embedding = a_.flag("--account-for-embedding-in-pipeline-split"),
                 loss = a_.flag("--account-for-loss-in-pipeline-split");
      const int all = layers_ + (embedding ? 1 : 0) + (loss ? 1 : 0);
      if (all % stages != 0)
        a_.refuse(embedding ? "--account-for-embedding-in-pipeline-split" : "--account-for-loss-in-pipeline-split",
                  fmt::format("makes {} parts, which {} stages do not divide", all, stages));
      layers.assign(static_cast<std::size_t>(stages), all / stages);
      if (embedding) --layers.front();
      if (loss) --layers.back();
    }
    if (layers.empty()) {
      if (layers_ % stages != 0)
        throw InputError(fmt::format(
            "{}: {} layers cannot be cut into {} equal stages\n  help: Megatron needs --decoder-first-pipeline-num-layers, "
            "--decoder-last-pipeline-num-layers or --pipeline-model-parallel-layout here",
            a_.name(), layers_, stages));
      layers.assign(static_cast<std::size_t>(stages), layers_ / stages);
    }
    if (stages > 1 && std::find(layers.begin() + 1, layers.end() - 1, 0) != layers.end() - 1)
      a_.refuse("--pipeline-model-parallel-layout", "has a stage without layers between others, which is not modelled");
    std::vector<std::string> starts;
    int layer = 0;
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
      layer += layers[i];
      starts.push_back(layer < layers_ ? fmt::format("h.{}.attention", layer) : "head");
    }
    if (stages > 1) job_.set("partition", fmt::format("[{}]", fmt::join(starts, ", ")), "layers of the stages");
  }

  // Megatron's layout: `E` embedding, `t` a layer, `L` loss, `m` a layer that predicts further tokens, `|` between stages, `x*n`
  // repeated, `(x)*n` too.
  std::vector<int> layers_of_layout(const std::string& text) {
    std::string flat;
    const auto number_after = [&](std::size_t& at) {
      int times = 1;
      if (at < text.size() && text[at] == '*') {
        const char* begin = text.data() + at + 1;
        times = std::atoi(begin);
        while (++at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) {
        }
        if (times < 1 || times > 4096)
          a_.refuse("--pipeline-model-parallel-layout", fmt::format("repeats a part {} times", times));
      }
      return times;
    };
    for (std::size_t at = 0; at < text.size();) {
      std::string part(1, text[at]);
      if (text[at] == '(') {
        const std::size_t end = text.find(')', at);
        if (end == std::string::npos) a_.refuse("--pipeline-model-parallel-layout", "has a '(' without its ')'");
        part = expanded_part(text.substr(at + 1, end - at - 1));
        at = end;
      }
      ++at;
      const int times = number_after(at);
      for (int i = 0; i < times; ++i) {
        flat += part;
        if (flat.size() > kMostRanks) a_.refuse("--pipeline-model-parallel-layout", "is too long");
      }
    }
    std::vector<int> layers = {0};
    for (const char c : flat) {
      if (c == '|')
        layers.push_back(0);
      else if (c == 't')
        ++layers.back();
      else if (c != 'E' && c != 'L' && c != 'm' && c != ',' && c != ' ')
        a_.refuse("--pipeline-model-parallel-layout", fmt::format("holds '{}', which is not known", c),
                  "known are E, t, L, m, '|', '*' and parentheses");
    }
    int sum = 0;
    for (const int of_stage : layers) sum += of_stage;
    if (sum != layers_)
      a_.refuse("--pipeline-model-parallel-layout", fmt::format("has {} layers, and the model has {}", sum, layers_));
    return layers;
  }
  static std::string expanded_part(const std::string& text) {
    std::string flat;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at++];
      int times = 1;
      if (at < text.size() && text[at] == '*') {
        times = std::atoi(text.c_str() + at + 1);
        while (++at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) {
        }
      }
      flat.append(static_cast<std::size_t>(std::clamp(times, 1, 4096)), c);
      if (flat.size() > kMostRanks) break;  // the caller refuses it
    }
    return flat;
  }

  void read_recompute() {
    const auto granularity = a_.text("--recompute-granularity");
    const auto method = a_.text("--recompute-method");
    const int layers = count("--recompute-num-layers", 1);
    const std::vector<std::string> modules = a_.list("--recompute-modules");
    if (a_.flag("--recompute-activations") || granularity == "selective") {
      if (modules.empty() || (modules.size() == 1 && modules[0] == "core_attn")) {
        job_.set("recompute", "selective", granularity ? "--recompute-granularity selective" : "--recompute-activations");
        return;
      }
      read_recomputed_modules(modules);
      return;
    }
    if (!granularity) return;
    if (*granularity != "full")
      a_.refuse("--recompute-granularity", fmt::format("is '{}'; it is full or selective", *granularity));
    if (method == "block") {
      job_.set("recompute", fmt::format("{{first: {}}}", layers), "--recompute-method block, --recompute-num-layers");
      return;
    }
    if (layers > 1)
      job_.set("recompute", fmt::format("{{chunk: {}}}", layers), "--recompute-method uniform, --recompute-num-layers");
    else
      job_.set("recompute", "full", "--recompute-granularity full");
  }

  void read_recomputed_modules(const std::vector<std::string>& modules) {
    std::vector<std::string> operators;
    const auto add = [&](const char* name) {
      if (std::find(operators.begin(), operators.end(), name) == operators.end()) operators.emplace_back(name);
    };
    for (const std::string& module : modules) {
      if (module == "core_attn")
        add("attention");
      else if (module == "layernorm")
        add("norms");
      else if (module == "moe_act")
        add("elementwise");
      else if (module == "mlp" || module == "moe" || module == "shared_experts")
        add("elementwise"), add("products");
      else
        job_.not_modelled.push_back("--recompute-modules " + module);
    }
    if (!operators.empty())
      job_.set("recompute", fmt::format("{{operators: [{}]}}", fmt::join(operators, ", ")), "--recompute-modules");
  }

  void read_optimizer() {
    const std::string name = a_.text("--optimizer").value_or("adam");
    if (name != "adam" && name != "sgd") {
      job_.not_modelled.push_back("--optimizer " + name);
      return;
    }
    job_.set("optimizer", name == "adam" ? "adamw" : "sgd", a_.has("--optimizer") ? "--optimizer" : "Megatron's default");
  }

  void read_framework() {
    std::vector<std::string> choices = {"name: megatron-core"}, origins;
    const std::string backend = a_.text("--attention-backend").value_or("");
    const bool flash = a_.flag("--use-flash-attn") || backend == "flash";
    const bool local = a_.text("--transformer-impl").value_or("transformer_engine") == "local";
    const auto choose = [&](const char* choice, const char* origin) {
      choices.emplace_back(choice);
      origins.emplace_back(origin);
    };
    if (flash) choose("attention: flash-2", "--use-flash-attn");
    if (backend == "unfused" || (local && !flash))
      choose("attention: unfused", backend.empty() ? "--transformer-impl local" : "--attention-backend unfused");
    if (a_.flag("--overlap-grad-reduce"))
      choose("overlap_all_reduce: true, overlap_reduce_scatter: true", "--overlap-grad-reduce");
    if (a_.flag("--overlap-param-gather")) choose("overlap_parameter_gather: true", "--overlap-param-gather");
    if (a_.flag("--tp-comm-overlap")) choose("overlap_tensor_collectives: true", "--tp-comm-overlap");
    bool unfused = false;
    for (const char* flag : {"--no-bias-gelu-fusion", "--no-bias-swiglu-fusion", "--no-bias-dropout-fusion"})
      unfused |= a_.flag(flag);
    if (unfused) choose("elementwise: eager", "--no-bias-...-fusion");
    for (const char* known : {"--accumulate-allreduce-grads-in-fp32", "--no-masked-softmax-fusion", "--no-rope-fusion",
                              "--cross-entropy-loss-fusion", "--bias-gelu-fusion", "--grad-reduce-in-bf16"})
      if (a_.flag(known) && std::string_view(known) == "--grad-reduce-in-bf16") choose("gradient_bytes: 2", known);
    job_.set("framework", fmt::format("{{{}}}", fmt::join(choices, ", ")),
             origins.empty() ? "Megatron-Core with Transformer Engine" : fmt::format("{}", fmt::join(origins, ", ")));
  }

  Arguments& a_;
  const MegatronOptions& options_;
  ImportedJob job_;
  int tensor_ = 1, pipeline_ = 1, context_ = 1, expert_ = 1, expert_tensor_ = 1, layers_ = 0;
};

}  // namespace

ImportedJob import_megatron(const std::string& text, const std::string& name, const MegatronOptions& options) {
  Arguments arguments(shell_words(text, name), name);
  return Import(arguments, options).job();
}

}  // namespace panpipe::jobs
