// A plan as a function of torchtitan's configurations (release 0.3): it takes a shipped one and changes what the plan decides.
#include "jobs/torchtitan/export.hpp"

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

namespace panpipe::jobs {
namespace {

// The statements of the function, and the names that they need from torchtitan.
class Statements {
 public:
  void set(const std::string& path, const std::string& value) { settings_.emplace_back(path, value); }
  void import(const std::string& module, const std::string& name) { imports_[module].insert(name); }
  std::string text(const std::string& base) const {
    std::string text = "\n";
    for (const auto& [module, names] : imports_) text += fmt::format("from {} import {}\n", module, fmt::join(names, ", "));
    text += fmt::format("\n\ndef job():\n    config = {}()\n", base);
    for (const auto& [path, value] : settings_) text += fmt::format("    config.{} = {}\n", path, value);
    return text + "    return config\n";
  }
  const std::vector<Setting>& settings() const { return settings_; }

 private:
  std::vector<Setting> settings_;
  std::map<std::string, std::set<std::string>> imports_;
};

const char* python(bool value) { return value ? "True" : "False"; }

bool compiles(const Framework& framework) { return framework.elementwise == Elementwise::Compiled; }

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

// The converters swap linear layers; the head is no product of a block.
std::string converters_text(const Scenario& scenario, Statements& statements) {
  if (!has_narrow_products(scenario.precision)) return "";
  const Recipe& recipe = *find_recipe(scenario.precision, scenario.framework.fp8_scaling);
  const char* converter = scenario.precision == Precision::Fp8     ? "Float8LinearConverter"
                          : scenario.precision == Precision::Mxfp8 ? "MXFP8LinearConverter"
                          : scenario.precision == Precision::Nvfp4 ? "NVFP4LinearConverter"
                                                                   : nullptr;
  if (converter == nullptr) return "";
  statements.import("torchtitan.components.quantization", converter);
  const bool rows = scenario.precision == Precision::Fp8 && recipe.second == SecondCopy::Cast && !recipe.torchao.empty();
  return fmt::format(", converters=[{}.Config({}filter_fqns=[\"lm_head\"], model_compile_enabled={})]", converter,
                     rows ? fmt::format("recipe_name=\"{}\", ", recipe.torchao) : "", python(compiles(scenario.framework)));
}

// The function of torchtitan's registry that the job begins with.
std::string add_model(const ExportRequest& request, Statements& statements, ExportedJob& job) {
  const auto model = language_model_of(request.experiment.scenario.workload);
  if (!model)
    throw InputError(fmt::format("{}: torchtitan's configurations train language models, and '{}' is none", request.scenario,
                                 request.experiment.workload.name));
  const ModelDimensions& d = model->dimensions;
  const TorchtitanFlavor* known = flavor_of(*model);
  const std::string family = known != nullptr ? known->model : family_of(*model);
  if (known == nullptr)
    job.cannot.push_back(fmt::format(
        "the model's sizes: add a flavor \"panpipe\" to torchtitan/models/{}/__init__.py with dim={}, n_layers={}, n_heads={}, "
        "n_kv_heads={}, vocab_size={}, rope_theta={}, an MLP of {}{}{}",
        family, d.hidden, d.layers, d.heads, key_value_heads(d), d.vocabulary, d.traits.rotary_base, d.ffn,
        d.tied_embedding ? ", embedding and head tied" : "",
        model->type == "gpt2" ? "; its layers are Llama's, not GPT-2's" : ""));
  const std::string function = known != nullptr && !known->function.empty() ? known->function : family + "_debugmodel";
  statements.import(fmt::format("torchtitan.models.{}.config_registry", family), function);
  statements.import(fmt::format("torchtitan.models.{}", family), "model_registry");
  statements.set("model_spec", fmt::format("model_registry({}{})", json_text(known != nullptr ? known->flavor : "panpipe"),
                                           converters_text(request.experiment.scenario, statements)));
  return function;
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

// A file of an order is for stages in a loop: torchtitan places none in a V by itself.
void require_loop(const ExportRequest& request) {
  const Schedule& schedule = request.plan.schedule;
  for (int s = 0; s < schedule.stages; ++s)
    if (schedule.stage_to_rank[s] != s % schedule.ranks)
      throw InputError(
          fmt::format("{}: torchtitan places the stages of an order from a file in a loop, and {} places stage {} on rank {}",
                      request.scenario, schedule.name, s, schedule.stage_to_rank[s]),
          "panpipe plan --for torchtitan plans with the schedules that it has");
}

void add_pipeline(const ExportRequest& request, Statements& statements, ExportedJob& job) {
  const Plan& plan = request.plan;
  statements.set("parallelism.pipeline_parallel_degree", std::to_string(plan.pipeline));
  if (plan.pipeline == 1) return;
  statements.set("parallelism.module_fqns_per_model_part", module_lists(layers_of_stages(request, "torchtitan")));
  const TorchOrder order = torch_order(plan.schedule);
  statements.set("parallelism.pipeline_parallel_microbatch_size", std::to_string(plan.micro));
  if (!order.name.empty()) return statements.set("parallelism.pipeline_parallel_schedule", json_text(order.name));
  require_loop(request);
  job.schedule_csv = order.csv;
  const std::string order_file = order_file_of(request.file.empty() ? "schedule" : request.file);
  // The name decides how many stages a rank may have.
  statements.set("parallelism.pipeline_parallel_schedule",
                 json_text(plan.schedule.stages == plan.schedule.ranks ? "PipelineScheduleSingle" : "PipelineScheduleMulti"));
  statements.set("parallelism.pipeline_parallel_schedule_csv",
                 json_text(std::filesystem::absolute(order_file).lexically_normal().string()));
}

void add_context(const ExportRequest& request, Statements& statements, ExportedJob& job) {
  statements.set("parallelism.context_parallel_degree", std::to_string(context_ranks(request.plan)));
  const ContextExchange exchange = request.experiment.scenario.context_exchange;
  if (exchange != ContextExchange::AllGather)
    job.cannot.push_back(fmt::format("parallel.context_exchange {}: keys and values are gathered",
                                     exchange == ContextExchange::Ring ? "ring" : "ulysses"));
}

// Ranks of FSDP's mesh as torchtitan counts them: without those that share a sample's sequence, which join the mesh by
// themselves.
struct DataRanks {
  int replicate = 1, shard = 1;
  bool fsdp = false;
};

DataRanks data_ranks_of(const ExportRequest& request) {
  const Plan& plan = request.plan;
  const int context = context_ranks(plan), group = plan.zero >= 2 ? plan.shard_group() : context;
  if (group % context != 0 || plan.data % (group / context) != 0)
    throw InputError(
        fmt::format("{}: torchtitan divides over data ranks times context {}, and the plan's shard groups have {} ranks",
                    request.scenario, context, group),
        fmt::format("state a parallel.shard that {} divides", context));
  const DataRanks ranks{plan.data * context / group, group / context, group > 1};
  if (!ranks.fsdp && plan.data > 1 && plan.pipeline * plan.tensor > 1)
    throw InputError(
        fmt::format("{}: torchtitan cannot run replicas without FSDP beside other parallelism, and the plan has data {} with "
                    "pipeline {} and tensor {}",
                    request.scenario, plan.data, plan.pipeline, plan.tensor),
        "state parallel.zero 2 or 3; panpipe plan --for torchtitan plans with them");
  return ranks;
}

void add_data_parallel(const ExportRequest& request, const DataRanks& ranks, Statements& statements, ExportedJob& job) {
  const Plan& plan = request.plan;
  job.stated = {"parallel.context", "parallel.context_exchange", "parallel.expert", "parallel.expert_tensor"};
  statements.set("parallelism.data_parallel_replicate_degree", std::to_string(ranks.replicate));
  statements.set("parallelism.data_parallel_shard_degree", std::to_string(ranks.shard));
  if (plan.zero >= 2) job.stated.emplace_back("parallel.shard");
  if (plan.zero < 2 && ranks.fsdp) job.cannot.emplace_back("context parallelism without FSDP: its ranks divide the parameters");
  if (plan.zero == 2) statements.set("parallelism.fsdp_reshard_after_forward", "\"never\"");
  if (plan.zero == 3) statements.set("parallelism.fsdp_reshard_after_forward", "\"always\"");
  if (plan.zero == 1 && plan.data > 1) job.cannot.emplace_back("ZeRO 1: every replica keeps the optimizer's state");
  statements.set("parallelism.tensor_parallel_degree", std::to_string(plan.tensor));
  if (context_ranks(plan) > 1) add_context(request, statements, job);
  if (plan.expert > 1) statements.set("parallelism.expert_parallel_degree", std::to_string(plan.expert));
  if (plan.expert > 1 && plan.expert_tensor_group() > 1)
    job.cannot.emplace_back("tensor parallelism of experts over ranks: whole experts lie on the ranks of a tensor group");
  if (plan.tensor > 1) statements.set("parallelism.enable_sequence_parallel", python(plan.sequence_parallel));
}

void add_recompute(const ExportRequest& request, Statements& statements, ExportedJob& job) {
  const RecomputeScope& scope = request.experiment.scenario.recompute_scope;
  const Recompute mode = recompute_of(request.plan, job);
  using Kind = RecomputedKind;
  const bool selective = mode == Recompute::Selective && scope.modules.empty() && scope.every == 1 && scope.first == 0 &&
                         scope.operators == std::vector{Kind::Norms, Kind::Elementwise, Kind::SecondProducts};
  if (mode == Recompute::Selective && !selective)
    job.cannot.emplace_back("selective recompute of other operators than SelectiveAC's: nothing is recomputed");
  if (mode == Recompute::Full && (scope.every > 1 || scope.first > 0 || scope.chunk > 1))
    job.cannot.emplace_back("recompute of some blocks of a stage, or of several together: each block is recomputed by itself");
  const char* policy = selective ? "SelectiveAC" : mode == Recompute::Full ? "FullAC" : nullptr;
  if (policy != nullptr) statements.import("torchtitan.distributed.activation_checkpoint", policy);
  statements.set("activation_checkpoint", policy != nullptr ? fmt::format("{}.Config()", policy) : "None");
}

void add_precision(const ExportRequest& request, Statements& statements, ExportedJob& job) {
  const Precision precision = request.experiment.scenario.precision, outside = outside_products(precision);
  const bool half = precision == Precision::Bf16Pure;
  statements.set("training.dtype", half ? "\"bfloat16\"" : "\"float32\"");
  statements.set("training.mixed_precision_param", half || outside == Precision::Bf16 ? "\"bfloat16\"" : "\"float32\"");
  if (!half && outside != Precision::Bf16 && precision != Precision::Fp32)
    job.cannot.push_back(fmt::format("precision {}: it trains in fp32", name_of(precision)));
  if (precision == Precision::Mxfp4) job.cannot.push_back("precision mxfp4: products are in bf16");
  const Recipe* recipe = find_recipe(precision, request.experiment.scenario.framework.fp8_scaling);
  if (precision == Precision::Fp8 && recipe->second == SecondCopy::Cast && !recipe->torchao.empty())
    job.stated.emplace_back("framework.fp8_scaling");
  if (has_narrow_products(precision) &&
      language_model_of(request.experiment.scenario.workload)->dimensions.traits.experts.count > 0)
    job.cannot.push_back(fmt::format("precision {} of experts: their grouped products are in bf16", name_of(precision)));
}

// The numbers of the only group of parameters that shipped configurations have.
void add_optimizer(const Scenario& scenario, LeftOut& left_out, Statements& statements, ExportedJob& job) {
  const OptimizerRequest& o = scenario.optimizer;
  const bool adam = o.name == "adam" || o.name == "adamw";
  if (!adam) job.cannot.push_back(fmt::format("optimizer {}: it trains with AdamW", o.name));
  const std::string group = "optimizer.param_groups[0].";
  statements.set(group + "optimizer_name", o.name == "adam" ? "\"Adam\"" : "\"AdamW\"");
  const auto number = [&](const char* path, const char* key, const std::string& value) {
    if (left_out.states(path, fmt::format("optimizer.{}", key)))
      statements.set(fmt::format("{}optimizer_kwargs[\"{}\"]", group, key), value);
  };
  number("optimizer.learning_rate", "lr", number_text(o.learning_rate));
  if (adam) number("optimizer.betas", "betas", fmt::format("({}, {})", number_text(o.beta1), number_text(o.beta2)));
  if (adam) number("optimizer.epsilon", "eps", number_text(o.epsilon));
  number("optimizer.weight_decay", "weight_decay", number_text(o.weight_decay));
  if (adam && o.states == StateFormat::Bf16 && is_mixed(scenario.precision)) {
    statements.set("optimizer.implementation", "\"fused_opt_states_bf16\"");
    job.stated.emplace_back("optimizer.states");
  }
  report_optimizer(scenario, job);
}

void add_batch(const Plan& plan, Statements& statements) {
  const int local = plan.micro * (plan.pipeline > 1 ? plan.schedule.microbatches : 1);
  statements.set("training.local_batch_size", std::to_string(local));
  statements.set("training.global_batch_size", std::to_string(plan.micro * plan.schedule.microbatches * plan.data));
  // CUDA graphs exclude both.
  if (plan.pipeline > 1 || plan.expert > 1) statements.set("training.disable_cuda_graphs", "True");
}

void add_training(const ExportRequest& request, const DataRanks& ranks, LeftOut& left_out, Statements& statements,
                  ExportedJob& job) {
  const Scenario& scenario = request.experiment.scenario;
  const Plan& plan = request.plan;
  const auto model = language_model_of(scenario.workload);
  add_batch(plan, statements);
  statements.set("training.seq_len", std::to_string(model->dimensions.sequence));
  if (left_out.states("training.clip_gradients", "training.max_norm"))
    statements.set("training.max_norm", number_text(scenario.training.clip_gradients));
  if (const auto steps = steps_of_run(request))
    statements.set("training.steps", std::to_string(*steps));
  else
    left_out.add("training.steps");
  if (scenario.offload.on_host_step() && scenario.offload.parameters && ranks.fsdp) {
    statements.set("training.enable_cpu_offload", "True");
    job.stated.insert(job.stated.end(), {"offload.optimizer", "offload.parameters"});
  }
  add_precision(request, statements, job);
  add_optimizer(scenario, left_out, statements, job);
}

void add_rate(const Scenario& scenario, LeftOut& left_out, Statements& statements, ExportedJob& job) {
  const TrainingRequest& t = scenario.training;
  using Decay = TrainingRequest::Decay;
  if (left_out.states("training.warmup_steps", "lr_scheduler.warmup_steps"))
    statements.set("lr_scheduler.warmup_steps", std::to_string(t.warmup_steps));
  if (!left_out.states("training.decay", "lr_scheduler.decay_type")) return;
  if (t.decay == Decay::InverseSqrt) job.cannot.emplace_back("a rate that falls as inverse_sqrt: it stays");
  if (t.decay == Decay::Constant || t.decay == Decay::InverseSqrt) return statements.set("lr_scheduler.decay_ratio", "0.0");
  statements.set("lr_scheduler.total_steps", std::to_string(t.decay_steps));
  const int start = std::max(t.warmup_steps, t.decay_start);
  statements.set("lr_scheduler.decay_ratio", fmt::format("{:.6g}", double(t.decay_steps - start) / t.decay_steps));
  statements.set("lr_scheduler.decay_type", t.decay == Decay::Linear ? "\"linear\"" : "\"cosine\"");
  const double peak = scenario.optimizer.learning_rate;
  if (states(scenario, "optimizer.learning_rate") && peak > 0)
    statements.set("lr_scheduler.min_lr_factor", number_text(t.minimum_learning_rate / peak));
  else
    left_out.add("lr_scheduler.min_lr_factor");
}

// The name by which torchtitan loads the file.
std::string module_of(const std::string& file) { return file.empty() ? "FILE" : std::filesystem::path(file).stem().string(); }

void report_start(const ExportRequest& request, ExportedJob& job) {
  const std::string module = module_of(request.file);
  const bool name = std::all_of(module.begin(), module.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (!name || std::isdigit(static_cast<unsigned char>(module.front())) != 0)
    job.besides.push_back(
        fmt::format("Python cannot import a file of the name '{}': give it one of letters and digits.", module));
  job.besides.push_back(
      fmt::format("For torchtitan 0.3, in the folder of this file: PYTHONPATH=. {} -m torchtitan.train --module {} "
                  "--config job",
                  launch_text(request), module));
}

}  // namespace

std::vector<Setting> torchtitan_plan_settings(const ExportRequest& request) {
  ExportedJob ignored;
  Statements statements;
  add_data_parallel(request, data_ranks_of(request), statements, ignored);
  add_batch(request.plan, statements);
  add_pipeline(request, statements, ignored);
  add_recompute(request, statements, ignored);
  return statements.settings();
}

ExportedJob export_torchtitan(const ExportRequest& request) {
  const Scenario& scenario = request.experiment.scenario;
  ExportedJob job;
  Statements statements;
  LeftOut left_out(scenario);
  const DataRanks ranks = data_ranks_of(request);
  const std::string base = add_model(request, statements, job);
  add_data_parallel(request, ranks, statements, job);
  add_training(request, ranks, left_out, statements, job);
  add_rate(scenario, left_out, statements, job);
  add_pipeline(request, statements, job);
  add_recompute(request, statements, job);
  std::vector<std::string> compiled;
  if (compiles(scenario.framework)) compiled.emplace_back("\"model\"");
  if (scenario.framework.loss != load_framework("eager-sdpa", "").loss) compiled.emplace_back("\"loss\"");
  statements.set("compile.enable", python(!compiled.empty()));
  if (!compiled.empty()) statements.set("compile.components", fmt::format("[{}]", fmt::join(compiled, ", ")));
  if (request.plan.tensor > 1)
    statements.set("compile.enable_async_tensor_parallel", python(scenario.framework.tensor_chunks == 0));
  if (left_out.states("seed", "debug.seed")) statements.set("debug.seed", std::to_string(scenario.seed));
  if (scenario.data.kind != DataRequest::Kind::Synthetic)
    job.cannot.push_back(fmt::format("data {}: torchtitan reads data sets by name", scenario.data.file));
  left_out.add("dataloader");
  if (scenario.workload.dropout > 0) job.cannot.emplace_back("dropout");
  left_out.report(fmt::format("{}() has torchtitan's own values for these", base), job);
  report_the_rest(request, job);
  report_start(request, job);
  job.text = head_text(request, "A configuration for torchtitan", job, "# ") + statements.text(base);
  return job;
}

}  // namespace panpipe::jobs
