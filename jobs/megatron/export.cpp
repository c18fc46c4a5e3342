#include "jobs/megatron/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "costmodel/profile/recipe.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "jobs/export_parts.hpp"

namespace panpipe::jobs {
namespace {

class MegatronExport : ConfigurationExport {
 public:
  using ConfigurationExport::ConfigurationExport;

  ExportedJob job() {
    const auto model = language_model_of(scenario_.workload);
    if (!model)
      refuse(fmt::format("Megatron-LM's pretrain_gpt.py trains language models, and '{}' is none",
                         request_.experiment.workload.name));
    // Its layer of experts raises without.
    if (model->dimensions.traits.experts.count > 0 && plan_.tensor > 1 && !plan_.sequence_parallel)
      refuse(fmt::format("Megatron-LM trains experts beside tensor parallelism with sequence parallelism only, and the plan has "
                         "tensor {} without",
                         plan_.tensor),
             "state parallel.sequence_parallel true");
    add_megatron_model(*model, scenario_, plan_.tensor, lines_, job_);
    add_plan();
    add_overlap();
    add_precision();
    add_optimizer();
    add_data();
    report_the_rest(request_, job_);
    if ((plan_.tensor > 1 || context_ranks(plan_) > 1) && plan_.zero < 2)
      job_.besides.emplace_back("Set CUDA_DEVICE_MAX_CONNECTIONS=1 on GPUs before Blackwell, as Megatron-LM asks for.");
    job_.text = "#!/bin/sh\n" + head_text(request_, "Arguments for Megatron-LM's pretrain_gpt.py", job_, "# ");
    job_.text += fmt::format("{} pretrain_gpt.py \\\n  {}\n", launch_text(request_), fmt::join(lines_, " \\\n  "));
    return std::move(job_);
  }

  ArgumentLines plan_lines() {
    add_plan();
    return std::move(lines_);
  }

 private:
  // What the plan decides; the rest of a job is the scenario's.
  void add_plan() {
    add_degrees();
    add_stages();
    add_sharding();
    add_recompute();
  }
  template <class... Values>
  void line(fmt::format_string<Values...> text, Values&&... values) {
    lines_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  void cannot(std::string phrase) { job_.cannot.push_back(std::move(phrase)); }

  void add_degrees() {
    line("--tensor-model-parallel-size {} --pipeline-model-parallel-size {}", plan_.tensor, plan_.pipeline);
    if (plan_.sequence_parallel && plan_.tensor > 1) line("--sequence-parallel");
    if (context_ranks(plan_) > 1) line("--context-parallel-size {}", context_ranks(plan_));
    if (plan_.expert > 1) line("--expert-model-parallel-size {}", plan_.expert);
    if (plan_.expert_tensor > 0) line("--expert-tensor-parallel-size {}", plan_.expert_tensor);
    for (const char* key :
         {"parallel.context", "parallel.context_exchange", "parallel.expert", "parallel.expert_tensor", "overlap_gradients"})
      job_.stated.emplace_back(key);
    if (plan_.expert > 1) add_dispatch();
    if (context_ranks(plan_) > 1) line("--cp-comm-type {}", exchange_name(scenario_.context_exchange));
    job_.places_ranks = replicas_in_a_row(plan_);
    if (job_.places_ranks) line("--use-tp-pp-dp-mapping");
    line("--micro-batch-size {} --global-batch-size {}", plan_.micro, plan_.micro * plan_.schedule.microbatches * plan_.data);
  }

  void add_dispatch() {
    const auto model = language_model_of(scenario_.workload);
    const bool grouped = model && model->dimensions.traits.experts.groups > 1;
    const ExpertDispatch dispatch = scenario_.framework.expert_dispatch;
    if (dispatch == ExpertDispatch::Rows || (dispatch == ExpertDispatch::ByModel && !grouped))
      return line("--moe-token-dispatcher-type alltoall");
    line("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep");
    job_.stated.emplace_back("framework.expert_dispatch");
  }

  // As Transformer Engine's attention names them.
  static const char* exchange_name(ContextExchange exchange) {
    return exchange == ContextExchange::Ring ? "p2p" : exchange == ContextExchange::AllGather ? "all_gather" : "a2a";
  }

  void add_stages() {
    const std::vector<int> layers = layers_of_stages(request_, "Megatron-LM");
    if (plan_.pipeline == 1) return;
    line("--pipeline-model-parallel-layout {}", shell_word(layout_text(layers)));
    const auto known = known_order(plan_.schedule, load_trainer("megatron-core").schedules.value());
    if (known->family != "interleaved-1f1b") return;
    // Without the argument a turn has as many microbatches as the pipeline has ranks.
    const int rounds = std::max(1, plan_.schedule.microbatches / plan_.pipeline);
    const int turn = known->turn > 0 ? known->turn : plan_.schedule.microbatches / rounds;
    if (turn != plan_.pipeline) line("--microbatch-group-size-per-virtual-pipeline-stage {}", turn);
  }

  // Ranks with the same weights: replicas, and the ranks that share a sample's sequence.
  bool shares_weights() const { return plan_.data * context_ranks(plan_) > 1; }

  void add_sharding() {
    job_.stated.emplace_back("parallel.shard");
    if (!shares_weights()) return;
    if (plan_.zero == 1) line("--use-distributed-optimizer");
    if (const int groups = plan_.replicas() / plan_.shard_group(); plan_.zero > 0 && groups > 1)
      line("--num-distributed-optimizer-instances {}", groups);
    if (plan_.zero < 2) return;
    line("--use-megatron-fsdp --data-parallel-sharding-strategy {} --use-distributed-optimizer",
         plan_.zero == 3 ? "optim_grads_params" : "optim_grads");
    line("--no-gradient-accumulation-fusion --ckpt-format fsdp_dtensor");
  }

  void add_overlap() {
    const Framework& framework = scenario_.framework;
    const bool chosen = plan_.zero == 0 ? framework.overlap_all_reduce : framework.overlap_reduce_scatter || plan_.zero >= 2;
    if (shares_weights() && scenario_.overlap_gradients.value_or(chosen)) {
      const bool gather = plan_.zero >= 1 && (framework.overlap_parameter_gather || plan_.zero == 3);
      line("--overlap-grad-reduce{}", gather ? " --overlap-param-gather" : "");
    }
    if (framework.overlap_tensor_collectives && plan_.tensor > 1) {
      if (plan_.sequence_parallel)
        line("--tp-comm-overlap");
      else
        cannot("tensor-parallel collectives beside products without sequence parallelism (--tp-comm-overlap needs it)");
    }
    switch (framework.attention) {
      case AttentionKernel::Unfused:
        line("--attention-backend unfused");
        break;
      case AttentionKernel::Flash1:
      case AttentionKernel::Flash2:
      case AttentionKernel::Flash3:
        line("--attention-backend flash");
        break;
      case AttentionKernel::Cudnn:
        line("--attention-backend fused");
        break;
      default:
        break;
    }
  }

  void add_recompute() {
    const Recompute mode = recompute_of(plan_, job_);
    const RecomputeScope& scope = scenario_.recompute_scope;
    if (mode == Recompute::Selective) {
      line("--recompute-granularity selective --recompute-modules {}", fmt::join(modules(), " "));
      cannot_if(scope.every > 1 || scope.first > 0, "selective recompute of some of the blocks: all blocks recompute");
    }
    if (mode != Recompute::Full) return;
    if (scope.every > 1) cannot(fmt::format("full recompute of one block in {}: all are recomputed", scope.every));
    if (scope.first > 0)
      line("--recompute-granularity full --recompute-method block --recompute-num-layers {}", scope.first);
    else
      line("--recompute-granularity full --recompute-method uniform --recompute-num-layers {}", scope.chunk);
  }
  std::vector<std::string> modules() {
    std::vector<std::string> names;
    const auto& kinds = scenario_.recompute_scope.operators;
    const auto has = [&](RecomputedKind kind) { return std::find(kinds.begin(), kinds.end(), kind) != kinds.end(); };
    if (has(RecomputedKind::Attention)) names.emplace_back("core_attn");
    if (has(RecomputedKind::Norms)) names.emplace_back("layernorm");
    if (has(RecomputedKind::Products) && has(RecomputedKind::Elementwise))
      names.emplace_back("mlp");
    else if (has(RecomputedKind::Products) || has(RecomputedKind::SecondProducts))
      cannot("recompute of products without what is between them");
    else if (has(RecomputedKind::Elementwise))
      cannot("recompute of element-wise operators alone");
    for (const RecomputedModule module : scenario_.recompute_scope.modules)
      if (const std::string name(name_of(module)); std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    if (names.empty()) names.emplace_back("core_attn");
    return names;
  }

  void add_precision() {
    if (scenario_.precision == Precision::Bf16) return line("--bf16");
    if (has_narrow_products(scenario_.precision)) return add_narrow_products();
    if (scenario_.precision == Precision::Fp16) return line("--fp16");
    if (scenario_.precision != Precision::Fp32)
      cannot(fmt::format("precision {}: it trains in fp32", name_of(scenario_.precision)));
  }

  void add_narrow_products() {
    const Framework& framework = scenario_.framework;
    const Recipe& recipe = *find_recipe(scenario_.precision, framework.fp8_scaling);
    if (recipe.megatron.empty()) {
      line("--bf16");
      return cannot(fmt::format("{}: products are in bf16", recipe.title));
    }
    const bool four = recipe.element < 1, hybrid = recipe.second == SecondCopy::Turned;
    if (four)
      line("--bf16 --fp4-format e2m1 --fp4-recipe {}", recipe.megatron);
    else
      line("--bf16 --fp8-format {}{}", hybrid ? "hybrid" : "e4m3",
           recipe.megatron == "delayed" ? "" : fmt::format(" --fp8-recipe {}", recipe.megatron));
    job_.stated.emplace_back("framework.fp8_scaling");
    // Megatron-LM refuses them under delayed scaling (transformer_config.py).
    if (recipe.megatron != "delayed") {
      if (framework.bf16_first + framework.bf16_last > 0)
        line("--first-last-layers-bf16 --num-layers-at-start-in-bf16 {} --num-layers-at-end-in-bf16 {}", framework.bf16_first,
             framework.bf16_last);
      job_.stated.insert(job_.stated.end(), {"framework.bf16_first", "framework.bf16_last"});
    }
    if (!framework.fp8_parameters || plan_.zero == 0 || !shares_weights()) return;  // needs the distributed optimizer
    line("{}", four ? "--fp4-param-gather" : "--fp8-param-gather");
    job_.stated.emplace_back("framework.fp8_parameters");
  }

  void add_optimizer() {
    const OptimizerRequest& o = scenario_.optimizer;
    if (o.name == "adam" || o.name == "adamw") {
      line("--optimizer adam");
      if (left_out_.states("optimizer.betas", "--adam-beta1, --adam-beta2"))
        line("--adam-beta1 {} --adam-beta2 {}", number_text(o.beta1), number_text(o.beta2));
      if (left_out_.states("optimizer.epsilon", "--adam-eps")) line("--adam-eps {}", number_text(o.epsilon));
    } else if (o.name == "muon") {
      add_muon(o);
    } else if (o.name == "soap") {
      line("--optimizer soap");
    } else if (o.name == "shampoo") {
      cannot("optimizer shampoo: it has Muon and SOAP");
    } else if (o.name != "none") {
      line("--optimizer sgd --sgd-momentum {}", number_text(o.momentum));
    } else {
      cannot("optimizer none: it trains with Adam");
    }
    if (o.name == "adam" && o.weight_decay > 0) cannot("Adam's coupled weight decay: Megatron-LM's is AdamW");
    if (left_out_.states("optimizer.weight_decay", "--weight-decay")) line("--weight-decay {}", number_text(o.weight_decay));
    add_rate();
    report_optimizer(scenario_, job_);
    add_states();
  }

  void add_muon(const OptimizerRequest& o) {
    line("--optimizer muon --muon-momentum {} --muon-num-ns-steps {}{} --muon-no-split-qkv", number_text(o.momentum),
         o.newton_schulz_steps, o.nesterov ? " --muon-nesterov" : "");
    line("--muon-scale-mode {}{}", o.update_scale == UpdateScale::Original ? "shape_scaling" : "spectral",
         o.update_scale == UpdateScale::MatchRms ? " --muon-extra-scale-factor 0.2" : "");
    if (plan_.tensor > 1) line("--muon-tp-mode {}", muon_tensor_mode(o.tensor_mode));
    for (const char* key : {"nesterov", "newton_schulz_steps", "update_scale", "sharding", "tensor_mode"})
      job_.stated.push_back(fmt::format("optimizer.{}", key));
    if (plan_.zero >= 2) cannot("Muon with Megatron's FSDP");
  }
  static const char* muon_tensor_mode(MatrixTensorMode mode) {
    constexpr const char* kNames[] = {"blockwise", "duplicated", "distributed", "layer_sharded"};
    return kNames[static_cast<std::size_t>(mode)];
  }

  void add_rate() {
    const TrainingRequest& t = scenario_.training;
    if (left_out_.states("training.clip_gradients", "--clip-grad")) line("--clip-grad {}", number_text(t.clip_gradients));
    if (left_out_.states("optimizer.learning_rate", "--lr")) line("--lr {}", number_text(scenario_.optimizer.learning_rate));
    if (left_out_.states("training.minimum_learning_rate", "--min-lr")) line("--min-lr {}", number_text(t.minimum_learning_rate));
    if (left_out_.states("training.decay", "--lr-decay-style")) line("--lr-decay-style {}", decay_name(t.decay));
    if (left_out_.states("training.warmup_steps", "--lr-warmup-iters")) line("--lr-warmup-iters {}", t.warmup_steps);
    if (states(scenario_, "training.decay_steps")) line("--lr-decay-iters {}", t.decay_steps);
    if (t.decay_start > t.warmup_steps) cannot("training.decay_start: the rate falls from the end of the warm-up on");
  }

  // The moments' format, and where they lie. Both need the distributed optimizer, which one replica may have too, and Adam. What
  // no argument states here is reported as a key.
  void add_states() {
    const bool adam = scenario_.optimizer.name.starts_with("adam"), alone = !shares_weights();
    const StateFormat format = scenario_.optimizer.states.value_or(StateFormat::Fp32);
    const bool narrow = format != StateFormat::Fp32 && adam && (plan_.zero >= 1 || alone) && is_mixed(scenario_.precision);
    const bool hosted = scenario_.offload.on_host_step() && adam && (plan_.zero == 1 || alone);
    if (const int blocks = scenario_.offload.blocks; blocks > 0 && plan_.pipeline == 1) {
      const int layers = layers_of_stages(request_, "Megatron-LM").front();
      line("--cpu-offloading --cpu-offloading-num-layers {}", std::min(blocks, layers));
      job_.stated.emplace_back("offload.blocks");
    }
    if (!narrow && !hosted) return;
    line("--use-precision-aware-optimizer{}", alone ? " --use-distributed-optimizer" : "");
    if (hosted) line("--optimizer-cpu-offload");
    if (hosted) job_.stated.emplace_back("offload.optimizer");
    if (!narrow) return;
    const char* type = format == StateFormat::Bf16 ? "bf16" : "fp8";
    line("--exp-avg-dtype {} --exp-avg-sq-dtype {}", type, type);
    job_.stated.emplace_back("optimizer.states");
  }
  static const char* decay_name(TrainingRequest::Decay decay) {
    using Decay = TrainingRequest::Decay;
    return decay == Decay::Linear     ? "linear"
           : decay == Decay::Cosine   ? "cosine"
           : decay == Decay::Constant ? "constant"
                                      : "inverse-square-root";
  }

  void add_data() {
    const TrainingRequest& t = scenario_.training;
    const std::int64_t least = std::max<std::int64_t>(t.warmup_steps + 1, t.decay_steps);  // as Megatron-LM asserts
    const auto steps = steps_of_run(request_);
    if (steps)
      line("--train-iters {}", std::max(*steps, least));
    else
      left_out_.add("--train-iters");
    if (steps && *steps < least)
      cannot(fmt::format("a run of {} steps beside a rate that changes over {}: it trains for {}", *steps, least, least));
    if (left_out_.states("seed", "--seed")) line("--seed {}", scenario_.seed);
    left_out_.add("--tokenizer-type");
    const std::string& file = scenario_.data.file;
    const bool binary = scenario_.data.kind == DataRequest::Kind::Tokens && file.ends_with(".bin");
    if (left_out_.states("data", "--data-path")) {
      if (binary)
        line("--data-path {}", shell_word(file.substr(0, file.size() - 4)));
      else
        line("--mock-data");
    }
    if (scenario_.data.kind == DataRequest::Kind::Tensors) cannot(fmt::format("data.tensors: {}: it trains on mock data", file));
    left_out_.report(
        "Megatron-LM does not start without --lr, --train-iters and --tokenizer-type, draws data without --data-path, and takes "
        "its own values for the rest",
        job_);
  }

  ArgumentLines lines_;
};

}  // namespace

ArgumentLines megatron_plan_lines(const ExportRequest& request) { return MegatronExport(request).plan_lines(); }

std::string layout_text(const std::vector<int>& layers) {
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += '|';
    if (layers[i] == 1) text += 't';
    if (layers[i] > 1) text += fmt::format("t*{}", layers[i]);
  }
  return text + 'L';
}

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_./:,=+-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

ExportedJob export_megatron(const ExportRequest& request) { return MegatronExport(request).job(); }

}  // namespace panpipe::jobs
