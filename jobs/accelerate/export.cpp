// A plan as the file that `accelerate launch --config_file` takes.
#include <fmt/format.h>

#include "base/error.hpp"
#include "costmodel/workload/language_model.hpp"
#include "jobs/export_parts.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

class AccelerateExport : ConfigurationExport {
 public:
  using ConfigurationExport::ConfigurationExport;

  ExportedJob job() {
    check();
    const Machines machines = machines_of(request_);
    set("compute_environment", "LOCAL_MACHINE");
    set("distributed_type", deepspeed() ? "DEEPSPEED" : fsdp() ? "FSDP" : plan_.data > 1 ? "MULTI_GPU" : "\"NO\"");
    set("num_machines", machines.nodes);
    set("num_processes", std::to_string(plan_.devices.size()));
    if (machines.nodes > 1) left_out_.add("main_process_ip");
    add_precision();
    if (deepspeed())
      add_deepspeed();
    else if (fsdp())
      add_fsdp();
    if (scenario_.framework.elementwise == Elementwise::Compiled) set("dynamo_config.dynamo_backend", "INDUCTOR");
    report_script();
    left_out_.report("accelerate launch asks for it", job_);
    report_the_rest(request_, job_);
    job_.besides.emplace_back("accelerate launch --config_file FILE train.py, on each machine with its --machine_rank.");
    job_.text = head_text(request_, "A configuration for Accelerate", job_, "# ") + yaml_text(settings_);
    return std::move(job_);
  }

 private:
  bool shared() const { return plan_.replicas() > 1; }
  // Its kernels are the plan's, or ZeRO 1, which nothing else has.
  bool deepspeed() const { return scenario_.framework.name == "deepspeed" || (shared() && plan_.zero == 1); }
  bool fsdp() const { return shared() && plan_.zero >= 2 && !deepspeed(); }

  // ParallelismConfig and `accelerate launch` take other degrees with FSDP 2 alone, which needs something to divide over.
  void check() const {
    if (plan_.tensor * plan_.context > 1 && !fsdp())
      refuse(fmt::format("Accelerate has tensor and context parallelism with FSDP alone, and the plan has tensor {}, context {} "
                         "without",
                         plan_.tensor, plan_.context),
             "state parallel.zero 2 or 3 and more than one replica; a DeepSpeed job is exported by panpipe export deepspeed");
  }

  void add_precision() {
    const Precision precision = scenario_.precision;
    const bool known = precision == Precision::Fp32 || precision == Precision::Bf16 || precision == Precision::Fp16 ||
                       precision == Precision::Fp8;
    cannot_if(!known, fmt::format("precision {}", name_of(precision)));
    const Precision outside = outside_products(precision);
    set("mixed_precision", precision == Precision::Fp8    ? "fp8"
                           : outside == Precision::Bf16   ? "bf16"
                           : precision == Precision::Fp16 ? "fp16"
                                                          : "\"no\"");
  }

  void add_deepspeed() {
    cannot_if(scenario_.framework.name != "deepspeed", "ZeRO 1 with PyTorch's kernels: it is DeepSpeed's");
    const std::string in = "deepspeed_config.";
    set(in + "zero_stage", shared() ? plan_.zero : 0);
    set(in + "gradient_accumulation_steps", plan_.schedule.microbatches);
    if (states(scenario_, "training.clip_gradients"))
      set(in + "gradient_clipping", yaml_number(scenario_.training.clip_gradients));
    set(in + "offload_optimizer_device", scenario_.offload.on_host_step() ? "cpu" : "none");
    set(in + "offload_param_device", scenario_.offload.parameters && plan_.zero == 3 ? "cpu" : "none");
    if (!scenario_.offload.streams) job_.stated.emplace_back("offload.optimizer");
    if (plan_.zero == 3) job_.stated.emplace_back("offload.parameters");
  }

  void add_fsdp() {
    const std::string in = "fsdp_config.";
    set(in + "fsdp_version", "2");
    set(in + "fsdp_reshard_after_forward", flag_text(plan_.zero == 3));
    set(in + "fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    ExportedJob ignored;
    set(in + "fsdp_activation_checkpointing", flag_text(recompute_of(plan_, ignored) == Recompute::Full));
    const bool both = scenario_.offload.on_host_step() && scenario_.offload.parameters && plan_.zero == 3;
    set(in + "fsdp_offload_params", flag_text(both));
    if (both) job_.stated.insert(job_.stated.end(), {"offload.optimizer", "offload.parameters"});
    add_axes();
  }

  // Ranks that share a sequence join the mesh of FSDP by themselves.
  void add_axes() {
    const int group = plan_.shard_group(), context = plan_.context;
    const bool hybrid = group < plan_.replicas();
    if (plan_.tensor * context == 1 && !hybrid) return;
    if (group % context != 0 || plan_.data % (group / context) != 0)
      refuse(fmt::format("Accelerate divides over replicas times context {}, and the plan's shard groups have {} ranks", context,
                         group),
             fmt::format("state a parallel.shard that {} divides", context));
    const std::string in = "parallelism_config.parallelism_config_";
    set(in + "dp_replicate_size", plan_.data * context / group);
    set(in + "dp_shard_size", group / context);
    set(in + "tp_size", plan_.tensor);
    set(in + "cp_size", context);
    if (context > 1) {
      const bool gathers = scenario_.context_exchange == ContextExchange::AllGather;
      set(in + "cp_comm_strategy", gathers ? "allgather" : "alltoall");
      cannot_if(scenario_.context_exchange == ContextExchange::Ulysses,
                "parallel.context_exchange ulysses: keys and values go around in a ring");
    }
    job_.stated.insert(job_.stated.end(), {"parallel.shard", "parallel.context", "parallel.context_exchange"});
    cannot_if(plan_.tensor > 1 && plan_.sequence_parallel, "sequence parallelism");
  }

  // What the configuration has no key for: the training script's.
  void report_script() {
    const Recompute recompute = recompute_of_blocks();
    report_optimizer(scenario_, job_);
    std::string words = fmt::format("batches of {}", plan_.micro);
    if (const auto model = language_model_of(scenario_.workload))
      words += fmt::format(" sequences of {} tokens", model->dimensions.sequence);
    if (!deepspeed()) words += fmt::format(", Accelerator(gradient_accumulation_steps={})", plan_.schedule.microbatches);
    if (recompute == Recompute::Full && !fsdp()) words += ", model.gradient_checkpointing_enable()";
    if (states(scenario_, "training.clip_gradients") && scenario_.training.clip_gradients > 0 && !deepspeed())
      words += fmt::format(", accelerator.clip_grad_norm_(parameters, {})", number_text(scenario_.training.clip_gradients));
    if (const auto steps = steps_of_run(request_)) words += fmt::format(", {} steps", *steps);
    job_.besides.push_back(fmt::format("In code: {}, the model ({}), its data, and {} with its rate.", words,
                                       request_.experiment.workload.name, scenario_.optimizer.name));
  }
};

}  // namespace

ExportedJob export_accelerate(const ExportRequest& request) { return AccelerateExport(request).job(); }

}  // namespace panpipe::jobs
