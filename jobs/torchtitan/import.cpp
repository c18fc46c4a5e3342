// torchtitan's configuration as a scenario: TOML of releases until February 2026, then a registry in Python, or a capture.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/trimmed.hpp"
#include "costmodel/profile/recipe.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "jobs/bounds.hpp"
#include "jobs/captured/captured.hpp"
#include "jobs/framework_choices.hpp"
#include "jobs/toml_document.hpp"
#include "jobs/torch/schedules.hpp"
#include "jobs/torchtitan/flavors.hpp"
#include "jobs/torchtitan/keys.hpp"
#include "jobs/torchtitan/python_config.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

class TorchtitanImport : ConfigurationImport {
 public:
  TorchtitanImport(JobKeys keys, const JobOptions& options, const std::string& release)
      : ConfigurationImport("torchtitan", std::move(keys), options), trainer_(load_trainer("torchtitan", release)) {}

  ImportedJob job() {
    read_degrees();
    read_model();
    read_batch();
    read_precision();
    if (degrees_.pipeline > 1) read_schedule();
    read_recompute();
    read_optimizer();
    read_framework();
    report_rest(job_, keys_, unread_keys("torchtitan"));
    return std::move(job_);
  }

 private:
  int degree(const char* key) { return keys_.integer(std::string("parallelism.") + key, 1, kMostRanks).value_or(1); }

  void read_degrees() {
    degrees_.tensor = degree("tensor_parallel_degree"), degrees_.pipeline = degree("pipeline_parallel_degree");
    degrees_.context = degree("context_parallel_degree");
    const int replicas = degree("data_parallel_replicate_degree");
    const int stated = keys_.integer("parallelism.data_parallel_shard_degree", -1, kMostRanks).value_or(-1);
    if (stated == 0) keys_.refuse("parallelism.data_parallel_shard_degree", "is 0", "-1 stands for the ranks that are left");
    long long ranks = 1;
    for (const int part : {degrees_.tensor, degrees_.pipeline, degrees_.context, replicas, std::max(1, stated)})
      if (ranks <= kMostRanks) ranks *= part;
    if (ranks > kMostRanks) throw InputError(fmt::format("{}: the degrees make more than {} ranks", job_.source, kMostRanks));
    const int fewest = static_cast<int>(ranks);
    const JobMachine machine = !options_.gpus && stated > 0 ? JobMachine{fewest, kGpusOfANode, "the product of the degrees"}
                                                            : ConfigurationImport::machine(fewest);
    const int groups =
        replicas_of(job_, machine, ranks,
                    fmt::format("tensor {} x pipeline {} x context {} x replicate {}{}", degrees_.tensor, degrees_.pipeline,
                                degrees_.context, replicas, stated > 0 ? fmt::format(" x shard {}", stated) : ""));
    if (stated > 0 && groups != 1)
      keys_.refuse("parallelism.data_parallel_shard_degree", fmt::format("is {}, and {} GPUs leave {} for it", stated,
                                                                         machine.gpus, static_cast<long long>(groups) * stated));
    degrees_.shard = stated > 0 ? stated : groups;
    sharded_ = degrees_.shard > 1 || degrees_.context > 1;
    put_cluster(job_, machine, options_.cluster);
    job_.set("parallel.pipeline", degrees_.pipeline, "parallelism.pipeline_parallel_degree");
    job_.set("parallel.tensor", degrees_.tensor, "parallelism.tensor_parallel_degree");
    degrees_.data = replicas * degrees_.shard;
    job_.set("parallel.data", degrees_.data, "parallelism.data_parallel_replicate_degree x data_parallel_shard_degree");
    const bool sequence = keys_.flag("parallelism.enable_sequence_parallel").value_or(true);
    if (degrees_.tensor > 1 && sequence) job_.set("parallel.sequence_parallel", "true", "torchtitan's tensor parallelism");
    const bool gathers = keys_.text("parallelism.context_parallel_rotate_method").value_or("allgather") == "allgather";
    put_context(job_, degrees_.context, "parallelism.context_parallel_degree", gathers ? "all-gather" : "ring");
    const int expert = degree("expert_parallel_degree");
    const int expert_tensor = keys_.integer("parallelism.expert_tensor_parallel_degree", 1, kMostRanks).value_or(1);
    put_expert(job_, expert, expert > 1 && expert_tensor != degrees_.tensor ? expert_tensor : 0,
               "parallelism.expert_parallel_degree");
    if (replicas > 1 && degrees_.shard > 1) job_.set("parallel.shard", degrees_.shard, "parallelism.data_parallel_shard_degree");
    read_zero();
  }

  // FSDP shards as soon as there is a rank to share with; "default" keeps parameters whole where a pipeline runs several
  // microbatches.
  void read_zero() {
    const std::string key = "parallelism.fsdp_reshard_after_forward";
    const std::string policy = keys_.text(key).value_or("default");
    if (policy != "default" && policy != "always" && policy != "never")
      keys_.refuse(key, fmt::format("is '{}'; it is default, always or never", one_line(policy)));
    if (!sharded_) return job_.set("parallel.zero", 0, "data_parallel_shard_degree 1");
    const bool reshards = policy == "always" || (policy == "default" && degrees_.pipeline == 1);
    job_.set("parallel.zero", reshards ? 3 : 2, keys_.has(key) ? key : "fsdp_reshard_after_forward: default");
    if (!keys_.flag("training.enable_cpu_offload").value_or(false)) return;
    put_offload(job_, "parameters", "cpu", "training.enable_cpu_offload");
    put_offload(job_, "optimizer", "cpu", "training.enable_cpu_offload");
  }

  void read_model() {
    const std::string name = keys_.text("model.name").value_or("llama3");
    std::string flavor = keys_.text("model.flavor").value_or("debugmodel");
    const int sequence = keys_.integer("training.seq_len", 1, kMostTokens).value_or(2048);
    const std::string origin = keys_.has("training.seq_len") ? "training.seq_len" : "torchtitan's default training.seq_len";
    if (!options_.model.empty() || options_.captured_model) {
      put_stated_model(job_, options_, sequence, origin);
      layers_ = options_.model.empty() ? options_.captured_model->layers : 0;
      layers_known_ = layers_ > 0;
      return;
    }
    for (const char* kernel : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"})
      if (flavor.ends_with(kernel)) {
        flavor.resize(flavor.size() - std::string(kernel).size());
        job_.not_modelled.push_back(fmt::format("model.flavor: the attention '{}'", kernel + 1));
      }
    const TorchtitanFlavor* known = nullptr;
    std::vector<std::string> names;
    for (const TorchtitanFlavor& one : torchtitan_flavors()) {
      names.push_back(one.model + " " + one.flavor);
      if (one.model == name && one.flavor == flavor) known = &one;
    }
    if (known == nullptr)
      throw InputError(fmt::format("{}: the model '{}' has no flavor '{}' here{}", job_.source, one_line(name), one_line(flavor),
                                   suggestion(name + " " + flavor, names)),
                       fmt::format("known are {}; another model is named by its config.json", fmt::join(names, ", ")),
                       code::kUnknownName);
    layers_ = known->layers;
    job_.set("workload.config", known->config, "model.name, model.flavor: torchtitan's own table");
    job_.set("workload.sequence", options_.sequence.value_or(sequence), options_.sequence ? "--sequence" : origin);
  }

  void read_batch() {
    const std::string key = keys_.has("training.batch_size") ? "training.batch_size" : "training.local_batch_size";
    const auto stated = keys_.integer(key, 1, kMostSamples);
    const int local = stated.value_or(8);
    if (!stated) job_.assumptions.emplace_back("8 samples of a replica at a time, torchtitan's default local_batch_size.");
    const int global = keys_.integer("training.global_batch_size", -1, kMostSamples).value_or(-1);
    int micro = 0;
    if (degrees_.pipeline > 1) {
      const std::string part = "parallelism.pipeline_parallel_microbatch_size";
      micro = micro_batch(job_, options_, keys_.integer(part, 1, kMostSamples).value_or(1), part);
      if (local % micro != 0) keys_.refuse(key, fmt::format("is {}, no multiple of the microbatches' {} samples", local, micro));
    } else {
      micro = micro_batch(job_, options_, local, key);
    }
    const long long pass = static_cast<long long>(local) * degrees_.data;
    if (global < 1)
      return job_.set("batch.microbatches", std::max(1, local / micro), degrees_.pipeline > 1 ? key : "no global_batch_size");
    if (global % pass != 0)
      keys_.refuse("training.global_batch_size",
                   fmt::format("is {}, no multiple of {} x {} replicas", global, key, degrees_.data));
    job_.set("batch.global", global, "training.global_batch_size");
    if (degrees_.pipeline > 1 && global > pass)
      job_.assumptions.push_back(
          fmt::format("the {} passes of gradient accumulation run as one, without a drain between them.", global / pass));
  }

  // The recipe of float8 is the framework's choice. In the releases with TOML it stands in a section of its own, and current
  // scaling of tensors is the default; in Python it is rows.
  void set_recipe(const std::string& converter, const char* precision) {
    job_.set("precision", precision, "model.converters: " + converter);
    if (converter != "float8") return;
    for (const char* path : {"quantize.linear.float8.recipe_name", "float8.recipe_name"})
      if (const auto name = keys_.text(path)) {
        scales_ = {*name, path};
        if (find_torchao_recipe(*name) == nullptr) keys_.refuse(path, fmt::format("is '{}', an unknown recipe", one_line(*name)));
      }
  }

  // Converters swap the linear layers for those of torchao. FSDP casts what it gathers; without it autocast does, but before
  // release 0.3, which reads no TOML, nothing did under tensor or pipeline parallelism (scenarios/trainers/torchtitan.yaml).
  void read_precision() {
    const std::string weights = keys_.text("training.dtype").value_or("float32");
    const std::string compute = keys_.text("training.mixed_precision_param").value_or("bfloat16");
    for (const std::string& converter : keys_.list("model.converters")) {
      for (const auto& [word, precision] : {std::pair("float8", "fp8"), std::pair("nvfp4", "nvfp4"), std::pair("mx", "mxfp8")})
        if (converter.find(word) != std::string::npos) return set_recipe(word, precision);
      job_.not_modelled.push_back("model.converters: " + one_line(converter));
    }
    if (weights == "bfloat16") return job_.set("precision", "bf16-pure", "training.dtype");
    if (compute != "bfloat16" && compute != "float32")
      keys_.refuse("training.mixed_precision_param", fmt::format("is '{}'; it is bfloat16 or float32", one_line(compute)));
    if (compute == "bfloat16" && !sharded_ && trainer_.mixed_needs_shards && degrees_.tensor * degrees_.pipeline > 1) {
      job_.assumptions.emplace_back(
          "fp32: before 0.3 torchtitan mixes precisions beside tensor or pipeline parallelism under FSDP or context "
          "parallelism alone.");
      return job_.set("precision", "fp32", "data_parallel_shard_degree 1: no mixed precision");
    }
    job_.set("precision", compute == "bfloat16" ? "bf16" : "fp32", "training.mixed_precision_param");
  }

  void read_schedule() {
    const std::string key = "parallelism.pipeline_parallel_schedule";
    const std::string name = keys_.text(key).value_or("1F1B");
    const TorchSchedule* known = nullptr;
    std::vector<std::string_view> names;
    for (const TorchSchedule& one : torch_schedules()) {
      if (one.name.empty()) continue;
      names.push_back(one.name);
      if (lower_case(name) == lower_case(one.name)) known = &one;
    }
    if (known == nullptr)
      keys_.refuse(key, fmt::format("is '{}', which is not known", one_line(name)),
                   fmt::format("known are {}", fmt::join(names, ", ")));
    job_.set("schedule", std::string(known->family), key);
    if (read_modules()) return;
    const int first = keys_.integer("parallelism.pipeline_parallel_first_stage_less_layers", 0, kMostLayers).value_or(1);
    const int last = keys_.integer("parallelism.pipeline_parallel_last_stage_less_layers", 0, kMostLayers).value_or(1);
    const auto per_stage = keys_.integer("parallelism.pipeline_parallel_layers_per_stage", 1, kMostLayers);
    const int parts = layers_ + first + last;
    int stages = degrees_.pipeline * known->stages;
    if (per_stage && layers_known_) {
      stages = (parts + *per_stage - 1) / *per_stage;
      if (stages % degrees_.pipeline != 0)
        keys_.refuse("parallelism.pipeline_parallel_layers_per_stage",
                     fmt::format("makes {} stages, no multiple of {} ranks", stages, degrees_.pipeline));
    }
    if (stages / degrees_.pipeline > 1)
      job_.set("parallel.virtual_stages", stages / degrees_.pipeline, per_stage ? "layers_per_stage" : key);
    if (layers_known_) put_partition(stages, parts, first, last);
  }

  // Stages as lists of their modules: "layers.7" is the layer with which one may begin, "norm" the head's part.
  bool read_modules() {
    const char* path = "parallelism.module_fqns_per_model_part";
    const std::vector<std::vector<std::string>> parts = keys_.lists(path);
    if (parts.empty()) return false;
    const auto stages = static_cast<int>(parts.size());
    if (stages % degrees_.pipeline != 0)
      keys_.refuse(path, fmt::format("has {} stages, no multiple of {} ranks", stages, degrees_.pipeline));
    std::vector<std::string> starts;
    for (const std::vector<std::string>& part : parts) {
      if (part.empty()) keys_.refuse(path, "has a stage without modules");
      const std::string& first = part.front();
      int layer = -1;
      if (first.starts_with("layers.")) std::from_chars(first.data() + 7, first.data() + first.size(), layer);
      const bool head = first == "norm" || first == "output" || first == "lm_head";
      if (layer < 0 && !head && !(starts.empty() && first == "tok_embeddings"))
        keys_.refuse(path, fmt::format("has a stage that begins with '{}'", one_line(first)));
      starts.push_back(head ? "head" : fmt::format("h.{}.attention", layer));
    }
    if (stages / degrees_.pipeline > 1) job_.set("parallel.virtual_stages", stages / degrees_.pipeline, path);
    starts.erase(starts.begin());
    job_.set("partition", fmt::format("[{}]", fmt::join(starts, ", ")), path);
    return true;
  }

  // As torchtitan cuts: the embedding counts as `first` layers, norm and head as `last`; the remainder goes to the first stages.
  void put_partition(int stages, int parts, int first, int last) {
    if (stages > parts || parts / stages < std::max(first + (parts % stages == 0 ? 0 : -1), last))
      throw InputError(fmt::format("{}: {} stages are too many for {} layers", job_.source, stages, layers_));
    std::vector<std::string> starts;
    int layer = -first;
    for (int i = 0; i + 1 < stages; ++i) {
      layer += parts / stages + (i < parts % stages ? 1 : 0);
      starts.push_back(cut_before(std::max(0, layer), layers_));
    }
    job_.set("partition", fmt::format("[{}]", fmt::join(starts, ", ")), "torchtitan's split: embedding and head count as layers");
  }

  void read_recompute() {
    const std::string mode = keys_.text("activation_checkpoint.mode").value_or("selective");
    const std::string option = keys_.text("activation_checkpoint.selective_ac_option").value_or("2");
    if (!keys_.has("activation_checkpoint.mode"))
      job_.assumptions.emplace_back("selective recompute of every second layer, torchtitan's default.");
    if (mode == "none") return;
    if (mode == "full") return job_.set("recompute", "full", "activation_checkpoint.mode");
    if (mode == "memory_budget") {
      job_.not_modelled.push_back("activation_checkpoint.mode: memory_budget (predicted without recompute)");
      return;
    }
    if (mode != "selective")
      keys_.refuse("activation_checkpoint.mode",
                   fmt::format("is '{}'; it is none, full, selective or memory_budget", one_line(mode)));
    const char* origin = "activation_checkpoint.selective_ac_option";
    if (option == "op") return job_.set("recompute", "{operators: [norms, elementwise, second-products]}", origin);
    const int every = keys_.integer(origin, 1, kMostLayers).value_or(2);
    job_.set("recompute", every == 1 ? "full" : fmt::format("{{every: {}}}", every), origin);
  }

  void read_optimizer() {
    const std::string name = keys_.text("optimizer.name").value_or("AdamW");
    const bool adam = lower_case(name).starts_with("adam");
    if (!adam || keys_.text("optimizer.implementation").value_or("fused") != "fused_opt_states_bf16")
      return put_optimizer(job_, name, "optimizer.name");
    job_.set("optimizer", fmt::format("{{name: {}, states: bf16}}", lower_case(name) == "adam" ? "adam" : "adamw"),
             "optimizer.name, optimizer.implementation");
  }

  void read_framework() {
    FrameworkChoices framework("torchtitan", "torchtitan");
    const std::string key = keys_.has("compile.enable") ? "compile.enable" : "training.compile";
    const std::vector<std::string> components = keys_.list("compile.components");
    const bool enabled = keys_.flag(key).value_or(false);
    const auto compiles = [&](const char* part) {
      return enabled && (components.empty() || std::find(components.begin(), components.end(), part) != components.end());
    };
    const bool loss = compiles("loss");
    if (!compiles("model")) framework.choose("elementwise: eager, normalization: modules", "no compile.enable");
    if (!loss) framework.choose("loss: eager", "no compile.enable");
    for (const char* path : {"parallelism.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel"})
      if (keys_.flag(path).value_or(false)) framework.choose("tensor_chunks: 0", path);
    // A chunk's backward follows its forward: the logits of one chunk live at a time, and none is made twice.
    if (keys_.text("loss.class").value_or("") == "ChunkedLossWrapper") {
      const double live =
          load_framework(loss ? load_trainer("torchtitan").framework : "eager-sdpa", "").loss_live_bytes_per_logit;
      const int chunks = keys_.integer("loss.num_chunks", 1, kMostTokens).value_or(8);
      framework.choose(fmt::format("loss_live_bytes_per_logit: {:g}", live / chunks), "loss: ChunkedLossWrapper");
    }
    const std::string kernel = keys_.text("optimizer.implementation").value_or("fused");
    if (kernel == "foreach" || kernel == "for-loop")
      framework.choose(kernel == "foreach" ? "optimizer_kernel: foreach" : "optimizer_kernel: loop", "optimizer.implementation");
    const char* norm = "training.max_norm";
    if (keys_.number(norm).value_or(1) > 0)
      framework.choose("gradient_clipping: foreach", keys_.has(norm) ? norm : "torchtitan's default training.max_norm");
    if (const Recipe* recipe = find_torchao_recipe(scales_.first))
      framework.choose(fmt::format("fp8_scaling: {}", name_of(recipe->scaling)), scales_.second);
    framework.put(job_);
  }

  int layers_ = 0;
  bool layers_known_ = true;
  const Trainer trainer_;
  std::pair<std::string, std::string> scales_;  // the recipe of float8, and the key that names it
  bool sharded_ = false;                        // FSDP runs: it shards over replicas and over context parallelism
};

}  // namespace

ImportedJob import_torchtitan(const std::string& text, const std::string& name, const JobOptions& options) {
  JobOptions mine = options;
  const bool python = is_python(text);
  JobKeys keys = captured_keys_or(text, name, "torchtitan", mine, [&] {
    if (trimmed(text).starts_with('{')) return job_keys(text, name);  // JSON, as --job.print_args prints it
    return JobKeys(python ? read_python_config(text, name) : parse_toml(text, name));
  });
  override_torchtitan_keys(keys, options.overrides);
  // Configurations in Python came with 0.3; a captured job states its release.
  std::string release = release_number(mine.captured_release);
  if (!python && mine.captured_release.empty()) release = "0.2";
  return TorchtitanImport(std::move(keys), mine, release).job();
}

}  // namespace panpipe::jobs
