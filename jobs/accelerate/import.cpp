// The configuration of Hugging Face Accelerate (`accelerate config`, YAML) as a scenario.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "jobs/bounds.hpp"
#include "jobs/captured/captured.hpp"
#include "jobs/framework_choices.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

class AccelerateImport : ConfigurationImport {
 public:
  AccelerateImport(JobKeys keys, const JobOptions& options) : ConfigurationImport("Accelerate", std::move(keys), options) {}

  ImportedJob job() {
    written_type_ = one_line(keys_.text("distributed_type").value_or("NO"));
    type_ = lower_case(written_type_);
    read_degrees();
    put_stated_model(job_, options_);
    read_batch();
    read_precision();
    assume_optimizer();
    read_recompute();
    read_framework();
    report_rest(job_, keys_, unread_keys("accelerate"));
    return std::move(job_);
  }

 private:
  bool fsdp() const { return type_ == "fsdp"; }
  bool deepspeed() const { return type_ == "deepspeed"; }
  bool megatron() const { return type_ == "megatron_lm"; }
  int degree(const std::string& path) { return keys_.integer(path, 1, kMostRanks).value_or(1); }

  JobMachine machine(int ranks) {
    const int nodes = degree("num_machines");
    const auto processes = keys_.integer("num_processes", 1, kMostRanks);
    if (options_.gpus || !processes) return ConfigurationImport::machine(ranks);
    if (*processes % nodes != 0)
      keys_.refuse("num_processes", fmt::format("is {}, no multiple of the {} of num_machines", *processes, nodes));
    return {*processes, *processes / nodes, nodes > 1 ? "num_processes, num_machines" : "num_processes"};
  }

  void read_degrees() {
    const std::string axes = "parallelism_config.parallelism_config_";
    const std::string tensor_key = megatron() ? "megatron_lm_config.megatron_lm_tp_degree" : axes + "tp_size";
    const std::string pipeline_key = "megatron_lm_config.megatron_lm_pp_degree";
    degrees_.tensor = degree(tensor_key), degrees_.context = degree(axes + "cp_size");
    if (megatron()) degrees_.pipeline = degree(pipeline_key);
    const JobMachine cluster = machine(ranks_of_replica());
    node_ = std::min(cluster.per_node, cluster.gpus);
    put_degrees(cluster, degrees_.pipeline > 1 ? pipeline_key : "no pipeline",
                keys_.has(tensor_key) ? tensor_key : "no tensor parallelism");
    const bool gathers = keys_.text(axes + "cp_comm_strategy").value_or("allgather") == "allgather";
    put_context(job_, degrees_.context, axes + "cp_size", gathers ? "all-gather" : "ring");
    if (degrees_.pipeline > 1) job_.set("schedule", "1f1b", "Megatron-LM's schedule");
    if (fsdp())
      read_fsdp(axes);
    else if (deepspeed())
      read_deepspeed();
    else if (megatron())
      read_megatron();
    else if (type_ != "no" && type_ != "multi_gpu" && type_ != "tp")
      keys_.refuse("distributed_type", fmt::format("is '{}', which is not known", written_type_),
                   "known are NO, MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM and TP");
  }

  void put_zero(int stage, const std::string& origin) { job_.set("parallel.zero", stage, origin); }

  // FSDP 1 names a strategy, FSDP 2 states whether parameters are freed after the forward; a number is torch's
  // ShardingStrategy.
  void read_fsdp(const std::string& axes) {
    const int version = keys_.integer("fsdp_config.fsdp_version", 1, 2).value_or(1);
    const std::string reshard = "fsdp_config.fsdp_reshard_after_forward", strategy = "fsdp_config.fsdp_sharding_strategy";
    const std::string key = keys_.has(strategy) && (version == 1 || !keys_.has(reshard)) ? strategy : reshard;
    const std::string other = key == strategy ? reshard : strategy;
    const std::string word = lower_case(keys_.text(key).value_or("full_shard"));
    if (keys_.has(other))
      job_.not_modelled.push_back(fmt::format("{}: {} ({} counts)", other, one_line(*keys_.text(other)), key));
    if (word == "full_shard" || word == "1" || word == "true")
      put_zero(3, keys_.has(key) ? key : "FSDP's default");
    else if (word == "shard_grad_op" || word == "2" || word == "false")
      put_zero(2, key);
    else if (word == "no_shard" || word == "3")
      put_zero(0, key);
    else if (word == "hybrid_shard" || word == "4" || word == "hybrid_shard_zero2" || word == "_hybrid_shard_zero2" ||
             word == "5")
      put_hybrid(word == "hybrid_shard" || word == "4" ? 3 : 2, key);
    else
      keys_.refuse(key, fmt::format("is '{}', which is not known", one_line(keys_.shown(key))),
                   "known are FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2, true and false");
    read_shard_of_axes(axes);
    // A unit of FSDP is a block.
    const std::string wrap = "fsdp_config.fsdp_auto_wrap_policy";
    const std::string policy = lower_case(keys_.text(wrap).value_or("transformer_based_wrap"));
    if (policy != "transformer_based_wrap") job_.not_modelled.push_back(fmt::format("{}: {}", wrap, one_line(keys_.shown(wrap))));
    if (!keys_.flag("fsdp_config.fsdp_offload_params").value_or(false)) return;
    put_offload(job_, "parameters", "cpu", "fsdp_config.fsdp_offload_params");
    put_offload(job_, "optimizer", "cpu", "fsdp_config.fsdp_offload_params");
  }

  void put_hybrid(int stage, const std::string& key) {
    put_zero(stage, key);
    const int neighbours = std::max(1, node_ / ranks_of_replica());
    if (degrees_.data > neighbours && degrees_.data % neighbours == 0)
      job_.set("parallel.shard", neighbours, "replicas on a node, which hybrid sharding divides over");
  }

  // dp_replicate x dp_shard ranks: the second are a shard group.
  void read_shard_of_axes(const std::string& axes) {
    const int replicas = degree(axes + "dp_replicate_size"), shard = degree(axes + "dp_shard_size");
    if (!keys_.has(axes + "dp_shard_size")) return;
    if (static_cast<long long>(replicas) * shard != degrees_.data)
      keys_.refuse(axes + "dp_shard_size", fmt::format("x dp_replicate_size are {} ranks, and the job has {} replicas",
                                                       static_cast<long long>(replicas) * shard, degrees_.data));
    const int group = shard * degrees_.context;  // ranks that share a sequence divide too
    if (replicas > 1 && group > 1) job_.set("parallel.shard", group, axes + "dp_shard_size");
  }

  void read_deepspeed() {
    if (keys_.has("deepspeed_config.deepspeed_config_file"))
      keys_.refuse("deepspeed_config.deepspeed_config_file",
                   fmt::format("names {}, which is not read", one_line(keys_.shown("deepspeed_config.deepspeed_config_file"))),
                   "import that file: panpipe import deepspeed FILE");
    put_zero(keys_.integer("deepspeed_config.zero_stage", 0, 3).value_or(2),
             keys_.has("deepspeed_config.zero_stage") ? "deepspeed_config.zero_stage" : "Accelerate's default");
    read_offload("optimizer", "deepspeed_config.offload_optimizer_device");
    read_offload("parameters", "deepspeed_config.offload_param_device");
  }

  void read_megatron() {
    if (keys_.flag("megatron_lm_config.megatron_lm_sequence_parallelism").value_or(false))
      job_.set("parallel.sequence_parallel", "true", "megatron_lm_config.megatron_lm_sequence_parallelism");
    if (keys_.flag("megatron_lm_config.megatron_lm_use_distributed_optimizer").value_or(false))
      put_zero(1, "megatron_lm_config.megatron_lm_use_distributed_optimizer");
  }

  void read_batch() {
    micro_batch(job_, options_, std::nullopt, "");
    for (const char* path : {"megatron_lm_config.megatron_lm_num_micro_batches", "deepspeed_config.gradient_accumulation_steps",
                             "gradient_accumulation_steps"}) {
      if (keys_.automatic(path)) continue;
      if (const auto steps = keys_.integer(path, 1, kMostSamples)) return job_.set("batch.microbatches", *steps, path);
    }
    job_.set("batch.microbatches", 1, "assumed");
    job_.assumptions.emplace_back("one microbatch a step (no gradient_accumulation_steps).");
  }

  void read_precision() {
    const std::string word = keys_.text("mixed_precision").value_or("no");
    if (word == "fp8") return job_.set("precision", "fp8", "mixed_precision");
    if (word != "no" && word != "bf16" && word != "fp16")
      keys_.refuse("mixed_precision", fmt::format("is '{}'; it is no, fp16, bf16 or fp8", one_line(word)));
    job_.set("precision", word == "no" ? "fp32" : word, "mixed_precision");
  }

  void read_recompute() {
    for (const char* path : {"fsdp_config.fsdp_activation_checkpointing", "megatron_lm_config.megatron_lm_recompute_activations"})
      if (keys_.flag(path).value_or(false)) return job_.set("recompute", megatron() ? "selective" : "full", path);
    if (!fsdp() && !megatron()) assume_no_recompute();
  }

  void read_framework() {
    const std::string path = keys_.has("dynamo_config.dynamo_backend") ? "dynamo_config.dynamo_backend" : "dynamo_backend";
    const bool compiled = lower_case(keys_.text(path).value_or("no")) == "inductor";
    const std::string preset = deepspeed() ? "deepspeed" : megatron() ? "megatron" : compiled ? "torch-compile" : "eager-sdpa";
    FrameworkChoices framework(
        "accelerate", compiled ? path : fmt::format("distributed_type {}, a model of transformers", written_type_), preset);
    const std::string clipping = "deepspeed_config.gradient_clipping";
    if (!keys_.automatic(clipping) && keys_.number(clipping).value_or(0) > 0)
      framework.choose("gradient_clipping: foreach", clipping);
    if (compiled && (deepspeed() || megatron())) framework.choose("elementwise: compiled", path);
    framework.put(job_);
  }

  std::string written_type_, type_;  // as it stands; in small letters
  int node_ = 1;                     // GPUs of a node
};

}  // namespace

ImportedJob import_accelerate(const std::string& text, const std::string& name, const JobOptions& options) {
  JobOptions mine = options;
  JobKeys keys = captured_keys_or(text, name, "accelerate", mine, [&] { return job_keys(text, name); });
  return AccelerateImport(std::move(keys), mine).job();
}

}  // namespace panpipe::jobs
