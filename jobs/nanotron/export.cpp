#include "jobs/nanotron/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/scenario/nanotron_cuts.hpp"
#include "costmodel/workload/language_model.hpp"
#include "jobs/export_parts.hpp"

namespace panpipe::jobs {
namespace {

class NanotronExport : ConfigurationExport {
 public:
  using ConfigurationExport::ConfigurationExport;

  ExportedJob job() {
    left_out_.add("general.project");
    set_stated("seed", "general.seed", std::to_string(scenario_.seed));
    add_plan();
    add_model();
    add_precision();
    set("tokens.sequence_length", language_model_of(scenario_.workload)->dimensions.sequence);
    set_steps("tokens.train_steps");
    add_optimizer();
    add_rate();
    add_data();
    left_out_.report("nanotron takes its own values for these, or does not start", job_);
    report_the_rest(request_, job_);
    job_.besides.push_back(fmt::format("For nanotron: {} run_train.py --config-file FILE.", launch_text(request_)));
    job_.text = head_text(request_, "A configuration for nanotron", job_, "# ") + yaml_text(settings_);
    return std::move(job_);
  }

 private:
  void add_plan() {
    if (plan_.zero > 1)
      refuse(fmt::format("nanotron divides no gradients and no parameters, and the plan has ZeRO {}", plan_.zero),
             "panpipe plan --for nanotron plans without");
    for (const auto& [path, value] : nanotron_plan_settings(request_))
      if (path != "parallelism.context_parallel_size" || plan_.context > 1) set(path, value);  // new in 0.5
    job_.stated = {"parallel.context", "parallel.context_exchange"};
    cannot_if(plan_.context > 1 && scenario_.context_exchange != ContextExchange::Ring,
              "another exchange of keys and values than a ring");
    recompute_of_blocks();
    const std::string cuts = other_cuts_than_nanotrons(request_);
    cannot_if(!cuts.empty(), cuts);
    if (plan_.tensor > 1) {
      set("parallelism.tp_linear_async_communication", flag_text(scenario_.framework.overlap_tensor_collectives));
      set("parallelism.tp_recompute_allgather", flag_text(!scenario_.framework.keep_gathered_inputs));
    }
  }

  void add_model() {
    const auto model = language_model_of(scenario_.workload);
    if (!model) refuse(fmt::format("nanotron trains language models, and '{}' is none", request_.experiment.workload.name));
    const ModelDimensions& d = model->dimensions;
    const TransformerTraits& t = d.traits;
    const int groups = key_value_heads(d);
    if (groups < plan_.tensor)
      refuse(fmt::format("nanotron gives each tensor-parallel rank a head of keys and values, and the model has {} for {} ranks",
                         groups, plan_.tensor));
    const bool experts = t.experts.count > 0, qwen = experts || t.query_bias;
    const std::string in = "model.model_config.";
    set(in + (qwen ? "is_qwen2_config" : "is_llama_config"), "true");
    if (qwen) set(in + "attention_bias", flag_text(t.query_bias));
    for (const auto& [key, value] :
         {std::pair("num_hidden_layers", d.layers), std::pair("hidden_size", d.hidden), std::pair("intermediate_size", d.ffn),
          std::pair("num_attention_heads", d.heads), std::pair("num_key_value_heads", groups),
          std::pair("max_position_embeddings", std::max(d.positions, d.sequence)), std::pair("vocab_size", d.vocabulary)})
      set(in + key, value);
    set(in + "hidden_act", "silu");
    set(in + "rms_norm_eps", yaml_number(t.epsilon));
    set(in + "rope_theta", yaml_number(t.rotary_base));
    set(in + "tie_word_embeddings", flag_text(d.tied_embedding));
    if (plan_.context > 1) set(in + "_attn_implementation", "ring");
    if (experts) add_experts(t.experts, d.layers);
    left_out_.add("model.init_method");
    report_model(d);
  }

  void add_experts(const Experts& e, int layers) {
    const std::string in = "model.model_config.moe_config.";
    set(in + "num_experts", e.count);
    set(in + "top_k", e.per_token);
    set(in + "moe_intermediate_size", e.ffn);
    set(in + "enable_shared_expert", flag_text(e.shared_ffn > 0));
    if (e.shared_ffn > 0) set(in + "shared_expert_intermediate_size", e.shared_ffn);
    std::vector<int> sparse;
    for (int i = 0; i < layers; ++i)
      if (e.layers.empty() || e.layers[static_cast<std::size_t>(i)]) sparse.push_back(i);
    if (static_cast<int>(sparse.size()) < layers) set(in + "layers", fmt::format("[{}]", fmt::join(sparse, ", ")));
    cannot_if(e.sigmoid || e.correction || e.normalized || e.groups > 1 || e.scale != 1,
              "another router than the softmax over all experts, whose weights are taken as they are");
    cannot_if(e.router_bias || e.biases, "biases of the router and of experts");
    cannot_if(e.shared_ffn > 0 && !e.shared_gate, "an expert for all tokens without a gate");
  }

  void report_model(const ModelDimensions& d) {
    const TransformerTraits& t = d.traits;
    report_traits(t, job_);
    cannot_if(t.norm != NormKind::Rms, "normalization by LayerNorm: it is RMSNorm");
    cannot_if(!t.gated || t.activation != Activation::Silu, "another MLP than SwiGLU");
    cannot_if(t.positions != Positions::Rotary || t.rotary_features > 0 || !t.rotary_scaling.empty() || !t.no_rotary.empty(),
              "other positions than rotary ones of whole heads, without scaling");
    cannot_if(t.output_bias || t.mlp_bias, "biases of other products than queries, keys and values");
    cannot_if(t.query_key_norm != QueryKeyNorm::None, "norms of queries and keys");
    cannot_if(t.latent.kv_rank > 0, "latent attention");
    cannot_if(t.window > 0 && t.window < d.sequence, "attention windows");
    cannot_if(features_of_head(d) * d.heads != d.hidden, "heads whose features are not the hidden size together");
    cannot_if(d.vocabulary % plan_.tensor != 0, "a vocabulary that the tensor degree does not divide: it is padded");
    cannot_if(d.dropout > 0, "dropout");
  }

  // Without a sum in fp32 the optimizer keeps no weights in fp32 either.
  void add_precision() {
    const Precision precision = scenario_.precision, outside = outside_products(precision);
    const bool brain = outside == Precision::Bf16 || precision == Precision::Bf16Pure;
    const bool half = precision == Precision::Fp16 || precision == Precision::Fp16Pure;
    set("model.dtype", brain ? "bfloat16" : half ? "float16" : "float32");
    cannot_if(precision == Precision::Tf32 || has_narrow_products(precision), fmt::format("precision {}", name_of(precision)));
    set("optimizer.accumulate_grad_in_fp32", flag_text((brain || half) && is_mixed(precision)));
    if (plan_.data > 1)
      if (const double elements = scenario_.framework.gradient_bucket_elements; elements > 0)
        set("model.ddp_bucket_cap_mb", fmt::format("{:.0f}", elements * 2 / (1 << 20)));
  }

  void add_optimizer() {
    const OptimizerRequest& o = scenario_.optimizer;
    const std::string in = "optimizer.optimizer_factory.";
    report_optimizer(scenario_, job_);
    cannot_if(o.name != "adamw" && o.name != "sgd", fmt::format("optimizer {}: it trains with AdamW", o.name));
    set(in + "name", o.name == "sgd" ? "sgd" : "adamW");
    cannot_if(o.name == "sgd" && o.momentum > 0, "the momentum of SGD");
    if (o.name != "sgd") {
      set_stated("optimizer.betas", in + "adam_beta1", yaml_number(o.beta1));
      set_stated("optimizer.betas", in + "adam_beta2", yaml_number(o.beta2));
      set_stated("optimizer.epsilon", in + "adam_eps", yaml_number(o.epsilon));
      set(in + "torch_adam_is_fused", flag_text(scenario_.framework.optimizer_kernel == OptimizerKernel::Fused));
    }
    set_stated("optimizer.weight_decay", "optimizer.weight_decay", yaml_number(o.weight_decay));
    set_stated("training.clip_gradients", "optimizer.clip_grad", yaml_number(scenario_.training.clip_gradients));
    set_stated("optimizer.learning_rate", "optimizer.learning_rate_scheduler.learning_rate", yaml_number(o.learning_rate));
  }

  void add_rate() {
    const TrainingRequest& t = scenario_.training;
    using Decay = TrainingRequest::Decay;
    const std::string in = "optimizer.learning_rate_scheduler.";
    if (left_out_.states("training.warmup_steps", in + "lr_warmup_steps")) {
      set(in + "lr_warmup_steps", t.warmup_steps);
      set(in + "lr_warmup_style", "linear");
    }
    if (!left_out_.states("training.decay", in + "lr_decay_style")) return;
    cannot_if(t.decay == Decay::InverseSqrt, "a rate that falls as inverse_sqrt: it stays");
    if (t.decay != Decay::Linear && t.decay != Decay::Cosine) return;  // without a least rate it stays
    const int start = std::max(t.warmup_steps, t.decay_start);
    set(in + "lr_decay_style", t.decay == Decay::Linear ? "linear" : "cosine");
    set(in + "lr_decay_starting_step", start);
    set(in + "lr_decay_steps", t.decay_steps - start);
    set(in + "min_decay_lr", yaml_number(t.minimum_learning_rate));
  }

  // Without data sets nanotron trains on drawn tokens.
  void add_data() {
    if (states(scenario_, "data") && scenario_.data.kind == DataRequest::Kind::Synthetic)
      set("data_stages", "[{name: drawn, start_training_step: 1, data: {dataset: null}}]");
    else
      left_out_.add("data_stages");
    left_out_.add("tokenizer");
  }
};

}  // namespace

std::vector<Setting> nanotron_plan_settings(const ExportRequest& request) {
  const Plan& plan = request.plan;
  const auto number = [](int value) { return std::to_string(value); };
  ExportedJob ignored;
  std::vector<Setting> settings = {
      {"parallelism.dp", number(plan.data)},
      {"parallelism.pp", number(plan.pipeline)},
      {"parallelism.tp", number(plan.tensor)},
      {"parallelism.context_parallel_size", number(plan.context)},
      {"parallelism.recompute_layer", recompute_of(plan, ignored) == Recompute::Full ? "true" : "false"},
      {"tokens.micro_batch_size", number(plan.micro)},
      {"tokens.batch_accumulation_per_replica", number(plan.schedule.microbatches)},
      {"optimizer.zero_stage", number(plan.replicas() > 1 ? plan.zero : 0)}};
  if (plan.tensor > 1) settings.emplace_back("parallelism.tp_mode", plan.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE");
  if (plan.pipeline > 1) settings.emplace_back("parallelism.pp_engine", known_order(plan.schedule, {"1f1b"}) ? "1f1b" : "afab");
  return settings;
}

std::string other_cuts_than_nanotrons(const ExportRequest& request) {
  const auto model = language_model_of(request.experiment.scenario.workload);
  if (request.plan.pipeline == 1 || !model) return "";
  const ModelDimensions& d = model->dimensions;
  const std::vector<int> own = nanotron_layers({d.layers, d.hidden, d.heads, d.ffn, d.vocabulary}, request.plan.pipeline);
  const std::vector<int> layers = layers_of_stages(request, "nanotron");
  if (layers == own) return "";
  const std::string cuts = fmt::format("stages of {} layers: nanotron divides by a rule of its own", fmt::join(layers, ", "));
  return own.empty() ? cuts + ", and gives a stage no layer" : fmt::format("{}, into {}", cuts, fmt::join(own, ", "));
}

ExportedJob export_nanotron(const ExportRequest& request) { return NanotronExport(request).job(); }

}  // namespace panpipe::jobs
