#include "app/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "app/plan_question.hpp"
#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "base/stop.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/run_quantity_text.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "sim/simulate.hpp"

namespace panpipe::app {
namespace {

using study::SizeKey;
using study::SizeObjective;
using study::TriedSize;

void check_trainer_wanted(const SearchRequest& options) {
  if (options.trainer.empty()) return;
  if (options.method != "auto")
    throw option_fault("for", fmt::format("the method auto plans for a trainer, {} does not", options.method), "",
                       code::kConflict);
  trainer_name_of(options.trainer);
}

void check_objective(const SearchRequest& options) {
  const std::vector<std::string> known = {"step", "cost", "energy"};
  const std::string& objective = options.objective;
  if (objective.empty() || planner::method_named(options.method) == planner::Method::Piper) return;
  if (std::find(known.begin(), known.end(), objective) == known.end()) throw unknown_choice("objective", objective, known);
}

constexpr int kMostGpus = 4096;  // that are tried without being asked for: a search over more takes minutes

template <class T>
T parsed(const char* option, const std::string& text, Parsed<T> (*parse)(std::string_view)) {
  const Parsed<T> value = parse(text);
  if (!value.value) throw option_fault(option, value.problem, "", code::kNotANumber);
  return *value.value;
}

void check_positive(const char* option, const std::string& text, bool positive) {
  if (!positive) throw option_fault(option, fmt::format("'{}' must be positive", text), "", code::kOutOfRange);
}

std::optional<study::SizeObjective> objective_of(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return name == "step" ? study::SizeObjective::Step : name == "cost" ? study::SizeObjective::Cost : study::SizeObjective::Energy;
}

study::SizeRequest request_of(const SizeOptions& options, const std::string& objective, const Scenario& scenario,
                              const study::SizeKey& key) {
  study::SizeRequest request;
  request.sizes = sizes_of(options, key);
  request.objective = objective_of(objective);
  if (!options.deadline.empty()) {
    if (parse_number(options.deadline).value)  // of a whole run: other durations are offered in microseconds
      throw option_fault("deadline", fmt::format("'{0}' has no unit; write '{0} h' or '{0} d'", options.deadline), "",
                         code::kNotANumber);
    request.deadline = parsed<Duration>("deadline", options.deadline, parse_duration);
    check_positive("deadline", options.deadline, *request.deadline > Duration(0));
  }
  if (!options.budget.empty()) {
    request.budget = parsed<Money>("budget", options.budget, parse_money);
    check_positive("budget", options.budget, request.budget->amount > 0);
  }
  if (!request.limited() && !request.objective) request.objective = study::SizeObjective::Step;
  // Within limits any size may be the answer; an objective alone is about what there is.
  request.most = request.limited() ? std::max(1, kMostGpus / key.devices) : scenario.cluster.size() / key.devices;
  return request;
}

// The best plan on so many nodes.
class SizeSearch {
 public:
  // A plan is the same whatever of a run's figures is looked at: on one cluster they all grow with the step.
  SizeSearch(const PlanQuestion& question, const Search& search, SizesAnswer& answer)
      : question_(question), search_(search), answer_(answer), request_(question.request()) {
    request_.objective.clear();
  }

  study::TriedSize at(int nodes) {
    study::TriedSize size;
    size.nodes = nodes;
    size.gpus = nodes * answer_.key.devices;
    try {
      auto experiment = std::make_unique<Experiment>(question_.searched({size_setting(answer_.key, nodes)}));
      planner::Answer found = search_(*experiment, request_);
      throw_if_stopped();
      describe(found, size);
      answer_.found[nodes] = {std::move(experiment), std::move(found)};
    } catch (const InputError& error) {
      size.reason = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
    } catch (const NoAnswer& error) {
      size.reason = error.what();
    }
    return size;
  }

 private:
  static void describe(const planner::Answer& answer, study::TriedSize& size) {
    if (answer.candidates.empty()) {
      size.reason = answer.reason.empty() ? "no feasible plan" : answer.reason;
      return;
    }
    const planner::Candidate& best = answer.candidates.front();
    size.plan = best.summary;
    size.run = best.run;
    size.idle = static_cast<int>(planner::unused_devices(answer, best).size());
    const auto& figures = answer.simulation_decides && !best.simulated.empty() ? best.simulated : best.metrics;
    for (const auto& [name, value] : figures) {
      if (name == "step_time_s") size.step_time_s = value;
      if (name == "samples_per_s") size.samples = value;
    }
    size.samples = std::round(size.samples * size.step_time_s);
    if (!size.run) size.reason = "the engines cannot run this plan";
  }

  const PlanQuestion& question_;
  const Search& search_;
  SizesAnswer& answer_;
  SearchRequest request_;
};

}  // namespace

std::vector<int> sizes_of(const SizeOptions& options, const study::SizeKey& key) {
  if (!options.gpus.empty() && !options.nodes.empty())
    throw option_fault("nodes", "GPUs and nodes say the same: give one of the two", "", code::kConflict);
  if (!options.nodes.empty() && key.devices == 1 && std::string_view(key.key) == "cluster.devices")
    throw option_fault("nodes", "a cluster written in place has no nodes", "give the number of GPUs");
  std::vector<int> sizes = options.nodes;
  for (const int gpus : options.gpus) {
    if (gpus % key.devices != 0)
      throw option_fault(
          "gpus", fmt::format("this cluster's nodes have {} devices each, and {} is no multiple of it", key.devices, gpus));
    sizes.push_back(gpus / key.devices);
  }
  return sizes;
}

void add_assumptions(planner::Answer& answer, const Experiment& searched) {
  for (const std::string& assumption : assumptions_of(searched.scenario.workload))
    answer.notes.push_back("assumed: " + assumption);
}

std::optional<PlanFile> plan_file_of(const planner::Answer& answer, const Experiment& experiment) {
  for (std::size_t i = 0; i < answer.candidates.size(); ++i) {
    const planner::Candidate& candidate = answer.candidates[i];
    if (!candidate.plan) continue;
    std::string yaml = to_yaml(*candidate.plan, experiment.model.units(experiment.scenario.cluster.devices.front().type));
    constexpr std::string_view kOffload = "offload.";
    std::vector<std::string> places;
    for (const auto& [key, value] : candidate.settings)
      if (key.starts_with(kOffload)) places.push_back(fmt::format("{}: {}", key.substr(kOffload.size()), value));
    if (!candidate.recomputed.empty()) yaml += fmt::format("recompute: {{operators: [{}]}}\n", names_of(candidate.recomputed));
    if (!places.empty()) yaml += fmt::format("offload: {{{}}}\n", fmt::join(places, ", "));
    return PlanFile{std::move(yaml), i};
  }
  return std::nullopt;
}

void check_search_request(const SearchRequest& request) {
  check_objective(request);
  check_trainer_wanted(request);
}

planner::SearchOptions search_options_of(const SearchRequest& request) {
  planner::SearchOptions options;
  options.method = planner::method_named(request.method);
  options.threads = request.threads > 0 ? request.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // The step is what the other methods look at anyway.
  const bool of_piper = options.method == planner::Method::Piper;
  options.objective = request.objective == "step" && !of_piper ? "" : request.objective;
  options.candidates = request.candidates;
  options.simulate = sim::simulate_for_search;  // the planner knows no simulator
  return options;
}

bool asks_for_sizes(const SizeOptions& options, const std::string& objective) {
  return !options.gpus.empty() || !options.nodes.empty() || !options.deadline.empty() || !options.budget.empty() ||
         objective == "cost" || objective == "energy";
}

std::string size_setting(const study::SizeKey& key, int nodes) { return fmt::format("{}={}", key.key, nodes); }

SizesAnswer answer_sizes(const PlanQuestion& question, const Search& search, const std::function<void(int gpus)>& trying) {
  if (planner::method_named(question.request().method) == planner::Method::Piper)
    throw option_fault("method", "piper plans for the devices of its problem; auto and pfeife compare sizes", "",
                       code::kConflict);
  const Scenario scenario = question.searched();
  if (!scenario.run)
    throw option_fault("tokens",
                       fmt::format("{}{} does not say how much is trained",
                                   question.name().starts_with("the scenario of ") ? "" : "the scenario ", question.name()),
                       "300B, or state it in the scenario, as in 'run: {tokens: 300B}'", code::kMissingKey);
  SizesAnswer answer;
  answer.key = study::size_key(scenario);
  answer.request = request_of(question.sizes(), question.request().objective, scenario, answer.key);
  study::check_request(answer.request, *scenario.run);
  SizeSearch best(question, search, answer);
  answer.tried = study::try_sizes(answer.request, [&](int nodes) {
    if (trying) trying(nodes * answer.key.devices);
    return best.at(nodes);
  });
  if (trying) trying(0);
  study::check_deadline(answer.request, answer.tried);
  answer.best = study::best_size(answer.request, answer.tried);
  return answer;
}

}  // namespace panpipe::app
