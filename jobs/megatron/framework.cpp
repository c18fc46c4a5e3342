// The trainer of a Megatron-LM job, and the choices of its framework that arguments show.
#include <fmt/format.h>

#include <optional>

#include "jobs/framework_choices.hpp"
#include "jobs/megatron/fused_permutation.hpp"
#include "jobs/megatron/job.hpp"

namespace panpipe::jobs {
namespace {

// By arguments that Megatron-Core has no more.
FrameworkChoices framework_of(MegatronJob& m) {
  Arguments& a = m.arguments;
  if (m.options.captured_trainer == "nemo") return {"nemo", "a recipe of Megatron-Bridge"};
  bool deepspeed = a.flag("--deepspeed"), older = false;
  std::optional<int> stage = a.integer("--zero-stage", 0, 3);
  if (deepspeed && m.deepspeed_zero) stage = m.deepspeed_zero;
  if (stage && *stage > 0) m.job.set("parallel.zero", *stage, m.deepspeed_zero ? "--deepspeed_config" : "--zero-stage");
  for (const char* option : {"--DDP-impl", "--activations-checkpoint-method", "--checkpoint-activations"}) older |= a.has(option);
  if (a.text("--DDP-impl").value_or("local") == "FSDP") m.job.not_modelled.emplace_back("--DDP-impl FSDP");
  if (a.flag("--gpt-neox")) return {"gpt-neox", "the arguments are GPT-NeoX's"};
  if (deepspeed) return {"megatron-deepspeed", "--deepspeed: Megatron-LM of 2021 with DeepSpeed"};
  if (older) return {"megatron-core", "Megatron-LM of 2021, by --DDP-impl or --activations-checkpoint-method", "megatron"};
  return {"megatron-core", "Megatron-Core with Transformer Engine"};
}

// How experts' products and rows are launched, against the preset, which groups products and fuses no permutation.
void choose_experts(const MegatronJob& m, FrameworkChoices& framework) {
  if (m.dispatcher.empty()) return;
  if (m.dispatcher == "flex")
    framework.choose("expert_dispatch: nodes", "--moe-token-dispatcher-type flex");
  else if (m.expert_groups > 1)
    framework.choose("expert_dispatch: rows", "--moe-token-dispatcher-type alltoall");
  if (framework.trainer() != "megatron-core") return;
  if (!m.grouped_products) framework.choose("expert_products: loop", "no --moe-grouped-gemm");
  if (m.fused_permutation) {
    const Framework fused = with_fused_permutation();
    framework.choose(fmt::format("expert_forward_operators: {}, expert_backward_operators: {}", fused.expert_forward_operators,
                                 fused.expert_backward_operators),
                     "--moe-permute-fusion");
  }
}

// Parts of layers that a scope names are not told apart; nothing inside a graph of all passes can wait for the host.
void choose_graphs(MegatronJob& m, FrameworkChoices& framework) {
  const std::string graphs = m.arguments.text("--cuda-graph-impl").value_or("none");
  if (framework.trainer() != "megatron-core" || graphs == "none") return;
  const bool full = graphs == "full_iteration";
  framework.choose(full ? "cuda_graphs: full" : "cuda_graphs: layers", "--cuda-graph-impl " + graphs);
  if (full && !m.dispatcher.empty()) framework.choose("expert_counts: device", "--cuda-graph-impl full_iteration");
}

void choose_recipe(MegatronJob& m, FrameworkChoices& framework) {
  Arguments& a = m.arguments;
  const auto number = [&](const char* option) { return a.integer(option, 0, 1 << 20).value_or(1); };
  if (m.recipe != nullptr && m.recipe->scaling != Fp8Scaling::Delayed)
    framework.choose(fmt::format("fp8_scaling: {}", name_of(m.recipe->scaling)),
                     fmt::format("--fp8-recipe {}", m.recipe->megatron));
  for (const char* gathered : {"--fp8-param-gather", "--fp4-param-gather"})
    if (a.flag(gathered)) framework.choose("fp8_parameters: true", gathered);
  const bool some = a.flag("--first-last-layers-bf16");
  const auto first = number("--num-layers-at-start-in-bf16"), last = number("--num-layers-at-end-in-bf16");
  if (some) framework.choose(fmt::format("bf16_first: {}, bf16_last: {}", first, last), "--first-last-layers-bf16");
}

}  // namespace

void read_megatron_framework(MegatronJob& m) {
  Arguments& a = m.arguments;
  FrameworkChoices framework = framework_of(m);
  const std::string backend = a.text("--attention-backend").value_or("");
  const bool flash = a.flag("--use-flash-attn") || backend == "flash";
  const bool local = a.text("--transformer-impl").value_or("transformer_engine") == "local";
  if (flash) framework.choose("attention: flash-2", "--use-flash-attn");
  if (backend == "fused") framework.choose("attention: cudnn", "--attention-backend fused");
  if (backend == "unfused" || (local && !flash && backend != "fused"))
    framework.choose("attention: unfused", backend.empty() ? "--transformer-impl local" : "--attention-backend unfused");
  if (a.flag("--overlap-grad-reduce"))
    framework.choose("overlap_all_reduce: true, overlap_reduce_scatter: true", "--overlap-grad-reduce");
  if (a.flag("--overlap-param-gather")) framework.choose("overlap_parameter_gather: true", "--overlap-param-gather");
  if (a.flag("--tp-comm-overlap")) framework.choose("overlap_tensor_collectives: true", "--tp-comm-overlap");
  choose_experts(m, framework);
  choose_graphs(m, framework);
  bool unfused = false;
  for (const char* flag : {"--no-bias-gelu-fusion", "--no-bias-swiglu-fusion", "--no-bias-dropout-fusion"})
    unfused |= a.flag(flag);
  if (unfused) framework.choose("elementwise: eager", "--no-bias-...-fusion");
  if (a.flag("--grad-reduce-in-bf16")) framework.choose("gradient_bytes: 2", "--grad-reduce-in-bf16");
  choose_recipe(m, framework);
  // As the preset has it.
  for (const char* known : {"--accumulate-allreduce-grads-in-fp32", "--no-masked-softmax-fusion", "--no-rope-fusion",
                            "--cross-entropy-loss-fusion", "--bias-gelu-fusion"})
    a.flag(known);
  framework.put(m.job);
}

}  // namespace panpipe::jobs
