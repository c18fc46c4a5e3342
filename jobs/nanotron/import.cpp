// nanotron's configuration (YAML) as a scenario.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/input/scalar_text.hpp"
#include "base/option_fault.hpp"
#include "base/text/characters.hpp"
#include "costmodel/scenario/nanotron_cuts.hpp"
#include "jobs/bounds.hpp"
#include "jobs/config_text.hpp"
#include "jobs/framework_choices.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {
namespace {

constexpr const char* kNameModel = "--model FILE names the model's config.json";

class NanotronImport : ConfigurationImport {
 public:
  NanotronImport(JobKeys keys, const JobOptions& options) : ConfigurationImport("nanotron", std::move(keys), options) {}

  ImportedJob job() {
    read_degrees();
    read_model();
    read_cuts();
    read_batch();
    read_precision();
    if (const auto name = keys_.text("optimizer.optimizer_factory.name"))
      put_optimizer(job_, *name, "optimizer.optimizer_factory.name");
    if (keys_.flag("parallelism.recompute_layer").value_or(false)) job_.set("recompute", "full", "parallelism.recompute_layer");
    read_framework();
    report_rest(job_, keys_, unread_keys("nanotron"));
    return std::move(job_);
  }

 private:
  int needed(const std::string& path, int at_most) {
    const auto value = keys_.integer(path, 1, at_most);
    if (!value)
      throw InputError(fmt::format("{}: '{}' is missing", job_.source, path),
                       "give the configuration that run_train.py takes by --config-file", code::kMissingKey);
    return *value;
  }

  void read_degrees() {
    degrees_.data = needed("parallelism.dp", kMostRanks);
    degrees_.tensor = needed("parallelism.tp", kMostRanks), degrees_.pipeline = needed("parallelism.pp", kMostRanks);
    degrees_.context = keys_.integer("parallelism.context_parallel_size", 1, kMostRanks).value_or(1);
    const long long gpus = static_cast<long long>(ranks_of_replica()) * degrees_.data;
    if (gpus > kMostRanks)
      throw InputError(fmt::format("{}: dp {} x tp {} x pp {} x context {} are more than {} ranks", job_.source, degrees_.data,
                                   degrees_.tensor, degrees_.pipeline, degrees_.context, kMostRanks));
    const JobMachine machine{static_cast<int>(gpus), kGpusOfANode, "dp x tp x pp"};
    if (options_.gpus && *options_.gpus != machine.gpus)
      throw option_fault("gpus", fmt::format("the degrees of {} make {} GPUs, not {}", job_.source, machine.gpus, *options_.gpus),
                         "leave this out, or change parallelism.dp", code::kConflict);
    put_cluster(job_, machine, options_.cluster);
    job_.set("parallel.pipeline", degrees_.pipeline, "parallelism.pp");
    job_.set("parallel.tensor", degrees_.tensor, "parallelism.tp");
    job_.set("parallel.data", degrees_.data, "parallelism.dp");
    put_context(job_, degrees_.context, "parallelism.context_parallel_size", "ring");
    const std::string mode = lower_case(keys_.text("parallelism.tp_mode").value_or("all_reduce"));
    if (mode != "all_reduce" && mode != "reduce_scatter")
      keys_.refuse("parallelism.tp_mode",
                   fmt::format("is '{}'; it is ALL_REDUCE or REDUCE_SCATTER", one_line(keys_.shown("parallelism.tp_mode"))));
    if (mode == "reduce_scatter" && degrees_.tensor > 1) job_.set("parallel.sequence_parallel", "true", "parallelism.tp_mode");
    if (const auto stage = keys_.integer("optimizer.zero_stage", 0, 1)) job_.set("parallel.zero", *stage, "optimizer.zero_stage");
    read_schedule();
  }

  void read_schedule() {
    const std::string engine = keys_.text("parallelism.pp_engine").value_or("afab");
    if (engine != "1f1b" && engine != "afab")
      keys_.refuse("parallelism.pp_engine", fmt::format("is '{}'; it is 1f1b or afab", one_line(engine)));
    if (degrees_.pipeline > 1)
      job_.set("schedule", engine == "afab" ? "gpipe" : "1f1b",
               keys_.has("parallelism.pp_engine") ? "parallelism.pp_engine" : "nanotron's default, afab");
  }

  // A layer of Llama, with Qwen 2's biases or experts.
  void read_model() {
    const std::string in = "model.model_config.";
    if (!options_.model.empty()) {
      job_.without_effect.emplace_back("model.model_config (--model takes its place)");
      keys_.take({in + "*"});
      put_stated_model(job_, options_, keys_.integer("tokens.sequence_length", 1, kMostTokens), "tokens.sequence_length");
      return;
    }
    if (!keys_.has(in + "hidden_size"))
      throw InputError(fmt::format("{}: 'model.model_config' has no 'hidden_size'", job_.source), kNameModel);
    for (const std::string& other : keys_.take({in + "is_starcoder2_config"}))
      throw InputError(fmt::format("{}: {} is a model that is not known", job_.source, other), kNameModel);
    const bool experts = keys_.has(in + "moe_config.num_experts");
    const bool bias = keys_.flag(in + "attention_bias").value_or(false);
    ConfigText config;
    config.add("model_type", experts ? "qwen2_moe" : bias ? "qwen2" : "llama");
    const auto copy = [&](const char* key, const std::string& path) {
      if (const auto value = keys_.integer(in + path)) config.add(key, *value);
    };
    for (const char* key : {"num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
                            "max_position_embeddings"})
      copy(key, key);
    if (const auto act = keys_.text(in + "hidden_act")) config.add("hidden_act", quoted_scalar(*act));
    if (const auto epsilon = keys_.number(in + "rms_norm_eps")) config.add("rms_norm_eps", *epsilon);
    if (const auto theta = keys_.number(in + "rope_theta")) config.add("rope_theta", *theta);
    const int words = vocabulary();
    config.add("vocab_size", words);
    sizes_ = {number("num_hidden_layers"), number("hidden_size"), number("num_attention_heads"), number("intermediate_size"),
              words};
    config.add("tie_word_embeddings", keys_.flag(in + "tie_word_embeddings").value_or(false));
    if (experts) {
      config.add("qkv_bias", bias);
      copy("num_experts", "moe_config.num_experts");
      copy("num_experts_per_tok", "moe_config.top_k");
      copy("moe_intermediate_size", "moe_config.moe_intermediate_size");
      add_shared_expert(config, in + "moe_config.");
      add_dense_layers(config, in + "moe_config.layers");
    }
    job_.set("workload.config", config.text(), "model.model_config, in the words of config.json");
    const int sequence = options_.sequence ? *options_.sequence : needed("tokens.sequence_length", kMostTokens);
    keys_.integer("tokens.sequence_length", 1, kMostTokens);
    job_.set("workload.sequence", sequence, options_.sequence ? "--sequence" : "tokens.sequence_length");
  }

  // The size counts where the expert is switched on; it has a default.
  void add_shared_expert(ConfigText& config, const std::string& in) {
    const int ffn = keys_.integer(in + "shared_expert_intermediate_size", 0).value_or(5632);
    config.add("shared_expert_intermediate_size", keys_.flag(in + "enable_shared_expert").value_or(false) ? ffn : 0);
  }

  // The key lists the layers with experts, or is [-1]: all.
  void add_dense_layers(ConfigText& config, const std::string& path) {
    const std::vector<std::string> listed = keys_.list(path);
    if (listed.empty() || listed == std::vector<std::string>{"-1"}) return;
    std::vector<int> dense;
    for (int i = 0; i < number("num_hidden_layers"); ++i)
      if (std::find(listed.begin(), listed.end(), std::to_string(i)) == listed.end()) dense.push_back(i);
    if (!dense.empty()) config.add("mlp_only_layers", fmt::format("[{}]", fmt::join(dense, ", ")));
  }

  // A size of the model; 0: not stated.
  int number(const char* key) { return keys_.integer(std::string("model.model_config.") + key).value_or(0); }

  void read_cuts() {
    if (degrees_.pipeline == 1) return;
    const bool known = sizes_.layers > 0 && sizes_.heads > 0 && sizes_.ffn > 0 && sizes_.layers <= kMostLayers;
    const std::vector<int> layers = known ? nanotron_layers(sizes_, degrees_.pipeline) : std::vector<int>{};
    if (layers.empty()) {
      job_.assumptions.emplace_back("stages of balanced times (where nanotron cuts by itself is not known here).");
      return;
    }
    std::vector<std::string> cuts;
    int layer = 0;
    for (std::size_t s = 0; s + 1 < layers.size(); ++s) cuts.push_back(cut_before(layer += layers[s], sizes_.layers));
    job_.set("partition", fmt::format("[{}]", fmt::join(cuts, ", ")), "nanotron's own rule: the weights of layers and head");
  }

  int vocabulary() {
    const int tokens = needed("model.model_config.vocab_size", kMostVocabulary);
    const long long multiple =
        static_cast<long long>(keys_.integer("model.make_vocab_size_divisible_by", 1, kMostRanks).value_or(1)) * degrees_.tensor;
    const long long padded = (tokens + multiple - 1) / multiple * multiple;
    if (padded > kMostVocabulary)
      throw InputError(fmt::format("{}: {} tokens, padded to a multiple of {}, are {}, more than {}", job_.source, tokens,
                                   multiple, padded, kMostVocabulary));
    if (padded != tokens)
      job_.assumptions.push_back(
          fmt::format("the vocabulary of {} tokens is padded to {}, a multiple of {}.", tokens, padded, multiple));
    return static_cast<int>(padded);
  }

  void read_batch() {
    micro_batch(job_, options_, needed("tokens.micro_batch_size", kMostSamples), "tokens.micro_batch_size");
    const auto steps = keys_.integer("tokens.batch_accumulation_per_replica", 1, kMostSamples);
    job_.set("batch.microbatches", steps.value_or(1), steps ? "tokens.batch_accumulation_per_replica" : "nanotron's default");
  }

  // Without a sum in fp32 its optimizer keeps no weights in fp32 either.
  void read_precision() {
    const std::string type = keys_.text("model.dtype").value_or("bfloat16");
    const bool sums = keys_.flag("optimizer.accumulate_grad_in_fp32").value_or(false);
    const std::string origin = sums ? "model.dtype, optimizer.accumulate_grad_in_fp32" : "model.dtype";
    if (type == "bfloat16") return job_.set("precision", sums ? "bf16" : "bf16-pure", origin);
    if (type == "float16") return job_.set("precision", sums ? "fp16" : "fp16-pure", origin);
    if (type == "float32") return job_.set("precision", "fp32", "model.dtype");
    keys_.refuse("model.dtype", fmt::format("is '{}'; it is bfloat16, float16 or float32", one_line(type)));
  }

  void read_framework() {
    FrameworkChoices framework("nanotron", "nanotron");
    if (!keys_.flag("parallelism.tp_linear_async_communication").value_or(false))
      framework.choose("overlap_tensor_collectives: false", "no parallelism.tp_linear_async_communication");
    if (const auto again = keys_.flag("parallelism.tp_recompute_allgather"))
      framework.choose(fmt::format("keep_gathered_inputs: {}", !*again), "parallelism.tp_recompute_allgather");
    if (const auto bucket = keys_.integer("model.ddp_bucket_cap_mb", 1, 1 << 16); bucket && *bucket != 25)
      framework.choose(fmt::format("gradient_bucket_elements: {}", *bucket * (1LL << 20) / 2),
                       "model.ddp_bucket_cap_mb, of bf16");
    if (keys_.flag("optimizer.optimizer_factory.torch_adam_is_fused") == false)
      framework.choose("optimizer_kernel: foreach", "optimizer.optimizer_factory.torch_adam_is_fused");
    if (keys_.number("optimizer.clip_grad").value_or(0) > 0)
      framework.choose("gradient_clipping: foreach", "optimizer.clip_grad");
    framework.put(job_);
  }

  NanotronSizes sizes_;
};

}  // namespace

ImportedJob import_nanotron(const std::string& text, const std::string& name, const JobOptions& options) {
  return NanotronImport(job_keys(text, name), options).job();
}

}  // namespace panpipe::jobs
