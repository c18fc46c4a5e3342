// panpipe check: what was understood, before anything is predicted.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>

#include "app/lists.hpp"
#include "base/error.hpp"
#include "base/index_ranges.hpp"
#include "base/input/shipped.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "cli/verbs.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/cluster/links_matrix.hpp"
#include "costmodel/prediction/memory_hints.hpp"
#include "costmodel/prediction/plan_cautions.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "costmodel/workload/movable_units.hpp"
#include "present/result/heading.hpp"

namespace panpipe::cli {
namespace {

std::string operators_of(const Experiment& experiment) {
  if (!experiment.workload.graph) throw NoAnswer("the workload consists of measured layers, which have no operators");
  return experiment.workload.graph->to_text();
}

// The text without the lines that `left_out` names, and how many these are.
template <class LeftOut>
std::pair<std::string, std::size_t> without_lines(const std::string& text, LeftOut left_out) {
  std::pair<std::string, std::size_t> rest;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    if (left_out(line))
      ++rest.second;
    else
      rest.first += line;
    at = end;
  }
  return rest;
}

constexpr const char* kReasons = "       not before ";  // how a unit's reasons begin

std::string units_of(const Experiment& experiment, bool json, bool all) {
  if (!experiment.workload.graph)
    throw NoAnswer("the workload consists of measured layers, which have no operators: each layer is a unit of its own");
  if (json) return units_json(*experiment.workload.graph);
  const std::string text = units_table(*experiment.workload.graph);
  if (all) return text;
  const auto [units, reasons] = without_lines(text, [](const std::string& line) { return line.rfind(kReasons, 0) == 0; });
  return units +
         fmt::format("--all shows why no cut may stand inside these units ({} line{})\n", reasons, reasons == 1 ? "" : "s");
}

// Every line as a comment of YAML: what is printed is a scenario that loads again.
std::string commented(const std::string& lines) {
  std::string out;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    out += "# " + lines.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

// A comment that holds a value of a file which the scenario names, or of its model.
bool is_value_of_a_file(const std::string& line) {
  const std::size_t at = line.find_first_not_of(' ');
  return at > 0 && at != std::string::npos && line[at] == '#';
}

// With what a plan that does not fit, or hardly, would. Devices may lack the rates without which no step is known.
std::string memory_lines(const Scenario& scenario, const Plan& plan) {
  std::string text;
  try {
    for (const MemoryHint& hint : memory_hints(scenario, plan)) text += fmt::format("# memory: with {}\n", to_text(hint));
  } catch (const InputError&) {
  } catch (const NoAnswer&) {
  }
  return text;
}

// Prints the scenario's heading and whether it can be planned, then the scenario. A scenario that is well-formed and cannot be
// planned is found here, not at the first prediction.
std::string resolved_and_planned(const Experiment& experiment, bool all) {
  const Plan plan = experiment.plan("");
  const int devices = experiment.scenario.cluster.size();
  const std::vector<int> unused = unused_indices(plan.devices, devices);
  std::string text = commented(present::heading_of(experiment.scenario, experiment.workload, plan)) +
                     fmt::format("# {} stages on {} devices: legal\n", plan.stages.size(), plan.devices.size()) +
                     (unused.empty() ? "" : "# warning: " + unused_devices_text(unused, devices) + "\n");
  for (const std::string& caution : plan_cautions(experiment.scenario, plan)) text += fmt::format("# caution: {}\n", caution);
  text += memory_lines(experiment.scenario, plan);
  for (const std::string& assumption : assumptions_of(experiment.scenario.workload))
    text += fmt::format("# assumed: {}\n", assumption);
  const std::string resolved = resolved_text(experiment.scenario);
  if (all) return text + resolved;
  const auto [own, values] = without_lines(resolved, is_value_of_a_file);
  text += own;
  if (values > 0)
    text += fmt::format("# --all shows {} more value{}, of the files and the model that are named here\n", values,
                        values == 1 ? "" : "s");
  return text;
}

// The file as it stands, `--set` applied: of a cluster file, `--set nodes=4`.
NodePtr document_of(const std::string& file, const std::vector<std::string>& overrides) {
  NodePtr root = load_document(file);
  for (const std::string& assignment : overrides) apply_override(*root, assignment);
  return root;
}

// The file of a shipped cluster that is called by the name that `list` prints. For a name of another list the error states which
// list has it.
std::string file_named(const std::string& given) {
  std::error_code ignored;
  if (std::filesystem::exists(given, ignored)) return given;
  for (const app::ListKind& kind : app::list_kinds())
    for (const app::ListedItem& item : kind.items()) {
      if (item.name != given) continue;
      if (std::string_view(kind.name) == "clusters") return shipped_file("clusters", given);
      throw InputError(fmt::format("{}: there is no such file; it is a name of panpipe list {}", given, kind.name),
                       fmt::format("a scenario names it: {}", kind.key), code::kNoFile);
    }
  return given;
}

bool is_cluster_file(const std::string& file) {
  const NodePtr root = load_document(file);
  const Node* kind = root->kind == NodeKind::Map ? root->find("kind") : nullptr;
  return kind != nullptr && kind->kind == NodeKind::Scalar && kind->text == "cluster";
}

// Where its numbers come from is asked for with --all.
bool is_a_source(const ResolvedValue& value) {
  return value.path.rfind("sources.", 0) == 0 || value.path.find(".sources.") != std::string::npos;
}

// A cluster on its own: its devices, then every value with its origin.
std::string cluster_text(const Cluster& cluster, const Node& root, std::vector<ResolvedValue> values, bool all) {
  const Node* description = root.find("description");
  const std::size_t sources = all ? 0 : std::erase_if(values, is_a_source);
  std::string text = fmt::format("# {}: {}\n", cluster.name, present::devices_of(cluster));
  if (description != nullptr) text += fmt::format("# {}\n", description->text);
  std::size_t width = 0;
  for (const ResolvedValue& value : values) width = std::max(width, value.path.size() + value.value.size() + 2);
  width = std::min<std::size_t>(width, 48);  // where origins start, unless the line is longer
  for (const ResolvedValue& value : values)
    text += fmt::format("{:<{}}  # {}\n", value.path + ": " + value.value, width, value.origin);
  if (sources > 0) text += fmt::format("# --all shows {} sources of these numbers\n", sources);
  return text + fmt::format("# {} device{}: legal; --links shows the path between each pair\n", cluster.size(),
                            cluster.size() == 1 ? "" : "s");
}

std::string check_cluster(const std::string& file, const std::vector<std::string>& overrides, bool links, bool json, bool all) {
  const NodePtr root = document_of(file, overrides);
  ReadLog log;
  const Cluster cluster = read_cluster(*root, log);
  log.throw_if_errors();
  if (links) return json ? links_json(cluster) + "\n" : links_matrix(cluster);
  return cluster_text(cluster, *root, log.resolved_values(), all);
}

std::string between(const std::string& text) { return text.empty() ? "" : "\n"; }

}  // namespace

void add_check_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings : ScenarioOptions {
    bool links = false, costs = false, operators = false, units = false, json = false, all = false;
  };
  auto options = std::make_shared<Settings>();
  add_scenario_options(sub, *options);
  sub.get_option("SCENARIO")->description("scenario file, or cluster file (YAML), or the name of a shipped cluster");
  sub.add_flag("--links", options->links, "print the bandwidth and latency of every pair of devices");
  sub.add_flag("--costs", options->costs, "print the costs that predictions use, and where each comes from");
  sub.add_flag("--operators", options->operators, "print the operator graph of one microbatch");
  sub.add_flag("--units", options->units, "print the operators that stay together when the model is cut");
  sub.add_flag("--all", options->all,
               "also the values of files that the scenario names; with --units, why no cut may stand inside a unit");
  sub.add_flag("--json", options->json, "with --links, --costs or --units: as a JSON document");
  run = [options] {
    options->scenario = file_named(options->scenario);
    if (is_cluster_file(options->scenario)) {
      if (options->costs || options->operators || options->units)
        throw InputError(fmt::format(
            "{} is a cluster file: --costs, --operators and --units need a scenario, which names a model", options->scenario));
      if (options->json && !options->links) throw InputError("--json of a cluster file needs --links, which is a document");
      print(check_cluster(options->scenario, options->overrides, options->links, options->json, options->all));
      return 0;
    }
    Scenario scenario = options->load();
    if (options->json && options->links + options->costs + options->units != 1)
      throw InputError("--json needs exactly one of --links, --costs and --units: each is a document");
    std::string text;
    if (options->links) text = options->json ? links_json(scenario.cluster) + "\n" : links_matrix(scenario.cluster);
    if (options->costs || options->operators || options->units || !options->links) {
      const Experiment experiment(std::move(scenario));
      if (options->costs)
        text += between(text) + (options->json ? costs_json(experiment.model) + "\n" : costs_table(experiment.model));
      if (options->operators) text += between(text) + operators_of(experiment);
      if (options->units) text += between(text) + units_of(experiment, options->json, options->all);
      if (text.empty()) text = resolved_and_planned(experiment, options->all);
    }
    print(text);
    return 0;
  };
}

}  // namespace panpipe::cli
