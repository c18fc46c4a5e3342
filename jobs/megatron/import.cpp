#include "jobs/megatron/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <numeric>

#include "base/error.hpp"
#include "costmodel/degrees/check_degrees.hpp"
#include "jobs/bounds.hpp"
#include "jobs/captured/captured.hpp"
#include "jobs/framework_choices.hpp"
#include "jobs/job_machine.hpp"
#include "jobs/megatron/fused_permutation.hpp"
#include "jobs/megatron/job.hpp"
#include "jobs/megatron/launch.hpp"
#include "jobs/megatron/printed_arguments.hpp"
#include "jobs/shared_keys.hpp"
#include "jobs/trainer_data.hpp"

namespace panpipe::jobs {

int MegatronJob::needed(const char* option, int at_most, const std::string& help) {
  const auto value = arguments.integer(option, 1, at_most);
  if (!value && arguments.is_unknown(option)) return 1;  // the job is refused as a whole then
  if (!value)
    throw InputError(fmt::format("{}: {} is missing", arguments.name(), option),
                     !script.remarks.empty() ? script.remarks.front()
                     : help.empty()          ? "give the arguments of pretrain_gpt.py, as a shell would pass them"
                                             : help,
                     code::kMissingKey);
  return *value;
}

namespace {

int degree(MegatronJob& m, const char* option) { return m.arguments.integer(option, 1, kMostRanks).value_or(1); }

void read_degrees(MegatronJob& m) {
  m.degrees.tensor = degree(m, "--tensor-model-parallel-size");
  m.degrees.pipeline = degree(m, "--pipeline-model-parallel-size");
  m.degrees.context =
      degree(m, m.arguments.has("--ds-sequence-parallel-size") ? "--ds-sequence-parallel-size" : "--context-parallel-size");
  m.degrees.expert =
      degree(m, m.arguments.has("--moe-expert-parallel-size") ? "--moe-expert-parallel-size" : "--expert-model-parallel-size");
  long long ranks = static_cast<long long>(m.degrees.tensor) * m.degrees.pipeline;
  if (ranks > kMostRanks)
    m.arguments.refuse("--pipeline-model-parallel-size",
                       fmt::format("x tensor {} are {} ranks, more than {}", m.degrees.tensor, ranks, kMostRanks));
  ranks *= m.degrees.context;
  if (ranks > kMostRanks)
    m.arguments.refuse("--context-parallel-size", fmt::format("x tensor {} x pipeline {} are {} ranks, more than {}",
                                                              m.degrees.tensor, m.degrees.pipeline, ranks, kMostRanks));
}

// The fewest ranks that hold the model: one replica, or more where experts are divided over the ranks of several.
long long fewest_ranks(MegatronJob& m) {
  const long long replica = m.degrees.device_count(), inner = static_cast<long long>(m.degrees.tensor) * m.degrees.context;
  const long long experts = static_cast<long long>(m.degrees.expert) *
                            m.arguments.integer("--expert-tensor-parallel-size", 1, kMostRanks).value_or(m.degrees.tensor);
  return m.degrees.expert == 1 ? replica : replica * (experts / std::gcd(experts, inner));
}

// A launch script that states one node, and a model that needs more, is a template: its owner states the nodes elsewhere.
void widen(MegatronJob& m, JobMachine& machine) {
  const long long fewest = fewest_ranks(m), nodes = std::lcm<long long>(fewest, machine.per_node) / machine.per_node;
  if (machine.gpus != machine.per_node || machine.gpus >= fewest || nodes * machine.per_node > kMostRanks) return;
  m.job.assumptions.push_back(
      fmt::format("{} nodes of {} GPUs, the fewest that hold the model: the script states one, which does not; --gpus N states "
                  "another number.",
                  nodes, machine.per_node));
  machine.gpus = static_cast<int>(nodes) * machine.per_node;
  machine.origin = "assumed";
}

JobMachine read_machine(MegatronJob& m) {
  Arguments& a = m.arguments;
  JobMachine machine;
  if (m.options.gpus) {
    for (const char* launcher : {"--nnodes", "--nproc-per-node", "--world-size", "--num-gpus", "--num-nodes"}) a.ignore(launcher);
    machine.gpus = *m.options.gpus, machine.origin = m.options.gpus_origin;
  } else if (a.has("--nnodes") || a.has("--nproc-per-node")) {
    machine.per_node = a.integer("--nproc-per-node", 1, 1 << 10).value_or(kGpusOfANode);
    machine.gpus = machine.per_node * a.integer("--nnodes", 1, kMostRanks).value_or(1);
    machine.origin = "--nnodes x --nproc_per_node";
    widen(m, machine);
  } else if (a.has("--num-gpus") || a.has("--num-nodes")) {  // the launcher of DeepSpeed
    machine.per_node = a.integer("--num-gpus", 1, 1 << 10).value_or(kGpusOfANode);
    machine.gpus = machine.per_node * a.integer("--num-nodes", 1, kMostRanks).value_or(1);
    machine.origin = "--num_nodes x --num_gpus";
  } else if (const auto world = a.integer("--world-size", 1, kMostRanks)) {
    machine.gpus = *world, machine.origin = "--world-size";
  } else if (m.script.nodes > 0 && m.script.gpus_per_node > 0 && m.script.gpus_per_node <= (1 << 10)) {
    machine.per_node = m.script.gpus_per_node;
    machine.gpus = machine.per_node * m.script.nodes;
    machine.origin = "#SBATCH lines";
  } else {
    machine = assumed_machine(m.job, static_cast<int>(std::min<long long>(fewest_ranks(m), kMostRanks)));
  }
  machine.cluster = m.options.cluster;
  return machine;
}

void read_sharding(MegatronJob& m) {
  const bool distributed = m.arguments.flag("--use-distributed-optimizer");
  bool fsdp = false;
  for (const char* flag : {"--use-custom-fsdp", "--use-megatron-fsdp", "--use-torch-fsdp2"}) fsdp |= m.arguments.flag(flag);
  const std::string strategy = m.arguments.text("--data-parallel-sharding-strategy").value_or("optim_grads_params");
  if (!fsdp || strategy == "no_shard") {
    if (distributed) m.job.set("parallel.zero", 1, "--use-distributed-optimizer");
    return;
  }
  m.job.set("parallel.zero", strategy == "optim" ? 1 : strategy == "optim_grads" ? 2 : 3, "--data-parallel-sharding-strategy");
}

// Arguments that divide experts, and those that limit their tokens.
void read_expert_degrees(MegatronJob& m) {
  const int width = m.arguments.integer("--expert-tensor-parallel-size", 1, kMostRanks).value_or(m.degrees.tensor);
  if (width != m.degrees.tensor && width != 1)
    m.job.not_modelled.push_back(
        fmt::format("--expert-tensor-parallel-size {} (experts are cut like the rest, {})", width, m.degrees.tensor));
  else if (width != m.degrees.tensor)
    m.degrees.expert_tensor = width;
  for (const DegreeProblem& problem : check_degrees(m.degrees))
    m.arguments.refuse("--expert-model-parallel-size", fmt::format("is {}: {}", m.degrees.expert, problem.message), problem.help);
  put_expert(m.job, m.degrees.expert, m.degrees.expert_tensor, "--expert-model-parallel-size");
  const auto capacity = m.arguments.number("--moe-expert-capacity-factor");
  const bool padded = m.arguments.flag("--moe-pad-expert-input-to-capacity");
  if (capacity) put_capacity(m.job, *capacity, padded, "--moe-expert-capacity-factor");
}

// How keys and values travel: one type for all layers. Without context parallelism the argument moves nothing.
void read_context(MegatronJob& m) {
  if (m.degrees.context == 1) return;
  const std::vector<std::string> types = m.arguments.list("--cp-comm-type");
  std::string exchange;
  if (types.size() == 1 && types[0] == "p2p") exchange = "ring";
  if (types.size() == 1 && (types[0] == "all_gather" || types[0] == "allgather")) exchange = "all-gather";
  if (types.size() == 1 && types[0] == "a2a") exchange = "ulysses";
  if (m.arguments.has("--ds-sequence-parallel-size"))  // DeepSpeed's Ulysses
    return put_context(m.job, m.degrees.context, "--ds-sequence-parallel-size", "ulysses");
  if (!types.empty() && exchange.empty())
    m.job.not_modelled.push_back(one_line(fmt::format("--cp-comm-type {}", fmt::join(types, " "))) + " (predicted as a ring)");
  put_context(m.job, m.degrees.context, exchange.empty() ? "--context-parallel-size" : "--context-parallel-size, --cp-comm-type",
              exchange);
}

void read_parallel(MegatronJob& m) {
  read_degrees(m);
  const JobMachine machine = read_machine(m);
  const std::string degrees =
      fmt::format("tensor {} x pipeline {} x context {}", m.degrees.tensor, m.degrees.pipeline, m.degrees.context);
  m.degrees.data = replicas_of(m.job, machine, m.degrees.device_count(), degrees);
  put_cluster(m.job, machine);
  m.job.set("parallel.pipeline", m.degrees.pipeline, "--pipeline-model-parallel-size");
  m.job.set("parallel.tensor", m.degrees.tensor, "--tensor-model-parallel-size");
  m.job.set("parallel.data", m.degrees.data,
            fmt::format("{} GPUs / (tensor x pipeline{})", machine.gpus, m.degrees.context > 1 ? " x context" : ""));
  read_context(m);
  read_expert_degrees(m);
  if (m.arguments.flag("--use-tp-pp-dp-mapping") && m.degrees.pipeline > 1 && m.degrees.data > 1)
    m.job.set("placement",
              fmt::format("[{}]", fmt::join(devices_of_replicas_in_a_row(m.degrees.tensor * m.degrees.context, m.degrees.data,
                                                                         m.degrees.pipeline),
                                            ", ")),
              "--use-tp-pp-dp-mapping: the ranks of a replica are neighbours");
  if (m.arguments.flag("--sequence-parallel")) m.job.set("parallel.sequence_parallel", "true", "--sequence-parallel");
  read_sharding(m);
}

void read_batch(MegatronJob& m) {
  // Before 2021 Megatron-LM called it so.
  const char* option =
      m.arguments.has("--batch-size") && !m.arguments.has("--micro-batch-size") ? "--batch-size" : "--micro-batch-size";
  if (m.options.micro)
    m.arguments.ignore(option), m.job.set("batch.micro", *m.options.micro, "--micro");
  else
    m.job.set("batch.micro", m.needed(option, kMostSamples, "--micro N states the samples of a microbatch"), option);
  if (const auto global = m.arguments.integer("--global-batch-size", 1, kMostSamples))
    m.job.set("batch.global", *global, "--global-batch-size");
  else
    m.job.set("batch.microbatches", 1, "--global-batch-size is missing: micro batch x data");
}

void read_precision(MegatronJob& m) {
  Arguments& a = m.arguments;
  const bool bf16 = a.flag("--bf16"), fp16 = a.flag("--fp16");
  if (bf16 && fp16) a.refuse("--fp16", "contradicts --bf16");
  if (a.flag("--fp8-format") || a.flag("--fp8-hybrid")) {
    const std::string recipe = a.text("--fp8-recipe").value_or("delayed");
    for (const char* known : {"--fp8-amax-history-len", "--fp8-amax-compute-algo", "--fp8-margin", "--fp8-interval"})
      a.flag(known);
    return m.job.set("precision", recipe == "mxfp8" ? "mxfp8" : "fp8", fmt::format("--fp8-format (recipe {})", recipe));
  }
  if (bf16) return m.job.set("precision", "bf16", "--bf16");
  if (fp16) return m.job.set("precision", "fp16", "--fp16");
  if (!m.deepspeed_precision.empty()) return m.job.set("precision", m.deepspeed_precision, "--deepspeed_config");
  m.job.set("precision", "fp32", "neither --bf16 nor --fp16");
}

// Both moments in one format: the key `states`. Without the flag Megatron-LM keeps them in fp32.
std::string states_of_optimizer(MegatronJob& m) {
  if (!m.arguments.flag("--use-precision-aware-optimizer")) return "fp32";
  const std::string first = m.arguments.text("--exp-avg-dtype").value_or("fp32"),
                    second = m.arguments.text("--exp-avg-sq-dtype").value_or("fp32");
  const auto narrow = [](const std::string& type) { return type == "fp8" || type == "uint8"; };
  if (first == second && (first == "fp32" || first == "bf16")) return first;
  if (narrow(first) && narrow(second)) return "8bit";
  m.job.not_modelled.push_back(one_line(fmt::format("--exp-avg-dtype {} --exp-avg-sq-dtype {}", first, second)) +
                               " (predicted in fp32)");
  return "fp32";
}

void read_optimizer(MegatronJob& m) {
  const double share = m.arguments.number("--optimizer-offload-fraction").value_or(1);
  if (m.arguments.flag("--optimizer-cpu-offload"))
    put_offload(m.job, "optimizer", share == 1 ? "cpu" : fmt::format("{} of it in the host's memory", share),
                "--optimizer-cpu-offload");
  const std::string name = m.arguments.text("--optimizer").value_or("adam");
  if (name != "adam" && name != "sgd") {
    m.job.not_modelled.push_back("--optimizer " + name);
    return;
  }
  const std::string states = name == "adam" ? states_of_optimizer(m) : "fp32";
  if (states != "fp32")
    return m.job.set("optimizer", fmt::format("{{name: adamw, states: {}}}", states), "--exp-avg-dtype, --exp-avg-sq-dtype");
  m.job.set("optimizer", name == "adam" ? "adamw" : "sgd", m.arguments.has("--optimizer") ? "--optimizer" : "Megatron's default");
}

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
  if (m.fused_permutation)
    framework.choose(fmt::format("expert_forward_operators: {}, expert_backward_operators: {}", kFusedForward, kFusedBackward),
                     "--moe-permute-fusion");
  // Nothing inside a graph can wait for the host.
  if (const ShellWord* graph = m.arguments.word("--cuda-graph-impl"); graph != nullptr && graph->text == "full_iteration")
    framework.choose("expert_counts: device", "--cuda-graph-impl full_iteration");
}

void read_framework(MegatronJob& m) {
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
  bool unfused = false;
  for (const char* flag : {"--no-bias-gelu-fusion", "--no-bias-swiglu-fusion", "--no-bias-dropout-fusion"})
    unfused |= a.flag(flag);
  if (unfused) framework.choose("elementwise: eager", "--no-bias-...-fusion");
  if (a.flag("--grad-reduce-in-bf16")) framework.choose("gradient_bytes: 2", "--grad-reduce-in-bf16");
  if (a.flag("--fp8-param-gather")) framework.choose("fp8_parameters: true", "--fp8-param-gather");
  // As the preset has it.
  for (const char* known : {"--accumulate-allreduce-grads-in-fp32", "--no-masked-softmax-fusion", "--no-rope-fusion",
                            "--cross-entropy-loss-fusion", "--bias-gelu-fusion"})
    a.flag(known);
  framework.put(m.job);
}

// Runs a part of the import; while something is not known, a fault may only follow from that.
void attempt(MegatronJob& m, void (*part)(MegatronJob&), std::exception_ptr& fault) {
  try {
    part(m);
  } catch (const InputError&) {
    if (!fault) fault = std::current_exception();
  }
}

ImportedJob read_arguments(Arguments& arguments, const JobOptions& options, MegatronLaunches script) {
  const UnreadKeys known = unread_keys("megatron-core");
  MegatronJob megatron{arguments, options, std::move(script)};
  megatron.job.trainer = "Megatron-LM";
  megatron.job.source = arguments.name();
  std::exception_ptr fault;
  read_deepspeed_config(megatron);
  for (const auto part : {read_parallel, read_megatron_model, read_batch, read_precision, read_megatron_stages,
                          read_megatron_recompute, read_optimizer, read_framework})
    attempt(megatron, part, fault);
  ImportedJob& job = megatron.job;
  for (std::string& left : arguments.take(known.not_modelled)) job.not_modelled.push_back(std::move(left));
  job.without_effect = arguments.take(known.without_effect);
  job.not_understood = arguments.rest();
  job.unknown = arguments.unknown();
  if (fault && job.unknown.empty()) std::rethrow_exception(fault);
  return std::move(job);
}

ImportedJob read_launch(const Launch& launch, const MegatronLaunches& script, const std::string& name,
                        const JobOptions& options) {
  Arguments arguments(launch.words, name, argument_forms("megatron-core"));
  ImportedJob job = read_arguments(arguments, options, script);
  for (const std::string& remark : script.remarks) job.assumptions.push_back(remark + ".");
  for (const std::string& sentence : launch.assumed) job.assumptions.push_back(sentence);
  job.launch = launch.words;
  return job;
}

std::string values_text(const ImportedJob& job) {
  std::string text;
  for (const ImportedValue& value : job.values) text += value.key + ": " + value.value + "\n";
  return text;
}

// What tells two launches apart: the first values that differ.
std::string difference(const ImportedJob& from, const ImportedJob& job) {
  std::string text;
  for (const ImportedValue& value : job.values) {
    const auto same = [&](const ImportedValue& other) { return other.key == value.key && other.value == value.value; };
    if (std::any_of(from.values.begin(), from.values.end(), same) || value.key == "workload.config") continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", value.key, one_line(value.value));
    if (text.size() > 60) break;
  }
  return text.empty() ? "another model" : text;
}

struct Found {
  ImportedJob job;
  int line;
  bool unlikely;  // Launch::unlikely
};

[[noreturn]] void refuse_choice(const std::vector<Found>& jobs, const std::string& name) {
  std::string list;
  for (std::size_t i = 0; i < jobs.size() && i < 8; ++i)
    list += fmt::format("\n  {}: line {}{}", i + 1, jobs[i].line, i == 0 ? "" : ": " + difference(jobs[0].job, jobs[i].job));
  throw InputError(fmt::format("{}: {} commands train with different arguments{}", name, jobs.size(), list),
                   "choose one: --launch N, or --define NAME=VALUE where a loop or a condition makes them", code::kConflict);
}

// What decides which of the commands are run, where that is not known.
std::vector<UnknownName> conditions_of(const MegatronLaunches& found) {
  std::vector<UnknownName> names;
  for (const Launch& launch : found.launches)
    for (const UnknownName& name : launch.depends) {
      const auto same = [&](const UnknownName& other) { return other.name == name.name; };
      const bool variable = name.name.find_first_of(" $<[") == std::string::npos;
      if (variable && std::none_of(names.begin(), names.end(), same)) names.push_back(name);
    }
  return names;
}

ImportedJob import_words(const CapturedJob& captured, const std::string& trainer, const std::string& name,
                         const JobOptions& options) {
  JobOptions mine = options;
  apply_captured(captured, trainer, name, mine);
  return import_megatron(Arguments(shell_words(captured.words.value_or(""), name), name), mine);
}

}  // namespace

ImportedJob import_nemo(const std::string& text, const std::string& name, const JobOptions& options) {
  if (const auto captured = captured_job(text, name)) return import_words(*captured, "nemo", name, options);
  throw InputError(fmt::format("{}: a recipe is a program; nothing is run here", name),
                   "python -m panpipe.capture nemo --recipe NAME prints what it makes, for import");
}

ImportedJob import_megatron(Arguments arguments, const JobOptions& options) {
  ImportedJob job = read_arguments(arguments, options, {});
  if (!job.unknown.empty() && !options.keeps_unknown) refuse_unknown(job);
  return job;
}

ImportedJob import_megatron(const std::string& text, const std::string& name, const JobOptions& options) {
  if (const auto captured = captured_job(text, name)) return import_words(*captured, "megatron-core", name, options);
  if (const std::size_t printed = text.find("- arguments -"); printed != std::string::npos) {
    const std::size_t end = text.find("- end of arguments -", printed);
    const auto line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(printed), '\n'));
    return import_printed_megatron(text.substr(printed, end == std::string::npos ? end : end - printed), name, line, options);
  }
  const MegatronLaunches found = megatron_launches(text, name, options);
  std::vector<Found> jobs;
  std::exception_ptr fault;
  for (const Launch& launch : found.launches) {
    try {
      ImportedJob job = read_launch(launch, found, name, options);
      const auto same = [&](const Found& other) { return values_text(other.job) == values_text(job); };
      const auto known = std::find_if(jobs.begin(), jobs.end(), same);
      if (known == jobs.end())
        jobs.push_back({std::move(job), launch.line, launch.unlikely});
      else if (known->unlikely && !launch.unlikely)
        *known = {std::move(job), launch.line, false};
    } catch (const InputError&) {
      fault = std::current_exception();
    }
  }
  if (jobs.empty()) std::rethrow_exception(fault);
  if (options.launch && static_cast<std::size_t>(*options.launch) > jobs.size())
    throw InputError(fmt::format("--launch {}: {} has {} commands that train differently", *options.launch, name, jobs.size()));
  const std::vector<UnknownName> conditions =
      options.launch || jobs.size() < 2 ? std::vector<UnknownName>() : conditions_of(found);
  if (!options.launch && jobs.size() > 1 && conditions.empty()) refuse_choice(jobs, name);
  ImportedJob job = std::move(jobs[options.launch ? static_cast<std::size_t>(*options.launch) - 1 : 0].job);
  job.unknown.insert(job.unknown.begin(), conditions.begin(), conditions.end());
  if (!job.unknown.empty() && !options.keeps_unknown) refuse_unknown(job);
  return job;
}

}  // namespace panpipe::jobs
