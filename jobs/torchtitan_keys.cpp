#include "jobs/torchtitan_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "jobs/job.hpp"

namespace panpipe::jobs {
namespace {

bool is_option_word(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

// "--activation-checkpoint.no-early-stop": underscores, and `no_` in front of the last part switches off.
void set_switch(JobKeys& keys, const std::string& path) {
  const std::size_t point = path.rfind('.');
  const std::size_t last = point == std::string::npos ? 0 : point + 1;
  if (path.compare(last, 3, "no_") == 0)
    keys.replace(path.substr(0, last) + path.substr(last + 3), "false");
  else
    keys.replace(path, "true");
}

}  // namespace

void override_torchtitan_keys(JobKeys& keys, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_option_word(words[i]))
      throw InputError(fmt::format("'{}' is no option of torchtitan", one_line(words[i])),
                       "behind the file stand overrides such as --parallelism.tensor_parallel_degree 2");
    const std::size_t equals = words[i].find('=');
    std::string path = words[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(path.begin(), path.end(), '-', '_');
    if (path.find('.') == std::string::npos)
      throw InputError(fmt::format("'--{}' is no option of torchtitan, whose options are SECTION.KEY", one_line(path)),
                       "options of this command stand before them too; panpipe import torchtitan --help lists these");
    if (equals != std::string::npos)
      keys.replace(path, words[i].substr(equals + 1));
    else if (i + 1 < words.size() && !is_option_word(words[i + 1]))
      keys.replace(path, words[++i]);
    else
      set_switch(keys, path);
  }
}

// Fields of JobConfig in all releases that read TOML. A star stands for a section none of whose keys is modelled; in the other
// sections a name that is none of these is not understood.
const std::vector<std::string>& torchtitan_keys_not_modelled() {
  static const std::vector<std::string> names = {"training.enable_cpu_offload",
                                                 "training.deterministic",
                                                 "training.mixed_precision_reduce",
                                                 "training.disable_loss_parallel",
                                                 "training.enable_loss_parallel",
                                                 "debug.deterministic",
                                                 "debug.moe_force_load_balance",
                                                 "training.debug_moe_force_load_balance",
                                                 "optimizer.early_step_in_backward",
                                                 "parallelism.disable_loss_parallel",
                                                 "parallelism.enable_compiled_autograd",
                                                 "parallelism.pipeline_parallel_split_points",
                                                 "parallelism.module_fqns_per_model_part",
                                                 "parallelism.pipeline_parallel_schedule_csv",
                                                 "parallelism.pipeline_parallel_microbatches",
                                                 "parallelism.pipeline_parallel_expert_parallel_overlap",
                                                 "parallelism.expert_parallel_comm_backend",
                                                 "parallelism.context_parallel_load_balancer",
                                                 "activation_checkpoint.memory_budget",
                                                 "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
                                                 "compile.enable",
                                                 "compile.components",
                                                 "compile.backend",
                                                 "float8.*",
                                                 "mx.*",
                                                 "quantize.*",
                                                 "experimental.torch_spmd",
                                                 "experimental.custom_args_module",
                                                 "experimental.custom_import",
                                                 "experimental.custom_model_path",
                                                 "experimental.enable_async_tensor_parallel",
                                                 "experimental.enable_compiled_autograd",
                                                 "memory_estimation.*",
                                                 "fault_tolerance.*",
                                                 "deepep.*",
                                                 "model.converters",
                                                 "model.attn_mask_type",
                                                 "model.use_flex_attn",
                                                 "model.norm_type"};
  return names;
}

const std::vector<std::string>& torchtitan_keys_without_effect() {
  static const std::vector<std::string> names = {
      "job.*", "profiling.*", "metrics.*", "lr_scheduler.*", "checkpoint.*", "comm.*", "validation.*", "hf_transformers.*",
      "optimizer.lr", "optimizer.beta1", "optimizer.beta2", "optimizer.eps", "optimizer.weight_decay", "optimizer.fused",
      "model.tokenizer_path", "model.hf_assets_path", "model.print_after_conversion", "training.dataset", "training.dataset_path",
      "training.dataset_config", "training.steps", "training.gc_freq", "training.gc_debug", "training.seed",
      "training.warmup_steps", "training.dataloader.*", "debug.seed", "debug.deterministic_warn_only",
      "activation_checkpoint.preserve_rng_state", "activation_checkpoint.determinism_check", "activation_checkpoint.debug",
      "activation_checkpoint.early_stop", "activation_checkpoint.visualize_memory_budget_pareto", "model.name", "model.flavor",
      // Without a pipeline; with one they are read.
      "parallelism.pipeline_parallel_schedule", "parallelism.pipeline_parallel_microbatch_size",
      "parallelism.pipeline_parallel_layers_per_stage", "parallelism.pipeline_parallel_first_stage_less_layers",
      "parallelism.pipeline_parallel_last_stage_less_layers"};
  return names;
}

}  // namespace panpipe::jobs
