#include "jobs/megatron/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

#include "base/error.hpp"
#include "jobs/bounds.hpp"
#include "jobs/captured/captured.hpp"
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

// Its scales and the blocks in bf16 are choices of the framework (framework.cpp).
void read_recipe(MegatronJob& m, const char* option, const std::string& name, const char* otherwise) {
  m.recipe = find_megatron_recipe(name, option == std::string_view("--fp4-format"));
  if (m.recipe == nullptr) m.job.not_modelled.push_back(fmt::format("recipe {} (predicted as {})", one_line(name), otherwise));
  m.job.set("precision", m.recipe != nullptr ? std::string(name_of(m.recipe->precision)) : otherwise,
            fmt::format("{} (recipe {})", option, name));
}

void read_precision(MegatronJob& m) {
  Arguments& a = m.arguments;
  const bool bf16 = a.flag("--bf16"), fp16 = a.flag("--fp16");
  if (bf16 && fp16) a.refuse("--fp16", "contradicts --bf16");
  if (a.flag("--fp4-format")) return read_recipe(m, "--fp4-format", a.text("--fp4-recipe").value_or("nvfp4"), "nvfp4");
  if (a.flag("--fp8-format") || a.flag("--fp8-hybrid")) {
    for (const char* known : {"--fp8-amax-history-len", "--fp8-amax-compute-algo", "--fp8-margin", "--fp8-interval"})
      a.flag(known);
    return read_recipe(m, "--fp8-format", a.text("--fp8-recipe").value_or("delayed"), "fp8");
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

// Defaults of megatron/training/arguments.py and optimizer_config.py.
void read_muon(MegatronJob& m) {
  const auto word = [&](const char* flag, const char* otherwise) { return m.arguments.text(flag).value_or(otherwise); };
  const std::string mode = word("--muon-tp-mode", "duplicated"), scale = word("--muon-scale-mode", "spectral");
  const double factor = m.arguments.number("--muon-extra-scale-factor").value_or(1);
  const bool moonlight = scale == "spectral" && factor == 0.2, known = moonlight || factor == 1;
  const bool whole_mode = mode == "blockwise" || mode == "duplicated" || mode == "distributed" || mode == "layer_sharded";
  if (!whole_mode) m.job.not_modelled.push_back(one_line(fmt::format("--muon-tp-mode {} (predicted as duplicated)", mode)));
  if (!known || (scale != "spectral" && scale != "shape_scaling"))
    m.job.not_modelled.push_back(one_line(fmt::format("--muon-scale-mode {} --muon-extra-scale-factor {}", scale, factor)));
  if (!m.arguments.flag("--muon-no-split-qkv"))
    m.job.not_modelled.emplace_back("orthogonal updates of query, key and value apart (predicted of the fused matrix)");
  if (m.arguments.flag("--muon-use-syrk")) m.job.not_modelled.emplace_back("--muon-use-syrk");
  m.job.set(
      "optimizer",
      fmt::format("{{name: muon, momentum: {:g}, nesterov: {}, newton_schulz_steps: {}, update_scale: {}, tensor_mode: {}}}",
                  m.arguments.number("--muon-momentum").value_or(0.9), m.arguments.flag("--muon-nesterov"),
                  m.arguments.integer("--muon-num-ns-steps", 1, 100).value_or(5),
                  moonlight                  ? "match-rms"
                  : scale == "shape_scaling" ? "original"
                                             : "spectral",
                  !whole_mode               ? "duplicated"
                  : mode == "layer_sharded" ? "layers"
                                            : mode),
      "--optimizer");
}

void read_optimizer(MegatronJob& m) {
  const double share = m.arguments.number("--optimizer-offload-fraction").value_or(1);
  if (m.arguments.flag("--optimizer-cpu-offload"))
    put_offload(m.job, "optimizer", share == 1 ? "cpu" : fmt::format("{} of it in the host's memory", share),
                "--optimizer-cpu-offload");
  const auto blocks = m.arguments.integer("--cpu-offloading-num-layers", 0, 100'000);
  if (blocks.value_or(0) > 0) m.job.set("offload.blocks", std::to_string(*blocks), "--cpu-offloading-num-layers");
  const std::string name = m.arguments.text("--optimizer").value_or("adam");
  if (name == "muon" || name == "dist_muon") return read_muon(m);
  if (name == "soap") return m.job.set("optimizer", name, "--optimizer");
  if (name != "adam" && name != "sgd") {
    m.job.not_modelled.push_back("--optimizer " + name);
    return;
  }
  const std::string states = name == "adam" ? states_of_optimizer(m) : "fp32";
  if (states != "fp32")
    return m.job.set("optimizer", fmt::format("{{name: adamw, states: {}}}", states), "--exp-avg-dtype, --exp-avg-sq-dtype");
  m.job.set("optimizer", name == "adam" ? "adamw" : "sgd", m.arguments.has("--optimizer") ? "--optimizer" : "Megatron's default");
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
  for (const auto part : {read_megatron_parallel, read_megatron_model, read_batch, read_precision, read_megatron_stages,
                          read_megatron_recompute, read_optimizer, read_megatron_framework})
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
