#include "cli/import_jobs.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/text/characters.hpp"
#include "cli/output.hpp"
#include "cli/requests/import_request.hpp"

namespace panpipe::cli {
namespace {

struct JobFile : ImportRequest {
  std::string output;
};

// Writes the scenario, and tells on standard error what the job leaves open.
int write_job(jobs::ImportedJob job, const std::string& output) {
  const std::string fault = add_assumptions_of_model(job, output);
  const std::string warning = fault.empty() ? "" : fmt::format("warning: the scenario does not load:\n{}\n", fault);
  const std::string text = jobs::scenario_text(job);
  if (output.empty()) {
    print(text);
    std::fputs(warning.c_str(), stderr);
    return 0;
  }
  write_file(output, text, kAdvice);
  std::string told = warning;
  for (const std::string& assumption : job.assumptions) told += "assumed: " + without_controls(assumption) + "\n";
  for (const std::string& left : job.not_modelled) told += fmt::format("not part of a prediction: {}\n", without_controls(left));
  for (const std::string& unknown : job.not_understood)
    told += fmt::format("warning: not understood: {}\n", without_controls(unknown));
  told += fmt::format("written to {0}: {1} values, {2} arguments without effect on a step; look at it with panpipe check {0}\n",
                      output, job.values.size(), job.without_effect.size());
  std::fputs(told.c_str(), stderr);
  return 0;
}

// What every trainer's importer has.
CLI::App* add_trainer(CLI::App& sub, std::function<int()>& run, const std::shared_ptr<JobFile>& options, const char* name,
                      const char* description, const char* file) {
  CLI::App* trainer = sub.add_subcommand(name, description);
  trainer->add_option("FILE", options->file, std::string(file) + "; - for standard input")->required();
  trainer->add_option("--cluster", options->job.cluster, "cluster file (default: nodes of eight H100)")->type_name("FILE");
  trainer->add_option("-o", options->output, "scenario to write instead of standard output")->type_name("SCENARIO");
  options->trainer = name;
  trainer->callback([options, &run] {
    run = [options] {
      for (std::string* path : {&options->job.cluster, &options->job.model})
        if (!path->empty()) *path = reference_from(options->output, *path);
      return write_job(import_job(*options), options->output);
    };
  });
  return trainer;
}

void add_gpus(CLI::App& trainer, const std::shared_ptr<JobFile>& options, const char* otherwise) {
  trainer.add_option("--gpus", options->job.gpus, fmt::format("GPUs of the job (default: {})", otherwise))
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 16));
}

void add_model(CLI::App& trainer, const std::shared_ptr<JobFile>& options, const char* when) {
  trainer.add_option("--model", options->job.model, fmt::format("the model's config.json{}", when))->type_name("CONFIG");
  trainer.add_option("--sequence", options->job.sequence, "tokens of a sample")->type_name("N")->check(CLI::Range(1, 1 << 24));
  trainer.add_option("--micro", options->job.micro, "samples of a microbatch, where they are open")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
}

void add_megatron(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<JobFile>();
  CLI::App* megatron = add_trainer(sub, run, options, "megatron", "turn the arguments of a Megatron-LM job into a scenario",
                                   "the arguments as a shell would pass them");
  add_gpus(*megatron, options, "the launcher's arguments");
  megatron->add_option("--vocabulary", options->vocabulary, "tokens of the tokenizer, where the arguments do not state them")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
}

void add_deepspeed(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<JobFile>();
  CLI::App* deepspeed =
      add_trainer(sub, run, options, "deepspeed", "turn a configuration of DeepSpeed into a scenario", "ds_config.json");
  add_gpus(*deepspeed, options, "one node");
  add_model(*deepspeed, options, "; the configuration holds none");
}

void add_accelerate(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<JobFile>();
  CLI::App* accelerate =
      add_trainer(sub, run, options, "accelerate", "turn a configuration of Hugging Face Accelerate into a scenario",
                  "what `accelerate config` writes");
  add_gpus(*accelerate, options, "num_processes");
  add_model(*accelerate, options, "; the configuration holds none");
}

void add_nanotron(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<JobFile>();
  CLI::App* nanotron = add_trainer(sub, run, options, "nanotron", "turn a configuration of nanotron into a scenario",
                                   "the configuration that run_train.py takes");
  add_gpus(*nanotron, options, "the product of the degrees");
  add_model(*nanotron, options, " instead of the configuration's");
}

void add_torchtitan(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<JobFile>();
  CLI::App* torchtitan = add_trainer(sub, run, options, "torchtitan", "turn a configuration of torchtitan into a scenario",
                                     "the TOML file (releases until February 2026)");
  add_gpus(*torchtitan, options, "the product of the degrees, or one node");
  add_model(*torchtitan, options, " instead of the flavor's");
  torchtitan->allow_extras();
  torchtitan->footer("Behind the file stand overrides as torchtitan takes them: --parallelism.tensor_parallel_degree 2.");
  torchtitan->parse_complete_callback([options, torchtitan] { options->overrides = torchtitan->remaining(); });
}

}  // namespace

std::string reference_from(const std::string& output, const std::string& file) {
  namespace fs = std::filesystem;
  if (!fs::exists(file)) return file;
  return fs::proximate(fs::absolute(file), output.empty() ? fs::current_path() : fs::absolute(output).parent_path()).string();
}

void add_job_imports(CLI::App& sub, std::function<int()>& run) {
  add_megatron(sub, run);
  add_deepspeed(sub, run);
  add_accelerate(sub, run);
  add_nanotron(sub, run);
  add_torchtitan(sub, run);
}

}  // namespace panpipe::cli
