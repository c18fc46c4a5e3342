#include "jobs/deepspeed/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "jobs/bounds.hpp"
#include "jobs/captured/captured.hpp"
#include "jobs/framework_choices.hpp"

namespace panpipe::jobs {
namespace {

class DeepSpeedImport : ConfigurationImport {
 public:
  DeepSpeedImport(JobKeys keys, const JobOptions& options) : ConfigurationImport("DeepSpeed", std::move(keys), options) {
    context_ = "sequence";
  }

  ImportedJob job() {
    read_degrees();
    put_stated_model(job_, options_);
    read_batch();
    read_precision();
    read_optimizer();
    read_recompute();
    read_framework();
    // They do not move a step, unlike the rest of their sections.
    for (std::string& left : keys_.take({"zero_optimization.stage3_gather_*", "zero_optimization.load_from_fp32_weights",
                                         "zero_optimization.elastic_checkpoint", "zero_optimization.ignore_unused_parameters",
                                         "pipeline.seed_layers", "bf16.check_grad_overflow"}))
      job_.without_effect.push_back(std::move(left));
    report_rest(job_, keys_, unread_keys("deepspeed"));
    return std::move(job_);
  }

 private:
  int degree(const std::string& path) {
    if (keys_.automatic(path)) return 1;
    return keys_.integer(path, 0, kMostRanks).value_or(1);
  }

  void read_degrees() {
    const char* tensor_key =
        keys_.has("tensor_parallel.autotp_size") ? "tensor_parallel.autotp_size" : "tensor_parallel.tp.tp_size";
    degrees_.tensor = std::max(1, degree(tensor_key)), degrees_.pipeline = std::max(1, degree("pipeline.stages"));
    degrees_.context = std::max(1, degree("sequence_parallel_size"));
    put_degrees(machine(ranks_of_replica()), keys_.has("pipeline.stages") ? "pipeline.stages" : "no pipeline.stages",
                keys_.has(tensor_key) ? tensor_key : "no tensor_parallel");
    put_context(job_, degrees_.context, "sequence_parallel_size", "ulysses");
    if (degrees_.pipeline > 1) job_.set("schedule", "1f1b", "DeepSpeed's TrainSchedule");
    if (degrees_.pipeline > 1) read_parts();
    read_zero();
  }

  // What `panpipe export` decided for the training script: the first module of each stage, where module 0 is the embedding and
  // the last one holds norm and head.
  void read_parts() {
    const char* path = "_panpipe.parts";
    const std::vector<std::string> parts = keys_.list(path);
    if (parts.empty()) return;
    std::vector<int> starts;
    for (const std::string& part : parts) {
      int start = -1;
      std::from_chars(part.data(), part.data() + part.size(), start);
      if (start < 0 || start > kMostLayers + 2 || (!starts.empty() && start <= starts.back()))
        keys_.refuse(path, "is no list of growing numbers of modules");
      starts.push_back(start);
    }
    if (static_cast<int>(starts.size()) != degrees_.pipeline + 1 || starts.front() != 0 || starts.back() < 3)
      keys_.refuse(path, fmt::format("is not the borders of {} stages", degrees_.pipeline));
    const int layers = starts.back() - 2;
    std::vector<std::string> cuts;
    for (std::size_t i = 1; i + 1 < starts.size(); ++i) cuts.push_back(cut_before(starts[i] - 1, layers));
    job_.set("partition", fmt::format("[{}]", fmt::join(cuts, ", ")), path);
  }

  void read_zero() {
    const int stage = keys_.integer("zero_optimization.stage", 0, 3).value_or(0);
    job_.set("parallel.zero", stage, keys_.has("zero_optimization.stage") ? "zero_optimization.stage" : "DeepSpeed's default");
    const int group = keys_.integer("zero_optimization.mics_shard_size", -1, kMostRanks).value_or(-1);
    if (group > 0) job_.set("parallel.shard", group, "zero_optimization.mics_shard_size");
    read_offload("optimizer", "zero_optimization.offload_optimizer.device");
    read_offload("parameters", "zero_optimization.offload_param.device");
  }

  std::optional<int> samples(const std::string& path) {
    if (keys_.automatic(path)) return std::nullopt;
    return keys_.integer(path, 1, kMostSamples);
  }

  // train_batch_size = micro batch x accumulation x replicas: DeepSpeed finds the third of two.
  void read_batch() {
    const auto train = samples("train_batch_size");
    const auto steps = samples("gradient_accumulation_steps");
    auto micro = samples("train_micro_batch_size_per_gpu");
    std::string origin = "train_micro_batch_size_per_gpu";
    if (!micro && !options_.micro && train && *train % (static_cast<long long>(steps.value_or(1)) * degrees_.data) == 0) {
      micro = static_cast<int>(*train / (static_cast<long long>(steps.value_or(1)) * degrees_.data));
      origin = "train_batch_size / (gradient_accumulation_steps x replicas)";
    }
    const long long pass = static_cast<long long>(micro_batch(job_, options_, micro, origin)) * degrees_.data;
    if (train) {
      if (*train % pass != 0)
        keys_.refuse("train_batch_size", fmt::format("is {}, no multiple of micro batch x replicas, {}", *train, pass),
                     "train_batch_size is train_micro_batch_size_per_gpu x gradient_accumulation_steps x replicas");
      if (steps && !options_.micro && *train != pass * *steps)
        keys_.refuse("train_batch_size",
                     fmt::format("is {}, and micro batch x gradient_accumulation_steps x replicas are {}", *train, pass * *steps),
                     "DeepSpeed refuses the job too; state the number of GPUs it is meant for");
      return job_.set("batch.global", *train, "train_batch_size");
    }
    if (!steps) job_.assumptions.emplace_back("one microbatch a step (gradient_accumulation_steps is open).");
    job_.set("batch.microbatches", steps.value_or(1), steps ? "gradient_accumulation_steps" : "assumed");
  }

  bool enabled(const std::string& section) {
    const std::string path = section + ".enabled";
    if (!keys_.automatic(path)) return keys_.flag(path).value_or(false);
    if (section == "fp16") return false;
    job_.assumptions.push_back(fmt::format("bf16 ({} is auto).", path));
    return true;
  }

  void read_precision() {
    const std::string brain = keys_.has("bfloat16.enabled") ? "bfloat16" : "bf16";
    const bool bf16 = enabled(brain), fp16 = enabled("fp16");
    if (bf16 && fp16) keys_.refuse("fp16.enabled", fmt::format("contradicts {}.enabled", brain));
    if (bf16) return job_.set("precision", "bf16", brain + ".enabled");
    if (fp16) return job_.set("precision", "fp16", "fp16.enabled");
    const bool open = keys_.shown("fp16.enabled") == "auto";
    if (open) job_.assumptions.emplace_back("bf16 (fp16.enabled is auto).");
    job_.set("precision", open ? "bf16" : "fp32", open ? "assumed" : "neither bf16 nor fp16");
  }

  void read_optimizer() {
    const auto name = keys_.text("optimizer.type");
    const bool decoupled = keys_.flag("optimizer.params.adam_w_mode").value_or(true);
    if (name && lower_case(*name) == "adam" && decoupled)
      return put_optimizer(job_, "AdamW", "optimizer.type Adam, whose adam_w_mode is true unless it says otherwise");
    if (name) return put_optimizer(job_, *name, "optimizer.type");
    assume_optimizer();
  }

  // The section sets how the training script's checkpoints are stored; the script decides which modules have them.
  void read_recompute() {
    for (const char* path : {"pipeline.activation_checkpoint_interval", "_panpipe.activation_checkpoint_interval"})
      if (const int interval = keys_.integer(path, 0, kMostLayers).value_or(0); interval > 0)
        return job_.set("recompute", interval == 1 ? "full" : fmt::format("{{chunk: {}}}", interval), path);
    if (keys_.has("_panpipe.notes")) return;  // an exported job states what is recomputed
    assume_no_recompute();
  }

  void read_framework() {
    FrameworkChoices framework("deepspeed", "DeepSpeed with a model of transformers");
    if (!keys_.automatic("zero_optimization.overlap_comm"))
      if (const auto overlap = keys_.flag("zero_optimization.overlap_comm"))
        framework.choose(fmt::format("overlap_all_reduce: {0}, overlap_reduce_scatter: {0}", *overlap),
                         "zero_optimization.overlap_comm");
    if (!keys_.automatic("zero_optimization.reduce_bucket_size"))
      if (const auto bucket = keys_.integer("zero_optimization.reduce_bucket_size", 1, 2'000'000'000))
        framework.choose(fmt::format("gradient_bucket_elements: {}", *bucket), "zero_optimization.reduce_bucket_size");
    if (!keys_.automatic("gradient_clipping"))
      if (const double norm = keys_.number("gradient_clipping").value_or(0); norm > 0)
        framework.choose("gradient_clipping: foreach", "gradient_clipping");
    framework.put(job_);
  }
};

}  // namespace

ImportedJob import_deepspeed(const std::string& text, const std::string& name, const JobOptions& options) {
  JobOptions mine = options;
  return import_deepspeed_keys(captured_keys_or(text, name, "deepspeed", mine, [&] { return job_keys(text, name); }), mine);
}

ImportedJob import_deepspeed_keys(JobKeys keys, const JobOptions& options) {
  return DeepSpeedImport(std::move(keys), options).job();
}

}  // namespace panpipe::jobs
