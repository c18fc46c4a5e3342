// A plan as a file of TrainingArguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/json_writer.hpp"
#include "costmodel/workload/language_model.hpp"
#include "jobs/edit/base_job.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

// What a plan decides. `fsdp` in the words of releases before 5.20, which later ones take too.
std::vector<Setting> plan_settings(const ExportRequest& request) {
  const Plan& plan = request.plan;
  ExportedJob ignored;
  const bool full = recompute_of(plan, ignored) == Recompute::Full, fsdp = plan.zero >= 2 && plan.data > 1;
  const char* words = !fsdp ? "" : plan.zero == 3 ? "full_shard auto_wrap" : "shard_grad_op auto_wrap";
  std::vector<Setting> settings = {{"per_device_train_batch_size", std::to_string(plan.micro)},
                                   {"gradient_accumulation_steps", std::to_string(plan.schedule.microbatches)},
                                   {"gradient_checkpointing", flag_text(full && !fsdp)},
                                   {"fsdp", json_text(words)}};
  if (fsdp) settings.emplace_back("fsdp_config.activation_checkpointing", flag_text(full));
  return settings;
}

void check_plan(const ExportRequest& request) {
  const Plan& plan = request.plan;
  const auto refuse = [&](const std::string& what, const char* help) {
    throw InputError(fmt::format("{}: {}", request.scenario, what), help);
  };
  if (plan.tensor * plan.context > 1)
    refuse(fmt::format("TrainingArguments in a file state no tensor and no context parallelism, and the plan has tensor {}, "
                       "context {}",
                       plan.tensor, plan.context),
           "a script passes a ParallelismConfig; panpipe export accelerate writes both");
  if (plan.zero == 1 && plan.data > 1)
    refuse("the Trainer has ZeRO 1 by DeepSpeed alone, whose file it is",
           "panpipe export deepspeed writes the file for the argument deepspeed");
}

class HuggingFaceExport : ConfigurationExport {
 public:
  using ConfigurationExport::ConfigurationExport;

  ExportedJob job() {
    check_plan(request_);
    left_out_.add("output_dir");
    for (const auto& [path, value] : plan_settings(request_))
      if (!path.starts_with("fsdp") || plan_.zero >= 2) set(path, value);
    recompute_of_blocks();
    add_precision();
    add_optimizer();
    add_rate();
    if (scenario_.framework.elementwise == Elementwise::Compiled) set("torch_compile", "true");
    set_steps("max_steps");
    set_stated("seed", "seed", std::to_string(scenario_.seed));
    left_out_.report("the Trainer takes its own values for these", job_);
    report_the_rest(request_, job_);
    std::string sequence;
    if (const auto model = language_model_of(scenario_.workload)) sequence = fmt::format("{}", model->dimensions.sequence);
    job_.besides.push_back(
        fmt::format("The model ({}), its data and the length of a sample ({}) are the script's: {} train.py FILE.",
                    request_.experiment.workload.name, sequence, launch_text(request_)));
    std::stable_partition(settings_.begin(), settings_.end(),
                          [](const Setting& one) { return one.first.find('.') == std::string::npos; });
    job_.text = json_text_of(settings_);  // the parser of arguments takes no key for remarks
    return std::move(job_);
  }

 private:
  void add_precision() {
    const Precision precision = scenario_.precision, outside = outside_products(precision);
    set("bf16", flag_text(outside == Precision::Bf16));
    set("fp16", flag_text(precision == Precision::Fp16));
    cannot_if(precision != Precision::Fp32 && precision != Precision::Fp16 && precision != Precision::Bf16,
              fmt::format("precision {}", name_of(precision)));
  }

  void add_optimizer() {
    const OptimizerRequest& o = scenario_.optimizer;
    const bool adamw = o.name == "adamw", eight = adamw && o.states == StateFormat::Int8;
    report_optimizer(scenario_, job_);
    cannot_if(!adamw && o.name != "sgd", fmt::format("optimizer {}: it trains with AdamW", o.name));
    if (eight) job_.stated.emplace_back("optimizer.states");
    const bool fused = scenario_.framework.optimizer_kernel == OptimizerKernel::Fused;
    set("optim", json_text(o.name == "sgd" ? "sgd" : eight ? "adamw_bnb_8bit" : fused ? "adamw_torch_fused" : "adamw_torch"));
    set_stated("optimizer.learning_rate", "learning_rate", number_text(o.learning_rate));
    if (o.name != "sgd") {
      set_stated("optimizer.betas", "adam_beta1", number_text(o.beta1));
      set_stated("optimizer.betas", "adam_beta2", number_text(o.beta2));
      set_stated("optimizer.epsilon", "adam_epsilon", number_text(o.epsilon));
    }
    set_stated("optimizer.weight_decay", "weight_decay", number_text(o.weight_decay));
    set_stated("training.clip_gradients", "max_grad_norm", number_text(scenario_.training.clip_gradients));
  }

  // Its courses end with the run, at zero or at a least rate.
  void add_rate() {
    const TrainingRequest& t = scenario_.training;
    using Decay = TrainingRequest::Decay;
    set_stated("training.warmup_steps", "warmup_steps", std::to_string(t.warmup_steps));
    if (!left_out_.states("training.decay", "lr_scheduler_type")) return;
    const bool falls = t.decay == Decay::Linear || t.decay == Decay::Cosine, least = falls && t.minimum_learning_rate > 0;
    cannot_if(falls && (t.decay_start > t.warmup_steps || steps_of_run(request_) != t.decay_steps),
              "a rate whose fall does not begin with the end of the warm-up, and end with the run");
    cannot_if(least && t.decay == Decay::Linear, "a rate that falls linearly to another one than 0");
    set("lr_scheduler_type", json_text(t.decay == Decay::Linear        ? "linear"
                                       : t.decay == Decay::InverseSqrt ? "inverse_sqrt"
                                       : t.decay == Decay::Constant    ? "constant_with_warmup"
                                       : least                         ? "cosine_with_min_lr"
                                                                       : "cosine"));
    if (least && t.decay == Decay::Cosine)
      set("lr_scheduler_kwargs", fmt::format("{{\"min_lr\": {}}}", number_text(t.minimum_learning_rate)));
  }
};

}  // namespace

ExportedJob export_huggingface(const ExportRequest& request) { return HuggingFaceExport(request).job(); }

std::vector<EditAttempt> edit_huggingface(const EditRequest& request) {
  check_plan(request.after);
  const NodePtr root = parse_document(request.base.text, request.base.name, ".");
  return {document_attempt(request.base, *root, DocumentForm::Json,
                           changed_settings(plan_settings(request.before), plan_settings(request.after)))};
}

}  // namespace panpipe::jobs
