#include "jobs/job_options.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/input/scalar_text.hpp"
#include "base/option_fault.hpp"
#include "base/text/characters.hpp"
#include "jobs/bounds.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostConfiguration = std::size_t{1} << 20;

}  // namespace

std::string ConfigurationImport::replica_text() const {
  return fmt::format("tensor {} x pipeline {} x {} {}", degrees_.tensor, degrees_.pipeline, context_, degrees_.context);
}

int ConfigurationImport::ranks_of_replica() const {
  const long long ranks = static_cast<long long>(degrees_.tensor) * degrees_.pipeline * degrees_.context;
  if (ranks > kMostRanks)
    throw InputError(fmt::format("{}: {} are {} ranks, more than {}", job_.source, replica_text(), ranks, kMostRanks));
  return static_cast<int>(ranks);
}

void ConfigurationImport::assume_optimizer() {
  job_.set("optimizer", "adamw", "assumed");
  job_.assumptions.emplace_back("AdamW (the configuration names no optimizer).");
}

void ConfigurationImport::assume_no_recompute() {
  job_.assumptions.emplace_back(
      "no recompute: the training script switches it on, not the configuration; --set recompute=full predicts it.");
}

void ConfigurationImport::put_degrees(const JobMachine& machine, const std::string& pipeline, const std::string& tensor) {
  degrees_.data = replicas_of(job_, machine, ranks_of_replica(), replica_text());
  put_cluster(job_, machine, options_.cluster);
  job_.set("parallel.pipeline", degrees_.pipeline, pipeline);
  job_.set("parallel.tensor", degrees_.tensor, tensor);
  job_.set("parallel.data", degrees_.data, fmt::format("{} GPUs / (tensor x pipeline x {})", machine.gpus, context_));
}

JobKeys job_keys(const std::string& text, const std::string& name) {
  if (text.size() > kMostConfiguration)
    throw InputError(fmt::format("{}: a job's configuration of more than 1 MiB is none", name));
  return JobKeys(parse_document(text, name, "."));
}

void put_stated_model(ImportedJob& job, const JobOptions& options, std::optional<int> sequence, const std::string& origin) {
  if (options.model.empty() && !options.captured_model)
    throw option_fault("model", fmt::format("{}: a configuration of {} holds no model", job.source, job.trainer),
                       "name its config.json, as Hugging Face's transformers writes it", code::kMissingKey);
  if (options.model.empty())
    job.set("workload.config", options.captured_model->config, "the captured model");
  else
    job.set("workload.config", quoted_scalar(options.model), "--model");
  if (options.sequence)
    job.set("workload.sequence", *options.sequence, "--sequence");
  else if (sequence)
    job.set("workload.sequence", *sequence, origin);
  else
    job.assumptions.emplace_back("sequences as long as the model's positions; --sequence N states another length.");
}

int micro_batch(ImportedJob& job, const JobOptions& options, std::optional<int> stated, const std::string& origin) {
  const bool assumed = !options.micro && !stated;
  const int micro = options.micro ? *options.micro : stated.value_or(1);
  if (assumed) job.assumptions.emplace_back("microbatches of 1 sample; --micro N states another number.");
  job.set("batch.micro", micro, options.micro ? "--micro" : stated ? origin : "assumed");
  return micro;
}

void report_rest(ImportedJob& job, JobKeys& keys, const UnreadKeys& unread) {
  for (std::string& left : keys.take(unread.not_modelled)) job.not_modelled.push_back(std::move(left));
  for (std::string& left : keys.take(unread.without_effect)) job.without_effect.push_back(std::move(left));
  std::vector<std::string> known = unread.not_modelled;
  known.insert(known.end(), unread.without_effect.begin(), unread.without_effect.end());
  job.not_understood = keys.rest(known);
}

void put_optimizer(ImportedJob& job, const std::string& name, const std::string& origin) {
  const std::string lower = lower_case(name);
  if (lower == "adam" || lower == "adamw" || lower == "sgd" || lower == "muon") return job.set("optimizer", lower, origin);
  job.set("optimizer", "adamw", fmt::format("instead of {}", origin));
  job.not_modelled.push_back(fmt::format("{}: {} (predicted as AdamW)", origin, one_line(name)));
}

}  // namespace panpipe::jobs
