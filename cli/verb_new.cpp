// panpipe new: a scenario to start from, with a comment on every line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/input/reader.hpp"
#include "base/input/scalar_text.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "costmodel/workload/model_config.hpp"

namespace panpipe::cli {
namespace {

struct NewSettings {
  std::string model = "gpt2", cluster = "rtx3090x8", schedule = "1f1b", output;
  bool force = false;
};

std::string line(const std::string& text, const std::string& comment) { return fmt::format("{:<43} # {}\n", text, comment); }

constexpr int kUsualSequence = 4096;

// A built-in model by its name, or the file of one: config.json (also by its folder) or an exported model. Files are named from
// the folder of the scenario `output`; where it is empty, from the working directory.
std::string workload_of(const NewSettings& settings, const std::string& output) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path file = settings.model;
  if (fs::is_directory(file, ignored)) file /= "config.json";
  const bool exported = file.extension() == ".pt2";
  if (!exported && file.extension() != ".json") return fmt::format("{{model: {}}}", scalar_text(settings.model));
  std::string named = file.string();
  if (fs::exists(file, ignored) && !output.empty() && !file.is_absolute())
    named = fs::relative(fs::absolute(file), fs::absolute(output).parent_path(), ignored).string();
  if (exported) return fmt::format("{{pt2: {}}}", scalar_text(named));
  const auto found = find_file(file.string(), "");
  const int positions = found ? read_model_config(*found, 0).dimensions.positions : kUsualSequence;
  return fmt::format("{{config: {}, sequence: {}}}", scalar_text(named), std::min(positions, kUsualSequence));
}

// Where references of the scenario start.
std::string folder_of(const NewSettings& settings) {
  return settings.output.empty() ? "" : std::filesystem::absolute(settings.output).parent_path().string();
}

std::string scenario_text(const NewSettings& settings, const std::string& precision, int microbatches, int replicas) {
  std::string text =
      "# A scenario of Panpipe. `panpipe check` says what each key was understood as, `panpipe estimate` predicts a step,\n"
      "# `panpipe plan` searches whatever is left out or `auto`. Every key: docs/keys.md.\n";
  text += line("panpipe: 1", "the format of this file");
  text += line("cluster: " + scalar_text(settings.cluster),
               "panpipe list clusters; a file of your own: {file: my-cluster.yaml, nodes: 2}");
  text += line("workload: " + workload_of(settings, settings.output),
               "panpipe list models; {config: FILE} for a config.json of Hugging Face; {pt2: FILE} for an exported model "
               "(docs/models/exported.md)");
  text += line(fmt::format("batch: {{micro: 1, microbatches: {}}}", microbatches),
               "samples a microbatch, microbatches a step of each replica; or {micro, global}");
  text += line("precision: " + precision, "fp32, tf32, bf16, fp16, bf16-pure, fp16-pure");
  text += line("schedule: " + scalar_text(settings.schedule), "panpipe list schedules; options as {name: kfkb, group: 4}");
  text +=
      line(fmt::format("parallel: {{tensor: 1, data: {}, zero: 0}}", replicas), "the pipeline gets the devices that these leave");
  text += line("# recompute: none", "none, selective, full");
  text += line("# trainer: megatron-core", "the program that trains: panpipe list trainers; without it, as suits the model");
  text += line("# optimizer: adam", "none, sgd, momentum, adam, adamw, muon, with options as a map (docs/training.md)");
  return text;
}

// The rate that training usually runs at, where every device has it.
std::string precision_for(const Cluster& cluster) {
  for (const DeviceType& type : cluster.types)
    if (!type.has_rates() || type.peak_for(Precision::Bf16) <= ComputeRate(0)) return "fp32";
  return "bf16";
}

// The names that were given, in the place of the defaults; a fault of one stands at its option. An override names its file from
// the working directory, as options do.
Scenario draft_of(const NewSettings& settings) {
  const std::vector<std::tuple<const char*, std::string, std::string>> names = {
      {"--cluster", "cluster", settings.cluster},
      {"--model", "workload", workload_of(settings, "")},
      {"--schedule", "schedule", settings.schedule}};
  std::vector<std::string> overrides;
  const auto override_of = [](const std::string& key, const std::string& value) {
    return key + "=" + (key == "workload" ? value : scalar_text(value));
  };
  for (const auto& [option, key, name] : names) overrides.push_back(override_of(key, name));
  try {
    return parse_scenario(scenario_text({}, "fp32", 1, 1), "panpipe new", folder_of(settings), overrides);
  } catch (const InputError& error) {
    std::vector<Diagnostic> faults = error.diagnostics();
    for (Diagnostic& fault : faults)
      for (const auto& [option, key, name] : names)
        if (fault.override_text == override_of(key, name))
          fault.place = fmt::format("{} {}", option, key == "workload" ? settings.model : name);
    throw InputError(faults);
  }
}

int make_new(const NewSettings& settings) {
  if (!settings.output.empty()) check_outputs({settings.output}, kAdvice);
  std::error_code ignored;
  if (!settings.output.empty() && !settings.force && !is_written_into(settings.output) &&
      std::filesystem::exists(settings.output, ignored))
    throw InputError(fmt::format("the file {} exists, and may have been edited", settings.output),
                     fmt::format("{}, or replace it with --force", kAdvice));
  const Scenario draft = draft_of(settings);
  // A pipeline through each node, or through eight devices of a larger one: small models have no more stages.
  const int devices = std::max(1, draft.cluster.size());
  int pipeline = std::clamp(devices / std::max(1, draft.cluster.nodes), 1, 8);
  while (devices % pipeline != 0) --pipeline;
  const int replicas = devices / pipeline, microbatches = 4 * pipeline;  // a bubble of about a fifth of the step
  const std::string text = scenario_text(settings, precision_for(draft.cluster), microbatches, replicas);
  const Experiment experiment(parse_scenario(text, "panpipe new", folder_of(settings)));
  (void)experiment.plan("");
  if (deliver(settings.output, text)) print_note(fmt::format("written to {0}; next: panpipe estimate {0}\n", settings.output));
  return 0;
}

}  // namespace

void add_new_verb(CLI::App& sub, std::function<int()>& run) {
  auto settings = std::make_shared<NewSettings>();
  add_typed(sub, "--model", settings->model,
            "a built-in model (panpipe list models), a config.json or its folder, or an exported model (.pt2); default gpt2",
            "NAME|FILE");
  add_typed(sub, "--cluster", settings->cluster, "a shipped cluster (panpipe list clusters) or a file; default rtx3090x8",
            "NAME");
  add_typed(sub, "--schedule", settings->schedule, "a schedule (panpipe list schedules); default 1f1b", "NAME");
  add_typed(sub, "-o", settings->output, "scenario to write instead of standard output", "FILE");
  sub.add_flag("--force", settings->force, "replace the file of -o if it exists");
  run = [settings] { return make_new(*settings); };
}

}  // namespace panpipe::cli
