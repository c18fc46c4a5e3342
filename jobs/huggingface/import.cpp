// The arguments of Hugging Face's Trainer as a scenario: captured ones, or a file of arguments.
#include <fmt/format.h>

#include <algorithm>

#include "base/text/characters.hpp"
#include "jobs/bounds.hpp"
#include "jobs/captured/captured.hpp"
#include "jobs/deepspeed/import.hpp"
#include "jobs/framework_choices.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

constexpr const char* kTrainer = "Hugging Face's Trainer";

// The newer name first: transformers 5 mirrors it in the older one.
std::string checkpointing_key(const JobKeys& keys) {
  return keys.has("activation_checkpointing") ? "activation_checkpointing" : "gradient_checkpointing";
}

class HuggingFaceImport : ConfigurationImport {
 public:
  HuggingFaceImport(JobKeys keys, const JobOptions& options) : ConfigurationImport(kTrainer, std::move(keys), options) {}

  ImportedJob job() {
    read_degrees();
    read_model();
    micro_batch(job_, options_, keys_.integer("per_device_train_batch_size", 1, kMostSamples).value_or(8),
                "per_device_train_batch_size");
    job_.set("batch.microbatches", keys_.integer("gradient_accumulation_steps", 1, kMostSamples).value_or(1),
             "gradient_accumulation_steps");
    read_precision();
    read_recompute();
    read_optimizer();
    read_framework();
    report_rest(job_, keys_, unread_keys("huggingface"));
    return std::move(job_);
  }

 private:
  void read_degrees() {
    put_degrees(machine(1), "no pipeline", "no tensor parallelism");
    read_zero();
  }

  // Releases before 5.20 list words: "full_shard auto_wrap". FSDP 2 states whether parameters are freed after the forward.
  void read_zero() {
    std::string words = lower_case(keys_.has("fsdp") ? keys_.shown("fsdp") : "false");
    keys_.take({"fsdp"});
    std::erase_if(words, [](char letter) { return letter == '[' || letter == ']' || letter == ','; });
    const auto has = [&](const char* word) { return words.find(word) != std::string::npos; };
    if (words.empty() || words == "false" || words == "null" || has("no_shard")) return job_.set("parallel.zero", 0, "no fsdp");
    const bool reshards = keys_.flag("fsdp_config.reshard_after_forward").value_or(true) && !has("shard_grad_op");
    job_.set("parallel.zero", reshards ? 3 : 2, "fsdp");
    if (has("hybrid_shard")) job_.not_modelled.push_back("fsdp: hybrid_shard (predicted over all replicas)");
    if (has("offload")) job_.not_modelled.push_back("fsdp: offload");
  }

  void read_model() {
    std::optional<int> sequence;
    std::string origin;
    for (const char* option : {"block_size", "max_seq_length", "max_length", "max_seq_len", "cutoff_len", "model_max_length"}) {
      const std::string path = fmt::format("script.{}", option);
      const auto stated = keys_.integer(path, 1, kMostTokens);
      if (stated && !sequence) sequence = stated, origin = path;
    }
    put_stated_model(job_, options_, sequence, origin);
  }

  void read_precision() {
    const bool bf16 = keys_.flag("bf16").value_or(false), fp16 = keys_.flag("fp16").value_or(false);
    if (bf16 && fp16) keys_.refuse("fp16", "contradicts bf16");
    for (const char* type : {"script.dtype", "script.torch_dtype"}) {
      const std::string word = keys_.text(type).value_or("");
      if (word == "bfloat16") return job_.set("precision", "bf16-pure", type);
    }
    job_.set("precision", bf16 ? "bf16" : fp16 ? "fp16" : "fp32", bf16 ? "bf16" : fp16 ? "fp16" : "neither bf16 nor fp16");
  }

  void read_recompute() {
    const std::string key = checkpointing_key(keys_), fsdp = "fsdp_config.activation_checkpointing";
    const bool whole = keys_.flag(key).value_or(false), of_fsdp = keys_.flag(fsdp).value_or(false);
    keys_.take({"gradient_checkpointing", "gradient_checkpointing_kwargs*", "activation_checkpointing_kwargs*"});
    if (whole || of_fsdp) job_.set("recompute", "full", whole ? key : fsdp);
  }

  void read_optimizer() {
    name_ = lower_case(keys_.text("optim").value_or("adamw_torch"));
    if (name_.find("8bit") != std::string::npos && name_.find("adamw") != std::string::npos)
      return job_.set("optimizer", "{name: adamw, states: 8bit}", "optim");
    put_optimizer(job_, name_.starts_with("adamw_torch") ? "adamw" : name_, "optim");
  }

  // The preset of releases before 5 is of 2021 to 2023; since 4.36 attention is scaled_dot_product_attention.
  void read_framework() {
    const bool compiled = keys_.flag("torch_compile").value_or(false);
    const std::string release = release_number(options_.captured_release);
    const bool newest = load_trainer("huggingface", release).framework == load_trainer("huggingface").framework;
    FrameworkChoices framework("huggingface", compiled ? "torch_compile" : "a model of transformers",
                               compiled ? "torch-compile"
                               : newest ? ""
                                        : "eager-sdpa",
                               release);
    if (name_.starts_with("adamw_torch") && keys_.has("optim"))
      framework.choose(name_.ends_with("_fused") ? "optimizer_kernel: fused" : "optimizer_kernel: foreach", "optim");
    const bool clips = keys_.number("max_grad_norm").value_or(1) > 0;
    framework.choose(clips ? "gradient_clipping: foreach" : "gradient_clipping: none", "max_grad_norm");
    const std::string kernel = keys_.text("script.attn_implementation").value_or("");
    if (kernel == "eager") framework.choose("attention: unfused", "script.attn_implementation");
    if (kernel == "flash_attention_2") framework.choose("attention: flash-2", "script.attn_implementation");
    framework.put(job_);
  }

  std::string name_;  // of the optimizer
};

// With DeepSpeed the job is DeepSpeed's, and the arguments state what its file leaves to the program.
ImportedJob with_deepspeed(const CapturedJob& captured, const NodePtr& file, const JobOptions& options) {
  JobKeys arguments(captured.configuration);
  ImportedJob job = import_deepspeed_keys(JobKeys(file), options);
  job.trainer = fmt::format("{} with DeepSpeed", kTrainer);
  const std::string key = checkpointing_key(arguments);
  if (arguments.flag(key).value_or(false)) {
    std::erase_if(job.assumptions, [](const std::string& one) { return one.starts_with("no recompute"); });
    job.set("recompute", "full", key);
  }
  return job;
}

}  // namespace

ImportedJob import_huggingface(const std::string& text, const std::string& name, const JobOptions& options) {
  const std::optional<CapturedJob> captured = captured_job(text, name);
  if (!captured) return HuggingFaceImport(job_keys(text, name), options).job();
  JobOptions mine = options;
  apply_captured(*captured, "huggingface", name, mine);
  for (const Node::Entry& entry : captured->configuration->entries)
    if (entry.key == "deepspeed" && entry.value->kind == NodeKind::Map) return with_deepspeed(*captured, entry.value, mine);
  return HuggingFaceImport(keys_of(*captured), mine).job();
}

}  // namespace panpipe::jobs
