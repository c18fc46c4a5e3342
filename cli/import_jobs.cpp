#include "cli/import_jobs.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/trainer_words.hpp"
#include "jobs/import.hpp"
#include "jobs/job_json.hpp"
#include "jobs/stated_options.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::cli {
namespace {

struct JobFile {
  std::string file, output;
  ScriptWords script;
  std::vector<std::string> values;  // all arguments of a script
  bool json = false;
  jobs::JobOptions job;
};

// NAME=VALUE of an option.
std::pair<std::string, std::string> named_value(const char* option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw InputError(fmt::format("{}: '{}' is no NAME=VALUE", option, without_controls(text)));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// As JSON the job is printed also where something of it is not known; then no scenario is written.
int write_json(const jobs::ImportedJob& job, const std::string& output) {
  deliver("", jobs::to_json(job));
  if (!job.unknown.empty()) jobs::refuse_unknown(job);
  if (!output.empty()) deliver(output, jobs::scenario_text(job));
  return 0;
}

// Writes the scenario, and reports on standard error what the job leaves open.
int write_job(jobs::ImportedJob job, const std::string& output) {
  const std::string fault = jobs::add_assumptions_of_model(job, output);
  const std::string warning = fault.empty() ? "" : fmt::format("warning: the scenario does not load:\n{}\n", fault);
  const std::string text = jobs::scenario_text(job);
  if (!deliver(output, text)) {
    print_note(warning);
    return 0;
  }
  std::string reported = warning;
  for (const std::string& assumption : job.assumptions) reported += "assumed: " + without_controls(assumption) + "\n";
  for (const std::string& left : job.not_modelled)
    reported += fmt::format("not part of a prediction: {}\n", without_controls(left));
  for (const std::string& unknown : job.not_understood)
    reported += fmt::format("warning: not understood: {}\n", without_controls(unknown));
  reported +=
      fmt::format("written to {0}: {1} values, {2} arguments without effect on a step; look at it with panpipe check {0}\n",
                  output, job.values.size(), job.without_effect.size());
  print_note(reported);
  return 0;
}

void add_trainer(CLI::App& sub, const std::string& name, const jobs::Importer& importer, std::function<int()>& run) {
  auto options = std::make_shared<JobFile>();
  jobs::JobOptions& job = options->job;
  CLI::App* trainer = add_trainer_word(sub, name, fmt::format("turn {} into a scenario", importer.what));
  trainer->add_option("FILE", options->file, fmt::format("{}; - for standard input", importer.file))->required();
  add_typed(*trainer, "-o", options->output, "scenario to write instead of standard output", "SCENARIO");
  add_job_options(*trainer, job, {"cluster", "gpus"}, {{"gpus", fmt::format("GPUs of the job (default: {})", importer.gpus)}});
  if (!importer.model.empty())
    add_job_options(*trainer, job, {"model", "sequence", "micro"},
                    {{"model", fmt::format("the model's config.json{}", importer.model)}});
  if (importer.vocabulary) add_job_options(*trainer, job, {"vocabulary"});
  if (importer.script) {
    trainer->add_option("VALUE", options->values,
                        "the script's own arguments, all of them; put -- before the first that begins with -");
    add_script_options(*trainer, options->script);
    add_number(*trainer, "--launch", job.launch, "which command, where a script has several that train differently", 1, 1000);
    trainer->add_flag("--json", options->json,
                      "print values with their origins, what is not known, and the words of the command");
  }
  trainer->footer(std::string(importer.notes));
  if (importer.overrides) {
    trainer->allow_extras();
    trainer->parse_complete_callback([options, trainer] { options->job.overrides = trainer->remaining(); });
  }
  trainer->callback([options, name, &run] {
    run = [options, name] {
      refer_from(options->output, options->job);
      jobs::LaunchOptions& script = options->job.script;
      for (std::size_t i = 0; i < options->values.size(); ++i) script.arguments[static_cast<int>(i) + 1] = options->values[i];
      script.all_arguments = !options->values.empty();
      read_script_words(options->script, script);
      options->job.keeps_unknown = options->json;
      if (options->json) return write_json(import_job(name, options->file, options->job), options->output);
      return write_job(import_job(name, options->file, options->job), options->output);
    };
  });
}

}  // namespace

void add_job_options(CLI::App& sub, jobs::JobOptions& job, const std::set<std::string>& names,
                     const std::map<std::string, std::string>& meanings, const std::string& group) {
  for (const jobs::StatedOption& row : jobs::stated_options()) {
    if (!names.contains(row.name)) continue;
    const auto other = meanings.find(row.name);
    const std::string option = fmt::format("--{}", row.name), meaning = other == meanings.end() ? row.meaning : other->second;
    CLI::Option* added = row.text != nullptr ? add_typed(sub, option, job.*row.text, meaning, row.type)
                                             : add_number(sub, option, job.*row.number, meaning, 1, row.most);
    if (!group.empty()) added->group(group);
  }
}

void refer_from(const std::string& output, jobs::JobOptions& job) {
  for (std::string* path : {&job.cluster, &job.model})
    if (!path->empty()) *path = reference_from(output, *path);
}

void add_script_options(CLI::App& sub, ScriptWords& words, const std::string& group) {
  CLI::Option* define = add_repeatable(sub, "--define", words.defines,
                                       "a variable's value, whatever the script assigns; may be repeated", "NAME=VALUE");
  CLI::Option* argument =
      add_repeatable(sub, "--argument", words.arguments, "an argument of the script, from 1; may be repeated", "N=VALUE");
  if (group.empty()) return;
  define->group(group);
  argument->group(group);
}

void read_script_words(const ScriptWords& words, jobs::LaunchOptions& script) {
  for (const std::string& text : words.defines) {
    const auto [name, value] = named_value("--define", text);
    script.defines[name] = value;
  }
  for (const std::string& text : words.arguments) {
    const auto [name, value] = named_value("--argument", text);
    const bool digits = name.find_first_not_of("0123456789") == std::string::npos && name.size() < 4;
    if (!digits || std::stoi(name) == 0)
      throw InputError(fmt::format("--argument: '{}' is no number of an argument", without_controls(name)));
    script.arguments[std::stoi(name)] = value;
  }
}

std::string reference_from(const std::string& output, const std::string& file) {
  namespace fs = std::filesystem;
  if (!fs::exists(file)) return file;
  return fs::proximate(fs::absolute(file), output.empty() ? fs::current_path() : fs::absolute(output).parent_path()).string();
}

void add_job_imports(CLI::App& sub, std::function<int()>& run) {
  for (const jobs::TrainerJobs& jobs : jobs::trainer_jobs())
    if (jobs.importer.read != nullptr) add_trainer(sub, std::string(jobs.name), jobs.importer, run);
}

}  // namespace panpipe::cli
