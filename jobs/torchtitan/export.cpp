// A plan as a function of torchtitan's configurations (release 0.3): it takes a shipped one and changes what the plan decides.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/input/yaml_document.hpp"
#include "base/text/json_writer.hpp"
#include "costmodel/profile/recipe.hpp"
#include "costmodel/workload/language_model.hpp"
#include "costmodel/workload/model_config.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/torch/schedules.hpp"
#include "jobs/torchtitan/flavors.hpp"
#include "jobs/torchtitan/settings.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

const char* python(bool value) { return value ? "True" : "False"; }

bool same_model(const ModelDimensions& a, const ModelDimensions& b) {
  const TransformerTraits &t = a.traits, &u = b.traits;
  const auto sizes = [](const ModelDimensions& d) {
    return std::tuple(d.layers, d.hidden, d.heads, key_value_heads(d), features_of_head(d), d.ffn, d.vocabulary,
                      d.tied_embedding);
  };
  const auto experts = [](const Experts& e) { return std::tuple(e.count, e.per_token, e.count > 0 ? e.ffn : 0, e.shared_ffn); };
  const auto latent = [](const LatentAttention& l) { return std::tuple(l.query_rank, l.kv_rank, l.plain, l.rotary, l.value); };
  return sizes(a) == sizes(b) && t.rotary_base == u.rotary_base && t.query_key_norm == u.query_key_norm &&
         experts(t.experts) == experts(u.experts) && latent(t.latent) == latent(u.latent);
}

// The flavor of torchtitan that is this model; nullptr where it has none.
const TorchtitanFlavor* flavor_of(const LanguageModel& model) {
  for (const TorchtitanFlavor& flavor : torchtitan_flavors()) {
    if (flavor.layers != model.dimensions.layers) continue;
    const ModelConfig config = read_model_config(*parse_document(flavor.config, flavor.flavor, "."), model.dimensions.sequence);
    if (config.type == model.type && same_model(config.dimensions, model.dimensions)) return &flavor;
  }
  return nullptr;
}

// The family of a model that has no flavor.
std::string family_of(const LanguageModel& model) {
  return model.type == "qwen3" || model.type == "qwen3_moe" ? "qwen3"
         : model.type.rfind("deepseek", 0) == 0             ? "deepseek_v3"
         : model.type == "gpt_oss"                          ? "gpt_oss"
                                                            : "llama3";
}

std::string module_lists(const std::vector<int>& layers) {
  std::string text = "[\n";
  int layer = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    std::vector<std::string> names;
    if (stage == 0) names.emplace_back("\"tok_embeddings\"");
    for (int i = 0; i < layers[stage]; ++i) names.push_back(fmt::format("\"layers.{}\"", layer++));
    if (stage + 1 == layers.size()) names.insert(names.end(), {"\"norm\"", "\"lm_head\""});
    text += fmt::format("        [{}],\n", fmt::join(names, ", "));
  }
  return text + "    ]";
}

class TorchtitanExport : ConfigurationExport {
 public:
  explicit TorchtitanExport(const ExportRequest& request) : ConfigurationExport(request) { find_data_ranks(); }

  ExportedJob job() {
    const std::string base = add_model();
    add_data_parallel();
    add_training();
    add_rate();
    add_pipeline();
    add_recompute();
    add_compile();
    set_stated("seed", "debug.seed", std::to_string(scenario_.seed));
    cannot_if(scenario_.data.kind != DataRequest::Kind::Synthetic,
              fmt::format("data {}: torchtitan reads data sets by name", scenario_.data.file));
    left_out_.add("dataloader");
    cannot_if(scenario_.workload.dropout > 0, "dropout");
    left_out_.report(fmt::format("{}() has torchtitan's own values for these", base), job_);
    report_the_rest(request_, job_);
    report_start();
    job_.text = head_text(request_, "A configuration for torchtitan", job_, "# ") + text(base);
    return std::move(job_);
  }

  // What the plan decides.
  std::vector<Setting> plan_settings() {
    add_data_parallel();
    add_batch();
    add_pipeline();
    add_recompute();
    return std::move(settings_);
  }

 private:
  void import(const std::string& module, const std::string& name) { imports_[module].insert(name); }
  std::string text(const std::string& base) const {
    std::string text = "\n";
    for (const auto& [module, names] : imports_) text += fmt::format("from {} import {}\n", module, fmt::join(names, ", "));
    text += fmt::format("\n\ndef job():\n    config = {}()\n", base);
    for (const auto& [path, value] : settings_) text += fmt::format("    config.{} = {}\n", path, value);
    return text + "    return config\n";
  }
  bool compiles() const { return scenario_.framework.elementwise == Elementwise::Compiled; }

  // The converters swap linear layers; the head is no product of a block.
  std::string converters_text() {
    if (!has_narrow_products(scenario_.precision)) return "";
    const Recipe& recipe = *find_recipe(scenario_.precision, scenario_.framework.fp8_scaling);
    const char* converter = scenario_.precision == Precision::Fp8     ? "Float8LinearConverter"
                            : scenario_.precision == Precision::Mxfp8 ? "MXFP8LinearConverter"
                            : scenario_.precision == Precision::Nvfp4 ? "NVFP4LinearConverter"
                                                                      : nullptr;
    if (converter == nullptr) return "";
    import("torchtitan.components.quantization", converter);
    const bool rows = scenario_.precision == Precision::Fp8 && recipe.second == SecondCopy::Cast && !recipe.torchao.empty();
    return fmt::format(", converters=[{}.Config({}filter_fqns=[\"lm_head\"], model_compile_enabled={})]", converter,
                       rows ? fmt::format("recipe_name=\"{}\", ", recipe.torchao) : "", python(compiles()));
  }

  // The function of torchtitan's registry that the job begins with.
  std::string add_model() {
    const auto model = language_model_of(scenario_.workload);
    if (!model)
      refuse(
          fmt::format("torchtitan's configurations train language models, and '{}' is none", request_.experiment.workload.name));
    const ModelDimensions& d = model->dimensions;
    const TorchtitanFlavor* known = flavor_of(*model);
    const std::string family = known != nullptr ? known->model : family_of(*model);
    cannot_if(known == nullptr,
              fmt::format("the model's sizes: add a flavor \"panpipe\" to torchtitan/models/{}/__init__.py with dim={}, "
                          "n_layers={}, n_heads={}, n_kv_heads={}, vocab_size={}, rope_theta={}, an MLP of {}{}{}",
                          family, d.hidden, d.layers, d.heads, key_value_heads(d), d.vocabulary, d.traits.rotary_base, d.ffn,
                          d.tied_embedding ? ", embedding and head tied" : "",
                          model->type == "gpt2" ? "; its layers are Llama's, not GPT-2's" : ""));
    const std::string function = known != nullptr && !known->function.empty() ? known->function : family + "_debugmodel";
    import(fmt::format("torchtitan.models.{}.config_registry", family), function);
    import(fmt::format("torchtitan.models.{}", family), "model_registry");
    set("model_spec",
        fmt::format("model_registry({}{})", json_text(known != nullptr ? known->flavor : "panpipe"), converters_text()));
    return function;
  }

  // A file of an order is for stages in a loop: torchtitan places none in a V by itself.
  void require_loop() const {
    const Schedule& schedule = plan_.schedule;
    for (int s = 0; s < schedule.stages; ++s)
      if (schedule.stage_to_rank[s] != s % schedule.ranks)
        refuse(fmt::format("torchtitan places the stages of an order from a file in a loop, and {} places stage {} on rank {}",
                           schedule.name, s, schedule.stage_to_rank[s]),
               "panpipe plan --for torchtitan plans with the schedules that it has");
  }

  void add_pipeline() {
    set("parallelism.pipeline_parallel_degree", plan_.pipeline);
    if (plan_.pipeline == 1) return;
    set("parallelism.module_fqns_per_model_part", module_lists(layers_of_stages(request_, "torchtitan")));
    const TorchOrder order = torch_order(plan_.schedule);
    set("parallelism.pipeline_parallel_microbatch_size", plan_.micro);
    if (!order.name.empty()) return set("parallelism.pipeline_parallel_schedule", json_text(order.name));
    require_loop();
    job_.schedule_csv = order.csv;
    const std::string order_file = order_file_of(request_.file.empty() ? "schedule" : request_.file);
    // The name decides how many stages a rank may have.
    set("parallelism.pipeline_parallel_schedule",
        json_text(plan_.schedule.stages == plan_.schedule.ranks ? "PipelineScheduleSingle" : "PipelineScheduleMulti"));
    set("parallelism.pipeline_parallel_schedule_csv",
        json_text(std::filesystem::absolute(order_file).lexically_normal().string()));
  }

  void find_data_ranks() {
    const int context = context_ranks(plan_), group = plan_.zero >= 2 ? plan_.shard_group() : context;
    if (group % context != 0 || plan_.data % (group / context) != 0)
      refuse(fmt::format("torchtitan divides over data ranks times context {}, and the plan's shard groups have {} ranks",
                         context, group),
             fmt::format("state a parallel.shard that {} divides", context));
    replicate_ = plan_.data * context / group, shard_ = group / context, fsdp_ = group > 1;
    if (!fsdp_ && plan_.data > 1 && plan_.pipeline * plan_.tensor > 1)
      refuse(fmt::format("torchtitan cannot run replicas without FSDP beside other parallelism, and the plan has data {} with "
                         "pipeline {} and tensor {}",
                         plan_.data, plan_.pipeline, plan_.tensor),
             "state parallel.zero 2 or 3; panpipe plan --for torchtitan plans with them");
  }

  void add_data_parallel() {
    job_.stated = {"parallel.context", "parallel.context_exchange", "parallel.expert", "parallel.expert_tensor"};
    set("parallelism.data_parallel_replicate_degree", replicate_);
    set("parallelism.data_parallel_shard_degree", shard_);
    if (plan_.zero >= 2) job_.stated.emplace_back("parallel.shard");
    cannot_if(plan_.zero < 2 && fsdp_, "context parallelism without FSDP: its ranks divide the parameters");
    if (plan_.zero >= 2) set("parallelism.fsdp_reshard_after_forward", plan_.zero == 2 ? "\"never\"" : "\"always\"");
    cannot_if(plan_.zero == 1 && plan_.data > 1, "ZeRO 1: every replica keeps the optimizer's state");
    set("parallelism.tensor_parallel_degree", plan_.tensor);
    if (const int context = context_ranks(plan_); context > 1) {
      set("parallelism.context_parallel_degree", context);
      const ContextExchange exchange = scenario_.context_exchange;
      cannot_if(exchange != ContextExchange::AllGather, fmt::format("parallel.context_exchange {}: keys and values are gathered",
                                                                    exchange == ContextExchange::Ring ? "ring" : "ulysses"));
    }
    if (plan_.expert > 1) set("parallelism.expert_parallel_degree", plan_.expert);
    cannot_if(plan_.expert > 1 && plan_.expert_tensor_group() > 1,
              "tensor parallelism of experts over ranks: whole experts lie on the ranks of a tensor group");
    if (plan_.tensor > 1) set("parallelism.enable_sequence_parallel", python(plan_.sequence_parallel));
  }

  void add_recompute() {
    const RecomputeScope& scope = scenario_.recompute_scope;
    const Recompute mode = recompute_of(plan_, job_);
    using Kind = RecomputedKind;
    const bool selective = mode == Recompute::Selective && scope.modules.empty() && scope.every == 1 && scope.first == 0 &&
                           scope.operators == std::vector{Kind::Norms, Kind::Elementwise, Kind::SecondProducts};
    cannot_if(mode == Recompute::Selective && !selective,
              "selective recompute of other operators than SelectiveAC's: nothing is recomputed");
    cannot_if(mode == Recompute::Full && (scope.every > 1 || scope.first > 0 || scope.chunk > 1),
              "recompute of some blocks of a stage, or of several together: each block is recomputed by itself");
    const char* policy = selective ? "SelectiveAC" : mode == Recompute::Full ? "FullAC" : nullptr;
    if (policy != nullptr) import("torchtitan.distributed.activation_checkpoint", policy);
    set("activation_checkpoint", policy != nullptr ? fmt::format("{}.Config()", policy) : "None");
  }

  void add_precision() {
    const Precision precision = scenario_.precision, outside = outside_products(precision);
    const bool half = precision == Precision::Bf16Pure;
    set("training.dtype", half ? "\"bfloat16\"" : "\"float32\"");
    set("training.mixed_precision_param", half || outside == Precision::Bf16 ? "\"bfloat16\"" : "\"float32\"");
    cannot_if(!half && outside != Precision::Bf16 && precision != Precision::Fp32,
              fmt::format("precision {}: it trains in fp32", name_of(precision)));
    cannot_if(precision == Precision::Mxfp4, "precision mxfp4: products are in bf16");
    const Recipe* recipe = find_recipe(precision, scenario_.framework.fp8_scaling);
    if (precision == Precision::Fp8 && recipe->second == SecondCopy::Cast && !recipe->torchao.empty())
      job_.stated.emplace_back("framework.fp8_scaling");
    cannot_if(has_narrow_products(precision) && language_model_of(scenario_.workload)->dimensions.traits.experts.count > 0,
              fmt::format("precision {} of experts: their grouped products are in bf16", name_of(precision)));
  }

  // The numbers of the only group of parameters that shipped configurations have.
  void add_optimizer() {
    const OptimizerRequest& o = scenario_.optimizer;
    const bool adam = o.name == "adam" || o.name == "adamw";
    cannot_if(!adam, fmt::format("optimizer {}: it trains with AdamW", o.name));
    const std::string group = "optimizer.param_groups[0].";
    set(group + "optimizer_name", o.name == "adam" ? "\"Adam\"" : "\"AdamW\"");
    const auto number = [&](const char* path, const char* key, const std::string& value) {
      if (left_out_.states(path, fmt::format("optimizer.{}", key)))
        set(fmt::format("{}optimizer_kwargs[\"{}\"]", group, key), value);
    };
    number("optimizer.learning_rate", "lr", number_text(o.learning_rate));
    if (adam) number("optimizer.betas", "betas", fmt::format("({}, {})", number_text(o.beta1), number_text(o.beta2)));
    if (adam) number("optimizer.epsilon", "eps", number_text(o.epsilon));
    number("optimizer.weight_decay", "weight_decay", number_text(o.weight_decay));
    if (adam && o.states == StateFormat::Bf16 && is_mixed(scenario_.precision)) {
      set("optimizer.implementation", "\"fused_opt_states_bf16\"");
      job_.stated.emplace_back("optimizer.states");
    }
    report_optimizer(scenario_, job_);
  }

  void add_batch() {
    set("training.local_batch_size", plan_.micro * (plan_.pipeline > 1 ? plan_.schedule.microbatches : 1));
    set("training.global_batch_size", plan_.micro * plan_.schedule.microbatches * plan_.data);
    // CUDA graphs exclude both.
    if (plan_.pipeline > 1 || plan_.expert > 1) set("training.disable_cuda_graphs", "True");
  }

  void add_training() {
    add_batch();
    set("training.seq_len", language_model_of(scenario_.workload)->dimensions.sequence);
    set_stated("training.clip_gradients", "training.max_norm", number_text(scenario_.training.clip_gradients));
    set_steps("training.steps");
    if (scenario_.offload.on_host_step() && scenario_.offload.parameters && fsdp_) {
      set("training.enable_cpu_offload", "True");
      job_.stated.insert(job_.stated.end(), {"offload.optimizer", "offload.parameters"});
    }
    add_precision();
    add_optimizer();
  }

  void add_rate() {
    const TrainingRequest& t = scenario_.training;
    using Decay = TrainingRequest::Decay;
    set_stated("training.warmup_steps", "lr_scheduler.warmup_steps", std::to_string(t.warmup_steps));
    if (!left_out_.states("training.decay", "lr_scheduler.decay_type")) return;
    cannot_if(t.decay == Decay::InverseSqrt, "a rate that falls as inverse_sqrt: it stays");
    if (t.decay == Decay::Constant || t.decay == Decay::InverseSqrt) return set("lr_scheduler.decay_ratio", "0.0");
    set("lr_scheduler.total_steps", t.decay_steps);
    const int start = std::max(t.warmup_steps, t.decay_start);
    set("lr_scheduler.decay_ratio", fmt::format("{:.6g}", double(t.decay_steps - start) / t.decay_steps));
    set("lr_scheduler.decay_type", t.decay == Decay::Linear ? "\"linear\"" : "\"cosine\"");
    const double peak = scenario_.optimizer.learning_rate;
    if (states(scenario_, "optimizer.learning_rate") && peak > 0)
      set("lr_scheduler.min_lr_factor", number_text(t.minimum_learning_rate / peak));
    else
      left_out_.add("lr_scheduler.min_lr_factor");
  }

  void add_compile() {
    std::vector<std::string> compiled;
    if (compiles()) compiled.emplace_back("\"model\"");
    if (scenario_.framework.loss != load_framework("eager-sdpa", "").loss) compiled.emplace_back("\"loss\"");
    set("compile.enable", python(!compiled.empty()));
    if (!compiled.empty()) set("compile.components", fmt::format("[{}]", fmt::join(compiled, ", ")));
    if (plan_.tensor > 1) set("compile.enable_async_tensor_parallel", python(scenario_.framework.tensor_chunks == 0));
  }

  void report_start() {
    // The name by which torchtitan loads the file.
    const std::string module = request_.file.empty() ? "FILE" : std::filesystem::path(request_.file).stem().string();
    const bool name = std::all_of(module.begin(), module.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (!name || std::isdigit(static_cast<unsigned char>(module.front())) != 0)
      job_.besides.push_back(
          fmt::format("Python cannot import a file of the name '{}': give it one of letters and digits.", module));
    job_.besides.push_back(
        fmt::format("For torchtitan 0.3, in the folder of this file: PYTHONPATH=. {} -m torchtitan.train --module {} "
                    "--config job",
                    launch_text(request_), module));
  }

  std::map<std::string, std::set<std::string>> imports_;  // names by module
  // Ranks of FSDP's mesh as torchtitan counts them: without those that share a sample's sequence, which join the mesh by
  // themselves.
  int replicate_ = 1, shard_ = 1;
  bool fsdp_ = false;
};

}  // namespace

std::vector<Setting> torchtitan_plan_settings(const ExportRequest& request) { return TorchtitanExport(request).plan_settings(); }

ExportedJob export_torchtitan(const ExportRequest& request) { return TorchtitanExport(request).job(); }

}  // namespace panpipe::jobs
