// A plan as the TOML of torchtitan 0.2.2, the last release that reads TOML; in comments the same as overrides of the command
// line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/input/yaml_document.hpp"
#include "base/text/json_writer.hpp"
#include "costmodel/workload/language_model.hpp"
#include "costmodel/workload/model_config.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/torch/schedules.hpp"
#include "jobs/torchtitan/flavors.hpp"

namespace panpipe::jobs {
namespace {

// Tables of TOML, in the order in which they were asked for.
class Tables {
 public:
  void set(const std::string& table, const std::string& key, const std::string& value) {
    const auto same = std::find_if(tables_.begin(), tables_.end(), [&](const auto& known) { return known.first == table; });
    if (same != tables_.end()) return same->second.emplace_back(key, value), void();
    tables_.push_back({table, {{key, value}}});
  }
  std::string toml() const {
    std::string text;
    for (const auto& [table, rows] : tables_) {
      text += "\n[" + table + "]\n";
      for (const auto& [key, value] : rows) text += fmt::format("{} = {}\n", key, value);
    }
    return text;
  }
  // "# --parallelism.pipeline_parallel_degree 4": lists of lists have no form there.
  std::string overrides() const {
    std::string text;
    for (const auto& [table, rows] : tables_)
      for (const auto& [key, value] : rows)
        if (value.rfind("[", 0) != 0) text += fmt::format("#   --{}.{}{}\n", table, key, argument(value));
    return text;
  }

 private:
  static std::string argument(const std::string& value) {
    if (value == "true") return "";
    return " " + (value.size() > 1 && value.front() == '"' ? value.substr(1, value.size() - 2) : value);
  }
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> tables_;
};

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

void add_model(const ExportRequest& request, Tables& tables, ExportedJob& job) {
  const auto model = language_model_of(request.experiment.scenario.workload);
  if (!model)
    throw InputError(fmt::format("{}: torchtitan's configuration trains language models, and '{}' is none", request.scenario,
                                 request.experiment.workload.name));
  const ModelDimensions& d = model->dimensions;
  if (const TorchtitanFlavor* known = flavor_of(*model)) {
    tables.set("model", "name", json_text(known->model));
    tables.set("model", "flavor", json_text(known->flavor));
    return;
  }
  const std::string name = model->type == "qwen3" || model->type == "qwen3_moe" ? "qwen3"
                           : model->type.rfind("deepseek", 0) == 0              ? "deepseek_v3"
                           : model->type == "gpt_oss"                           ? "gpt_oss"
                                                                                : "llama3";
  tables.set("model", "name", json_text(name));
  tables.set("model", "flavor", "\"panpipe\"");
  job.cannot.push_back(fmt::format(
      "the model's sizes: add a flavor \"panpipe\" to torchtitan/models/{}/__init__.py with dim={}, n_layers={}, n_heads={}, "
      "n_kv_heads={}, vocab_size={}, rope_theta={}, an MLP of {}{}{}",
      name, d.hidden, d.layers, d.heads, key_value_heads(d), d.vocabulary, d.traits.rotary_base, d.ffn,
      d.tied_embedding ? ", embedding and head tied" : "", model->type == "gpt2" ? "; its layers are Llama's, not GPT-2's" : ""));
}

std::string module_lists(const std::vector<int>& layers) {
  std::string text = "[\n";
  int layer = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    std::vector<std::string> names;
    if (stage == 0) names.emplace_back("\"tok_embeddings\"");
    for (int i = 0; i < layers[stage]; ++i) names.push_back(fmt::format("\"layers.{}\"", layer++));
    if (stage + 1 == layers.size()) names.insert(names.end(), {"\"norm\"", "\"output\""});
    text += fmt::format("  [{}],\n", fmt::join(names, ", "));
  }
  return text + "]";
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

void add_pipeline(const ExportRequest& request, Tables& tables, ExportedJob& job) {
  const Plan& plan = request.plan;
  tables.set("parallelism", "pipeline_parallel_degree", std::to_string(plan.pipeline));
  if (plan.pipeline == 1) return;
  tables.set("parallelism", "module_fqns_per_model_part", module_lists(layers_of_stages(request, "torchtitan")));
  const TorchOrder order = torch_order(plan.schedule);
  tables.set("parallelism", "pipeline_parallel_microbatch_size", std::to_string(plan.micro));
  if (!order.name.empty()) return tables.set("parallelism", "pipeline_parallel_schedule", json_text(order.name));
  require_loop(request);
  job.schedule_csv = order.csv;
  const std::string order_file = order_file_of(request.file.empty() ? "schedule" : request.file);
  // The name decides how many stages a rank may have.
  tables.set("parallelism", "pipeline_parallel_schedule",
             json_text(plan.schedule.stages == plan.schedule.ranks ? "PipelineScheduleSingle" : "PipelineScheduleMulti"));
  tables.set("parallelism", "pipeline_parallel_schedule_csv",
             json_text(std::filesystem::absolute(order_file).lexically_normal().string()));
}

// torchtitan's "alltoall" moves keys and values from rank to rank, block by block.
void add_context(const ExportRequest& request, Tables& tables, ExportedJob& job) {
  const ContextExchange exchange = request.experiment.scenario.context_exchange;
  tables.set("parallelism", "context_parallel_degree", std::to_string(context_ranks(request.plan)));
  tables.set("parallelism", "context_parallel_rotate_method",
             exchange == ContextExchange::Ring ? "\"alltoall\"" : "\"allgather\"");
  if (exchange == ContextExchange::Ulysses)
    job.cannot.emplace_back("parallel.context_exchange ulysses: keys and values are gathered");
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

void add_data_parallel(const ExportRequest& request, const DataRanks& ranks, Tables& tables, ExportedJob& job) {
  const Plan& plan = request.plan;
  job.stated = {"parallel.context", "parallel.context_exchange", "parallel.expert", "parallel.expert_tensor"};
  tables.set("parallelism", "data_parallel_replicate_degree", std::to_string(ranks.replicate));
  tables.set("parallelism", "data_parallel_shard_degree", std::to_string(ranks.shard));
  if (plan.zero >= 2) job.stated.emplace_back("parallel.shard");
  if (plan.zero < 2 && ranks.fsdp) job.cannot.emplace_back("context parallelism without FSDP: its ranks divide the parameters");
  if (plan.zero == 2) tables.set("parallelism", "fsdp_reshard_after_forward", "\"never\"");
  if (plan.zero == 3) tables.set("parallelism", "fsdp_reshard_after_forward", "\"always\"");
  if (plan.zero == 1 && plan.data > 1) job.cannot.emplace_back("ZeRO 1: every replica keeps the optimizer's state");
  tables.set("parallelism", "tensor_parallel_degree", std::to_string(plan.tensor));
  if (context_ranks(plan) > 1) add_context(request, tables, job);
  if (plan.expert > 1) tables.set("parallelism", "expert_parallel_degree", std::to_string(plan.expert));
  if (plan.expert_tensor > 0) tables.set("parallelism", "expert_tensor_parallel_degree", std::to_string(plan.expert_tensor));
  if (plan.tensor > 1 && !plan.sequence_parallel)
    job.cannot.emplace_back("tensor parallelism without sequence parallelism: torchtitan always divides the sequence");
}

void add_recompute(const ExportRequest& request, Tables& tables, ExportedJob& job) {
  const RecomputeScope& scope = request.experiment.scenario.recompute_scope;
  const Recompute mode = recompute_of(request.plan, job);
  std::string name = "none";
  if (mode == Recompute::Selective) job.cannot.emplace_back("selective recompute of single operators: nothing is recomputed");
  if (mode == Recompute::Full) name = scope.every > 1 ? "selective" : "full";
  tables.set("activation_checkpoint", "mode", json_text(name));
  if (name == "selective") tables.set("activation_checkpoint", "selective_ac_option", json_text(std::to_string(scope.every)));
  if (mode == Recompute::Full && (scope.first > 0 || scope.chunk > 1))
    job.cannot.emplace_back("recompute of some blocks of a stage, or of several together: each block is recomputed by itself");
}

void add_precision(const ExportRequest& request, const DataRanks& ranks, Tables& tables, ExportedJob& job) {
  const Plan& plan = request.plan;
  const Precision precision = request.experiment.scenario.precision, outside = outside_products(precision);
  const bool half = precision == Precision::Bf16Pure;
  tables.set("training", "dtype", half ? "\"bfloat16\"" : "\"float32\"");
  tables.set("training", "mixed_precision_param", half || outside == Precision::Bf16 ? "\"bfloat16\"" : "\"float32\"");
  if (!half && outside != Precision::Bf16 && precision != Precision::Fp32)
    job.cannot.push_back(fmt::format("precision {}: it trains in fp32", name_of(precision)));
  if (outside == Precision::Bf16 && !ranks.fsdp && plan.pipeline * plan.tensor > 1)
    job.cannot.push_back(
        fmt::format("precision {} beside fp32 parameters without FSDP: it trains in fp32; mixed precision needs "
                    "data_parallel_shard_degree above 1",
                    name_of(precision)));
  if (!has_8bit_products(precision)) return;
  const std::string linear = precision == Precision::Fp8 ? "quantize.linear.float8" : "quantize.linear.mx";
  tables.set("model", "converters", fmt::format("[\"{}\"]", linear));
  tables.set(linear, "filter_fqns", "[\"output\"]");  // the head is no product of a block
  if (language_model_of(request.experiment.scenario.workload)->dimensions.traits.experts.count > 0)
    job.cannot.push_back(fmt::format("precision {} of experts: their grouped products are in bf16", name_of(precision)));
}

void add_training(const ExportRequest& request, const DataRanks& ranks, Tables& tables, ExportedJob& job) {
  const Scenario& scenario = request.experiment.scenario;
  const Plan& plan = request.plan;
  const OptimizerRequest& o = scenario.optimizer;
  const auto model = language_model_of(scenario.workload);
  const int local = plan.micro * (plan.pipeline > 1 ? plan.schedule.microbatches : 1);
  tables.set("training", "local_batch_size", std::to_string(local));
  tables.set("training", "global_batch_size", std::to_string(plan.micro * plan.schedule.microbatches * plan.data));
  tables.set("training", "seq_len", std::to_string(model->dimensions.sequence));
  tables.set("training", "max_norm",
             scenario.training.clip_gradients > 0 ? number_text(scenario.training.clip_gradients) : "inf");
  if (const auto steps = steps_of_run(request)) tables.set("training", "steps", std::to_string(*steps));
  if (scenario.offload.optimizer && scenario.offload.parameters && ranks.fsdp) {
    tables.set("training", "enable_cpu_offload", "true");
    job.stated.insert(job.stated.end(), {"offload.optimizer", "offload.parameters"});
  }
  add_precision(request, ranks, tables, job);
  const bool adam = o.name == "adam" || o.name == "adamw";
  if (!adam) job.cannot.push_back(fmt::format("optimizer {}: it trains with AdamW", o.name));
  tables.set("optimizer", "name", o.name == "adam" ? "\"Adam\"" : "\"AdamW\"");
  tables.set("optimizer", "lr", number_text(o.learning_rate));
  tables.set("optimizer", "beta1", number_text(o.beta1));
  tables.set("optimizer", "beta2", number_text(o.beta2));
  tables.set("optimizer", "eps", number_text(o.epsilon));
  tables.set("optimizer", "weight_decay", number_text(o.weight_decay));
  report_optimizer(scenario, job);
}

void add_rate(const Scenario& scenario, Tables& tables, ExportedJob& job) {
  const TrainingRequest& t = scenario.training;
  using Decay = TrainingRequest::Decay;
  tables.set("lr_scheduler", "warmup_steps", std::to_string(t.warmup_steps));
  if (t.decay == Decay::InverseSqrt) job.cannot.emplace_back("a rate that falls as inverse_sqrt: it stays");
  if (t.decay == Decay::Constant || t.decay == Decay::InverseSqrt) return tables.set("lr_scheduler", "decay_ratio", "0.0");
  tables.set("lr_scheduler", "total_steps", std::to_string(t.decay_steps));
  const int start = std::max(t.warmup_steps, t.decay_start);
  tables.set("lr_scheduler", "decay_ratio", fmt::format("{:.6g}", double(t.decay_steps - start) / t.decay_steps));
  tables.set("lr_scheduler", "decay_type", t.decay == Decay::Linear ? "\"linear\"" : "\"cosine\"");
  const double peak = scenario.optimizer.learning_rate;
  tables.set("lr_scheduler", "min_lr_factor", number_text(peak > 0 ? t.minimum_learning_rate / peak : 0));
}

}  // namespace

ExportedJob export_torchtitan(const ExportRequest& request) {
  const Scenario& scenario = request.experiment.scenario;
  ExportedJob job;
  Tables tables;
  const DataRanks ranks = data_ranks_of(request);
  add_model(request, tables, job);
  add_data_parallel(request, ranks, tables, job);
  add_training(request, ranks, tables, job);
  add_rate(scenario, tables, job);
  add_pipeline(request, tables, job);
  add_recompute(request, tables, job);
  if (scenario.seed > 0) tables.set("debug", "seed", std::to_string(scenario.seed));
  if (scenario.data.kind != DataRequest::Kind::Synthetic)
    job.cannot.push_back(fmt::format("data {}: torchtitan reads data sets by name", scenario.data.file));
  if (scenario.workload.dropout > 0) job.cannot.emplace_back("dropout");
  report_the_rest(request, job);
  job.besides.emplace_back("For torchtitan 0.2.2, the last release that reads TOML: CONFIG_FILE=this file ./run_train.sh");
  job.text = head_text(request, "A configuration for torchtitan", job, "# ");
  job.text += "# The same as overrides, for what the command line can say:\n" + tables.overrides() + tables.toml();
  return job;
}

}  // namespace panpipe::jobs
