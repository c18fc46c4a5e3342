#include "jobs/deepspeed/export.hpp"

// A plan as ds_config.json. DeepSpeed takes the pipeline's stages and cuts in code: they are reported with the file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/json_writer.hpp"
#include "jobs/export_parts.hpp"

namespace panpipe::jobs {
namespace {

std::string optimizer_json(const Scenario& scenario, LeftOut& left_out, ExportedJob& job) {
  const OptimizerRequest& o = scenario.optimizer;
  report_optimizer(scenario, job);
  if (o.name == "none") {
    job.cannot.emplace_back("optimizer none: it trains with SGD at a rate of 0");
    return "{\"type\": \"SGD\", \"params\": {\"lr\": 0}}";
  }
  const bool muon = o.name == "muon", adam = o.name == "adam" || o.name == "adamw";
  if (o.name == "soap" || o.name == "shampoo")
    job.cannot.push_back(fmt::format("optimizer {}: it trains with SGD, Adam or Muon", o.name));
  std::vector<std::string> numbers;
  const auto add = [&](const char* path, const char* key, const std::string& value) {
    if (left_out.states(path, fmt::format("optimizer.params.{}", key))) numbers.push_back(fmt::format("\"{}\": {}", key, value));
  };
  add("optimizer.learning_rate", "lr", number_text(o.learning_rate));
  if (adam || muon) add("optimizer.betas", "betas", fmt::format("[{}, {}]", number_text(o.beta1), number_text(o.beta2)));
  if (adam || muon) add("optimizer.epsilon", "eps", number_text(o.epsilon));
  if (!adam) numbers.push_back(fmt::format("\"momentum\": {}", number_text(o.momentum)));  // whose state the name decides
  add("optimizer.weight_decay", "weight_decay", number_text(o.weight_decay));
  if (o.name == "adam") numbers.emplace_back("\"adam_w_mode\": false");  // DeepSpeed's Adam has it by default
  return fmt::format("{{\"type\": \"{}\", \"params\": {{{}}}}}",
                     o.name == "adam" ? "Adam"
                     : adam           ? "AdamW"
                     : muon           ? "Muon"
                                      : "SGD",
                     fmt::join(numbers, ", "));
}

std::string scheduler_json(const Scenario& scenario, LeftOut& left_out, ExportedJob& job) {
  const TrainingRequest& t = scenario.training;
  if (!states(scenario, "optimizer.learning_rate") || (t.warmup_steps == 0 && !states(scenario, "training.decay"))) {
    left_out.add("scheduler");  // which states the peak of the rate
    return "";
  }
  using Decay = TrainingRequest::Decay;
  if (t.decay == Decay::InverseSqrt || t.decay_start > t.warmup_steps)
    job.cannot.emplace_back("the course of the learning rate behind the warm-up: it stays");
  const double peak = scenario.optimizer.learning_rate;
  if (t.decay == Decay::Linear || t.decay == Decay::Cosine) {
    if (t.decay == Decay::Linear && t.minimum_learning_rate == 0)
      return fmt::format(
          ",\n  \"scheduler\": {{\"type\": \"WarmupDecayLR\", \"params\": {{\"total_num_steps\": {}, \"warmup_num_steps\": {}, "
          "\"warmup_min_lr\": 0, \"warmup_max_lr\": {}, \"warmup_type\": \"linear\"}}}}",
          t.decay_steps, t.warmup_steps, number_text(peak));
    if (t.decay == Decay::Cosine)
      return fmt::format(
          ",\n  \"scheduler\": {{\"type\": \"WarmupCosineLR\", \"params\": {{\"total_num_steps\": {}, \"warmup_num_steps\": {}, "
          "\"warmup_min_ratio\": 0, \"cos_min_ratio\": {}, \"warmup_type\": \"linear\"}}}}",
          t.decay_steps, t.warmup_steps, number_text(peak > 0 ? t.minimum_learning_rate / peak : 0));
    job.cannot.emplace_back("a rate that falls linearly to another one than 0: it stays");
  }
  if (t.warmup_steps == 0) return "";
  return fmt::format(
      ",\n  \"scheduler\": {{\"type\": \"WarmupLR\", \"params\": {{\"warmup_num_steps\": {}, \"warmup_min_lr\": 0, "
      "\"warmup_max_lr\": {}, \"warmup_type\": \"linear\"}}}}",
      t.warmup_steps, number_text(peak));
}

std::string zero_json(const Plan& plan, const Scenario& scenario, ExportedJob& job) {
  const int stage = plan.zero;
  if (stage == 0) return "{\"stage\": 0}";
  std::string hosted;
  if (scenario.offload.on_host_step()) {
    hosted += ", \"offload_optimizer\": {\"device\": \"cpu\"}";
    job.stated.emplace_back("offload.optimizer");
  }
  if (scenario.offload.parameters && stage == 3) {
    hosted += ", \"offload_param\": {\"device\": \"cpu\"}";
    job.stated.emplace_back("offload.parameters");
  }
  if (stage == 3 && plan.shard_group() < plan.replicas()) hosted += fmt::format(", \"mics_shard_size\": {}", plan.shard_group());
  if (stage == 3) job.stated.emplace_back("parallel.shard");
  const Framework& framework = scenario.framework;
  const bool overlap = scenario.overlap_gradients.value_or(framework.overlap_reduce_scatter || plan.zero >= 2);
  return fmt::format(
      "{{\"stage\": {}, \"overlap_comm\": {}, \"contiguous_gradients\": true, \"reduce_bucket_size\": {}{}}}", stage,
      flag_text(overlap),
      framework.gradient_bucket_elements > 0 ? fmt::format("{:.0f}", framework.gradient_bucket_elements) : "500000000", hosted);
}

// What the plan decides in code, as `import` reads it back.
struct InCode {
  std::vector<int> parts;  // PipelineModule's; empty: no pipeline
  int interval = 0;        // layers recomputed together; without a pipeline the training script states it
};

std::string in_code_json(const InCode& code) {
  std::string text;
  if (!code.parts.empty()) text += fmt::format("\"parts\": [{}], ", fmt::join(code.parts, ", "));
  if (code.interval > 0) text += fmt::format("\"activation_checkpoint_interval\": {}, ", code.interval);
  return text;
}

void report_stages(const std::vector<int>& layers, int stages, int interval, ExportedJob& job) {
  job.besides.push_back(
      fmt::format("In code: PipelineModule(layers, num_stages={}, partition_method=..., activation_checkpoint_interval={}), with "
                  "layers = [embedding, the model's layers, norm with head].",
                  stages, interval));
  const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
  if (*least == *most)
    job.besides.emplace_back("partition_method=\"type:Block\" cuts as the plan does, with Block the class of a layer.");
  else
    job.besides.push_back(
        fmt::format("No partition_method cuts as the plan does: override PipelineModule._partition_layers so that "
                    "self.parts = [{}].",
                    fmt::join(deepspeed_parts(layers), ", ")));
}

}  // namespace

std::vector<int> deepspeed_parts(const std::vector<int>& layers) {
  std::vector<int> parts = {0};
  for (std::size_t i = 0; i < layers.size(); ++i)
    parts.push_back(parts.back() + layers[i] + (i == 0 ? 1 : 0) + (i + 1 == layers.size() ? 1 : 0));
  return parts;
}

ExportedJob export_deepspeed(const ExportRequest& request) {
  const Scenario& scenario = request.experiment.scenario;
  const Plan& plan = request.plan;
  ExportedJob job;
  InCode code;
  const Recompute mode = recompute_of(plan, job);
  const int interval = mode == Recompute::Full ? scenario.recompute_scope.chunk : 0;
  if (mode == Recompute::Full && (scenario.recompute_scope.first > 0 || scenario.recompute_scope.every > 1))
    job.cannot.emplace_back("recompute of some of the layers: all are recomputed");
  if (plan.pipeline > 1) {
    if (plan.zero > 1)
      throw InputError(fmt::format("{}: DeepSpeed's pipelines divide no gradients and no parameters, and the plan has ZeRO {}",
                                   request.scenario, plan.zero),
                       "panpipe plan --for deepspeed plans without");
    const std::vector<int> layers = layers_of_stages(request, "DeepSpeed");
    code.parts = deepspeed_parts(layers);
    report_stages(layers, plan.pipeline, interval, job);
  } else if (interval > 0) {
    code.interval = interval;
    job.besides.emplace_back("In code: each layer's forward goes through deepspeed.checkpointing.checkpoint.");
  }
  if (mode == Recompute::Selective) job.cannot.emplace_back("selective recompute: nothing is recomputed");
  if (scenario.precision == Precision::Tf32 || scenario.precision == Precision::Bf16Pure ||
      scenario.precision == Precision::Fp16Pure)
    job.cannot.push_back(fmt::format("precision {}", name_of(scenario.precision)));
  job.besides.push_back(fmt::format("The model ({}) and its data are code for DeepSpeed: deepspeed.initialize(model=...).",
                                    request.experiment.workload.name));
  if (has_narrow_products(scenario.precision))
    job.cannot.push_back(fmt::format("precision {}: products are in bf16; replace the linear layers by Transformer Engine's",
                                     name_of(scenario.precision)));
  if (const auto steps = steps_of_run(request)) job.besides.push_back(fmt::format("In code: the run takes {} steps.", *steps));
  LeftOut left_out(scenario);
  const std::string optimizer = optimizer_json(scenario, left_out, job), scheduler = scheduler_json(scenario, left_out, job);
  const bool clips = left_out.states("training.clip_gradients", "gradient_clipping");
  left_out.report("DeepSpeed takes its own values without", job);
  const std::string zero = zero_json(plan, scenario, job);
  job.stated.emplace_back("overlap_gradients");
  report_the_rest(request, job);

  const int micro = plan.micro, microbatches = plan.schedule.microbatches;
  std::vector<std::string> comments;
  for (const std::string& sentence : job.besides) comments.push_back(json_text(sentence));
  for (const std::string& phrase : job.cannot) comments.push_back(json_text("cannot express " + phrase));
  job.text = "{\n";
  job.text += fmt::format("  \"_panpipe\": {{{}\"notes\": [{}]}},\n", in_code_json(code), fmt::join(comments, ",\n    "));
  job.text += fmt::format("  \"train_batch_size\": {},\n  \"train_micro_batch_size_per_gpu\": {},\n",
                          micro * microbatches * plan.data, micro);
  job.text += fmt::format("  \"gradient_accumulation_steps\": {},\n", microbatches);
  if (clips) job.text += fmt::format("  \"gradient_clipping\": {},\n", number_text(scenario.training.clip_gradients));
  job.text += fmt::format("  \"bf16\": {{\"enabled\": {}}},\n  \"fp16\": {{\"enabled\": {}}},\n",
                          flag_text(outside_products(scenario.precision) == Precision::Bf16),
                          flag_text(scenario.precision == Precision::Fp16));
  job.text += fmt::format("  \"zero_optimization\": {},\n", zero);
  const bool adam = scenario.optimizer.name.starts_with("adam");
  if (!adam && plan.zero > 0) job.text += "  \"zero_allow_untested_optimizer\": true,\n";
  if (plan.pipeline > 1)
    job.text +=
        fmt::format("  \"pipeline\": {{\"stages\": {}, \"activation_checkpoint_interval\": {}}},\n", plan.pipeline, interval);
  job.text += "  \"activation_checkpointing\": {\"partition_activations\": false, \"contiguous_memory_optimization\": false},\n";
  job.text += "  \"optimizer\": " + optimizer + scheduler + "\n}\n";
  return job;
}

}  // namespace panpipe::jobs
