#include "cli/plan_sizes.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/text/run_quantity_text.hpp"
#include "cli/output.hpp"
#include "present/result/heading.hpp"
#include "study/sizes/sizes.hpp"

namespace panpipe::cli {
namespace {

using planner::SizeKey;
using planner::SizeObjective;
using planner::TriedSize;

constexpr int kMostGpus = 4096;  // that are tried without being asked for: a search over more takes minutes

template <class T>
T parsed(const char* option, const std::string& text, Parsed<T> (*parse)(std::string_view)) {
  const Parsed<T> value = parse(text);
  if (!value.value) throw InputError(fmt::format("{}: {}", option, value.problem));
  return *value.value;
}

std::vector<int> sizes_of(const SizeOptions& options, const SizeKey& key) {
  if (!options.gpus.empty() && !options.nodes.empty())
    throw InputError("panpipe plan: give --gpus or --nodes, not both: they say the same");
  if (!options.nodes.empty() && key.devices == 1 && std::string_view(key.key) == "cluster.devices")
    throw InputError("--nodes: a cluster written in place has no nodes\n  help: give --gpus");
  std::vector<int> sizes = options.nodes;
  for (const int gpus : options.gpus) {
    if (gpus % key.devices != 0)
      throw InputError(fmt::format("--gpus {}: this cluster's nodes have {} devices each, and {} is no multiple of it", gpus,
                                   key.devices, gpus));
    sizes.push_back(gpus / key.devices);
  }
  return sizes;
}

std::optional<SizeObjective> objective_of(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return name == "step" ? SizeObjective::Step : name == "cost" ? SizeObjective::Cost : SizeObjective::Energy;
}

planner::SizeRequest request_of(const SizeOptions& options, const SizeCall& call, const Scenario& scenario, const SizeKey& key) {
  planner::SizeRequest request;
  request.sizes = sizes_of(options, key);
  request.objective = objective_of(call.objective);
  if (!options.deadline.empty()) {
    if (parse_number(options.deadline).value)  // of a whole run: other durations are offered in microseconds
      throw InputError(fmt::format("--deadline: '{0}' has no unit; write '{0} h' or '{0} d'", options.deadline));
    request.deadline = parsed<Duration>("--deadline", options.deadline, parse_duration);
    if (*request.deadline <= Duration(0)) throw InputError(fmt::format("--deadline: '{}' must be positive", options.deadline));
  }
  if (!options.budget.empty()) {
    request.budget = parsed<Money>("--budget", options.budget, parse_money);
    if (request.budget->amount <= 0) throw InputError(fmt::format("--budget: '{}' must be positive", options.budget));
  }
  if (!request.limited() && !request.objective) request.objective = SizeObjective::Step;
  // Within limits any size may be the answer; an objective alone is about what there is.
  request.most = request.limited() ? std::max(1, kMostGpus / key.devices) : scenario.cluster.size() / key.devices;
  return request;
}

// The best plan on so many nodes.
class SizeSearch {
 public:
  SizeSearch(const SizeCall& call, const SizeKey& key) : call_(call), key_(key) {}

  TriedSize at(int nodes) {
    TriedSize size;
    size.nodes = nodes;
    size.gpus = nodes * key_.devices;
    if (progress_wanted()) std::fputs(fmt::format("\r\x1b[Ktrying {} GPUs\r", size.gpus).c_str(), stderr);
    try {
      std::vector<std::string> overrides = call_.overrides;
      overrides.push_back(fmt::format("{}={}", key_.key, nodes));
      auto experiment = std::make_unique<Experiment>(load_scenario(call_.scenario, overrides));
      planner::Answer answer = call_.search(*experiment);
      describe(answer, size);
      found_[nodes] = {std::move(experiment), std::move(answer)};
    } catch (const InputError& error) {
      size.reason = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
    } catch (const NoAnswer& error) {
      size.reason = error.what();
    }
    if (progress_wanted()) std::fputs("\r\x1b[K", stderr);
    return size;
  }

  void keep(int nodes) {
    const auto& [experiment, answer] = found_.at(nodes);
    if (call_.keep) call_.keep(*experiment, answer, fmt::format("--set {}={}", key_.key, nodes));
  }

 private:
  static void describe(const planner::Answer& answer, TriedSize& size) {
    if (answer.candidates.empty()) {
      size.reason = answer.reason.empty() ? "no feasible plan" : answer.reason;
      return;
    }
    const planner::Candidate& best = answer.candidates.front();
    size.plan = best.summary;
    size.run = best.run;
    const auto& figures = answer.simulation_decides && !best.simulated.empty() ? best.simulated : best.metrics;
    for (const auto& [name, value] : figures) {
      if (name == "step_time_s") size.step_time_s = value;
      if (name == "samples_per_s") size.samples = value;
    }
    size.samples = std::round(size.samples * size.step_time_s);
    if (!size.run) size.reason = "the engines cannot run this plan";
  }

  const SizeCall& call_;
  SizeKey key_;
  std::map<int, std::pair<std::unique_ptr<Experiment>, planner::Answer>> found_;
};

}  // namespace

void add_size_options(CLI::App& sub, SizeOptions& options) {
  sub.add_option("--gpus", options.gpus, "plan for clusters of so many GPUs each: --gpus 8,16,32")
      ->type_name("N,N")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'000'000));
  sub.add_option("--nodes", options.nodes, "the same by nodes: --nodes 1,2,4")
      ->type_name("N,N")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'000'000));
  sub.add_option("--deadline", options.deadline, "how many GPUs train the whole run in so long: --deadline 7d")
      ->type_name("TIME");
  sub.add_option("--budget", options.budget, "how many GPUs train the whole run for so much: --budget 50000USD")
      ->type_name("MONEY");
  sub.add_option("--tokens", options.tokens, "the tokens of the whole run, as run.tokens: --tokens 300B")->type_name("COUNT");
}

bool asks_for_sizes(const SizeOptions& options, const std::string& objective) {
  return !options.gpus.empty() || !options.nodes.empty() || !options.deadline.empty() || !options.budget.empty() ||
         objective == "cost" || objective == "energy";
}

std::vector<std::string> with_run(const SizeOptions& options, std::vector<std::string> overrides) {
  if (!options.tokens.empty()) overrides.push_back("run.tokens=" + options.tokens);
  return overrides;
}

int run_sizes(const SizeOptions& options, const SizeCall& call) {
  const Scenario scenario = load_scenario(call.scenario, call.overrides);
  if (!scenario.run)
    throw InputError(
        fmt::format("{}: the scenario does not say how much is trained\n"
                    "  help: give --tokens 300B, or state it, as in 'run: {{tokens: 300B}}'",
                    call.scenario));
  const SizeKey key = planner::size_key(scenario);
  const planner::SizeRequest request = request_of(options, call, scenario, key);
  planner::check_request(request, *scenario.run);
  SizeSearch search(call, key);
  const std::vector<TriedSize> tried = planner::try_sizes(request, [&](int nodes) { return search.at(nodes); });
  planner::check_deadline(request, tried);
  if (call.json)
    print(planner::to_json(request, tried));
  else
    show(heading_of_sweep(scenario, make_workload(scenario), {key.key}, true) +
         planner::to_table(request, tried, style_of_output().width));
  const int best = planner::best_size(request, tried);
  if (best < 0) return static_cast<int>(ExitCode::CheckFailed);
  search.keep(tried[static_cast<std::size_t>(best)].nodes);
  return static_cast<int>(ExitCode::Done);
}

}  // namespace panpipe::cli
