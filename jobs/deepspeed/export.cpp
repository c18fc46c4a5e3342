// A plan as ds_config.json. DeepSpeed takes the pipeline's stages and cuts in code: they are reported with the file.
#include "jobs/deepspeed/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/text/json_writer.hpp"
#include "jobs/export_parts.hpp"

namespace panpipe::jobs {
namespace {

class DeepSpeedExport : ConfigurationExport {
 public:
  using ConfigurationExport::ConfigurationExport;

  ExportedJob job() {
    read_plan();
    report_precision();
    if (const auto steps = steps_of_run(request_))
      job_.besides.push_back(fmt::format("In code: the run takes {} steps.", *steps));
    add_optimizer();
    add_scheduler();
    const bool clips = left_out_.states("training.clip_gradients", "gradient_clipping");
    left_out_.report("DeepSpeed takes its own values without", job_);
    const std::vector<Setting> of_optimizer = std::exchange(settings_, deepspeed_batch(plan_));
    if (clips) set("gradient_clipping", number_text(scenario_.training.clip_gradients));
    set("bf16.enabled", flag_text(outside_products(scenario_.precision) == Precision::Bf16));
    set("fp16.enabled", flag_text(scenario_.precision == Precision::Fp16));
    add_zero();
    if (plan_.pipeline > 1) {
      set("pipeline.stages", plan_.pipeline);
      set("pipeline.activation_checkpoint_interval", interval_);
    }
    for (const char* key : {"partition_activations", "contiguous_memory_optimization"})
      set(fmt::format("activation_checkpointing.{}", key), "false");
    settings_.insert(settings_.end(), of_optimizer.begin(), of_optimizer.end());
    report_the_rest(request_, job_);
    job_.text = json_text_of(with_notes());
    return std::move(job_);
  }

 private:
  void read_plan() {
    const Recompute mode = recompute_of(plan_, job_);
    const RecomputeScope& scope = scenario_.recompute_scope;
    interval_ = mode == Recompute::Full ? scope.chunk : 0;
    cannot_if(mode == Recompute::Full && (scope.first > 0 || scope.every > 1),
              "recompute of some of the layers: all are recomputed");
    if (plan_.pipeline > 1) {
      if (plan_.zero > 1)
        refuse(fmt::format("DeepSpeed's pipelines divide no gradients and no parameters, and the plan has ZeRO {}", plan_.zero),
               "panpipe plan --for deepspeed plans without");
      report_stages(layers_of_stages(request_, "DeepSpeed"));
    } else if (interval_ > 0) {
      job_.besides.emplace_back("In code: each layer's forward goes through deepspeed.checkpointing.checkpoint.");
    }
    cannot_if(mode == Recompute::Selective, "selective recompute: nothing is recomputed");
  }
  void report_stages(const std::vector<int>& layers) {
    parts_ = deepspeed_parts(layers);
    job_.besides.push_back(fmt::format(
        "In code: PipelineModule(layers, num_stages={}, partition_method=..., activation_checkpoint_interval={}), with "
        "layers = [embedding, the model's layers, norm with head].",
        plan_.pipeline, interval_));
    const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
    if (*least == *most)
      job_.besides.emplace_back("partition_method=\"type:Block\" cuts as the plan does, with Block the class of a layer.");
    else
      job_.besides.push_back(
          fmt::format("No partition_method cuts as the plan does: override PipelineModule._partition_layers so that "
                      "self.parts = [{}].",
                      fmt::join(parts_, ", ")));
  }
  void report_precision() {
    const Precision precision = scenario_.precision;
    cannot_if(precision == Precision::Tf32 || precision == Precision::Bf16Pure || precision == Precision::Fp16Pure,
              fmt::format("precision {}", name_of(precision)));
    job_.besides.push_back(fmt::format("The model ({}) and its data are code for DeepSpeed: deepspeed.initialize(model=...).",
                                       request_.experiment.workload.name));
    cannot_if(
        has_narrow_products(precision),
        fmt::format("precision {}: products are in bf16; replace the linear layers by Transformer Engine's", name_of(precision)));
  }
  void add_optimizer() {
    const OptimizerRequest& o = scenario_.optimizer;
    const std::string in = "optimizer.params.";
    report_optimizer(scenario_, job_);
    cannot_if(o.name == "none", "optimizer none: it trains with SGD at a rate of 0");
    cannot_if(o.name == "soap" || o.name == "shampoo", fmt::format("optimizer {}: it trains with SGD, Adam or Muon", o.name));
    const bool muon = o.name == "muon", adam = o.name == "adam" || o.name == "adamw";
    set("optimizer.type", o.name == "adam" ? "\"Adam\"" : adam ? "\"AdamW\"" : muon ? "\"Muon\"" : "\"SGD\"");
    if (o.name == "none") return set(in + "lr", 0);
    const std::size_t before = settings_.size();
    set_stated("optimizer.learning_rate", in + "lr", number_text(o.learning_rate));
    if (adam || muon) {
      set_stated("optimizer.betas", in + "betas", fmt::format("[{}, {}]", number_text(o.beta1), number_text(o.beta2)));
      set_stated("optimizer.epsilon", in + "eps", number_text(o.epsilon));
    }
    if (!adam) set(in + "momentum", number_text(o.momentum));  // whose state the name decides
    set_stated("optimizer.weight_decay", in + "weight_decay", number_text(o.weight_decay));
    if (o.name == "adam") set(in + "adam_w_mode", "false");  // DeepSpeed's Adam has it by default
    if (settings_.size() == before) set("optimizer.params", "{}");
  }
  void add_scheduler() {
    const TrainingRequest& t = scenario_.training;
    using Decay = TrainingRequest::Decay;
    if (!states(scenario_, "optimizer.learning_rate") || (t.warmup_steps == 0 && !states(scenario_, "training.decay")))
      return left_out_.add("scheduler");  // which states the peak of the rate
    cannot_if(t.decay == Decay::InverseSqrt || t.decay_start > t.warmup_steps,
              "the course of the learning rate behind the warm-up: it stays");
    const bool linear = t.decay == Decay::Linear, cosine = t.decay == Decay::Cosine;
    const bool falls = cosine || (linear && t.minimum_learning_rate == 0);
    cannot_if(linear && !falls, "a rate that falls linearly to another one than 0: it stays");
    if (!falls && t.warmup_steps == 0) return;
    const std::string in = "scheduler.params.";
    const double peak = scenario_.optimizer.learning_rate;
    set("scheduler.type", cosine ? "\"WarmupCosineLR\"" : falls ? "\"WarmupDecayLR\"" : "\"WarmupLR\"");
    if (falls) set(in + "total_num_steps", t.decay_steps);
    set(in + "warmup_num_steps", t.warmup_steps);
    set(in + (cosine ? "warmup_min_ratio" : "warmup_min_lr"), 0);
    if (cosine)
      set(in + "cos_min_ratio", number_text(peak > 0 ? t.minimum_learning_rate / peak : 0));
    else
      set(in + "warmup_max_lr", number_text(peak));
    set(in + "warmup_type", "\"linear\"");
  }
  void add_zero() {
    const std::string in = "zero_optimization.";
    const Framework& framework = scenario_.framework;
    job_.stated.emplace_back("overlap_gradients");
    set(in + "stage", plan_.zero);
    if (plan_.zero > 0) {
      set(in + "overlap_comm",
          flag_text(scenario_.overlap_gradients.value_or(framework.overlap_reduce_scatter || plan_.zero >= 2)));
      set(in + "contiguous_gradients", "true");
      const double bucket = framework.gradient_bucket_elements;
      set(in + "reduce_bucket_size", bucket > 0 ? fmt::format("{:.0f}", bucket) : "500000000");
      if (scenario_.offload.on_host_step()) put_on_host("optimizer", in + "offload_optimizer.device");
      if (scenario_.offload.parameters && plan_.zero == 3) put_on_host("parameters", in + "offload_param.device");
      if (plan_.zero == 3 && plan_.shard_group() < plan_.replicas()) set(in + "mics_shard_size", plan_.shard_group());
      if (plan_.zero == 3) job_.stated.emplace_back("parallel.shard");
      if (!scenario_.optimizer.name.starts_with("adam")) set("zero_allow_untested_optimizer", "true");
    }
  }
  void put_on_host(const char* part, const std::string& path) {
    set(path, "\"cpu\"");
    job_.stated.push_back(fmt::format("offload.{}", part));
  }
  // In front of the settings what the plan decides in code, as `import` reads it back, and remarks: JSON has no comments.
  std::vector<Setting> with_notes() {
    std::vector<std::string> notes;
    for (const std::string& sentence : job_.besides) notes.push_back(json_text(sentence));
    for (const std::string& phrase : job_.cannot) notes.push_back(json_text("cannot express " + phrase));
    std::vector<Setting> all = std::exchange(settings_, {});
    if (!parts_.empty())
      set("_panpipe.parts", fmt::format("[{}]", fmt::join(parts_, ", ")));
    else if (interval_ > 0)
      set("_panpipe.activation_checkpoint_interval", interval_);
    set("_panpipe.notes", fmt::format("[{}]", fmt::join(notes, ",\n    ")));
    settings_.insert(settings_.end(), all.begin(), all.end());
    return settings_;
  }

  std::vector<int> parts_;  // PipelineModule's; empty: no pipeline
  int interval_ = 0;        // layers recomputed together; without a pipeline the training script states it
};

}  // namespace

std::vector<int> deepspeed_parts(const std::vector<int>& layers) {
  std::vector<int> parts = {0};
  for (std::size_t i = 0; i < layers.size(); ++i)
    parts.push_back(parts.back() + layers[i] + (i == 0 ? 1 : 0) + (i + 1 == layers.size() ? 1 : 0));
  return parts;
}

// DeepSpeed finds the third number of a batch from two.
std::vector<Setting> deepspeed_batch(const Plan& plan) {
  return {{"train_batch_size", std::to_string(plan.micro * plan.schedule.microbatches * plan.data)},
          {"train_micro_batch_size_per_gpu", std::to_string(plan.micro)},
          {"gradient_accumulation_steps", std::to_string(plan.schedule.microbatches)}};
}

ExportedJob export_deepspeed(const ExportRequest& request) { return DeepSpeedExport(request).job(); }

}  // namespace panpipe::jobs
