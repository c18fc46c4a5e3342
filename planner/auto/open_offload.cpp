// --method auto once for each place of the state; the plans of all, best first.
#include "planner/auto/open_offload.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "costmodel/cluster/host_path.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/scenario/hosted_text.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "planner/auto/finalists.hpp"
#include "planner/auto/recompute_sets.hpp"
#include "planner/auto/streamed.hpp"
#include "planner/methods.hpp"
#include "planner/schedule_choice.hpp"

namespace panpipe::planner {
namespace {

struct Place {
  HostedState state;
  std::string activations;  // the schedule's option; empty: as the scenario states
  bool streamed = false;    // weights come for the turn of a stage, not with ZeRO 3's gathers
};

// Why no state of this scenario can lie in the host's memory; empty: it can.
std::string state_obstacle(const Scenario& scenario) {
  if (scenario.optimizer.name == "none") return "optimizer 'none' keeps nothing";
  if (!scenario.workload.layers_file.empty()) return "measured layers state the time of their step themselves";
  if (steps_matrices(scenario.optimizer.name))
    return fmt::format("how long a host takes for a step of {} is not known", scenario.optimizer.name);
  return "";
}

void add_states(const Experiment& experiment, OpenOffload open, std::vector<Place>& places, std::vector<std::string>& notes) {
  const Scenario& scenario = experiment.scenario;
  const Trainer& trainer = trainer_of(scenario);
  if (const std::string obstacle = state_obstacle(scenario); !obstacle.empty()) {
    notes.push_back(fmt::format("offload was not searched: {}", obstacle));
    return;
  }
  const auto add = [&](const HostedState& state) {
    if (std::any_of(trainer.offloads.begin(), trainer.offloads.end(), [&](const auto& choice) { return choice.allows(state); }))
      places.push_back({state, ""});
    else
      notes.push_back(fmt::format("not searched, because {} does not have it: {}", trainer.full_title(), hosted_text(state)));
  };
  HostedState state = scenario.offload;
  state.optimizer = state.optimizer || open.optimizer;
  if (open.optimizer) add(state);
  if (!open.parameters) return;
  const std::vector<int> zero = space_of(experiment).zero;
  if (std::find(zero.begin(), zero.end(), 3) == zero.end()) {
    notes.emplace_back("parameters in the host's memory were not searched: that takes ZeRO 3");
    return;
  }
  state.parameters = true;
  add(state);
}

// What the devices hold is first: it is preferred among equals. Activations join the state that leaves the most room.
std::vector<Place> places_of(const Experiment& experiment, OpenOffload open, std::vector<std::string>& notes) {
  const Scenario& scenario = experiment.scenario;
  std::vector<Place> places = {{scenario.offload, ""}};  // what is open counts as none
  if (const std::string obstacle = host_path_obstacle(scenario); !obstacle.empty()) {
    notes.push_back(fmt::format("offload was not searched: {}", obstacle));
    return places;
  }
  if (open.optimizer || open.parameters) add_states(experiment, open, places, notes);
  if (!open.activations) return places;
  if (!trainer_of(scenario).offloads_activations) {
    notes.push_back(fmt::format("not searched, because {} does not have it: activations in the host's memory",
                                trainer_of(scenario).full_title()));
    return places;
  }
  const HostedState most = places.back().state;
  for (const char* choice : {"selective", "full"}) places.push_back({scenario.offload, choice});
  if (places.size() > 3) places.push_back({most, "full"});
  return places;
}

// Whether plans whose weights come for a turn are searched too.
bool streams_too(const Scenario& scenario, OpenOffload open) {
  const HostedState& stated = scenario.offload;
  if (stated.streams || stated.gradients || stated.streams_activations()) return false;  // not together with those
  return open.parameters && state_obstacle(scenario).empty() && host_path_obstacle(scenario).empty() &&
         trainer_of(scenario).runs_schedule("roundpipe");
}

std::string words_of(const Place& place) {
  std::string words = hosted_text(place.state);
  if (place.streamed) return words + ", which come for the turn of a stage";
  if (!place.activations.empty())
    words += fmt::format("{}activations in the host's memory ({})", words.empty() ? "" : " and ", place.activations);
  return words.empty() ? "without offload" : words;
}

Answer search_at(const Place& place, OpenOffload open, const Experiment& experiment, const SearchOptions& options) {
  Scenario scenario = experiment.scenario;
  scenario.offload = place.state;
  if (!place.activations.empty()) scenario.schedule.options["offload"] = place.activations;
  const Experiment there(std::move(scenario));
  Answer answer = place.streamed ? search_streamed(there, options) : search_recompute(there, options);
  for (Candidate& candidate : answer.candidates) {
    if (open.optimizer) candidate.settings.emplace_back("offload.optimizer", place.state.optimizer ? "cpu" : "none");
    if (open.parameters) candidate.settings.emplace_back("offload.parameters", place.state.parameters ? "cpu" : "none");
    if (open.activations)
      candidate.settings.emplace_back("offload.activations", place.activations.empty() ? "none" : place.activations);
  }
  return answer;
}

// What is known of both together; nothing is proved where one found no plan.
SearchState merged(const SearchState& a, const SearchState& b) {
  SearchState all;
  all.evaluated = a.evaluated + b.evaluated;
  all.pruned = a.pruned + b.pruned;
  all.best = a.best == 0 || b.best == 0 ? std::max(a.best, b.best) : std::min(a.best, b.best);
  all.lower_bound = std::min(a.lower_bound, b.lower_bound);
  all.proved_optimal = a.proved_optimal && b.proved_optimal;
  const auto known = [](const SearchState& one) { return one.proved_optimal || !one.proved_but_for.empty(); };
  if (!known(a) || !known(b)) return all;
  all.proved_but_for = a.proved_but_for;
  for (const std::string& family : b.proved_but_for)
    if (std::find(all.proved_but_for.begin(), all.proved_but_for.end(), family) == all.proved_but_for.end())
      all.proved_but_for.push_back(family);
  return all;
}

}  // namespace

std::string host_path_obstacle(const Scenario& scenario) {
  for (int device = 0; device < scenario.cluster.size(); ++device)
    for (const bool away : {true, false})
      if (host_copy_bandwidth(scenario.cluster, device, away) <= Bandwidth(0))
        return fmt::format("device '{}' has no copy_bandwidth", scenario.cluster.type_of(device).name);
  return "";
}

bool may_copy_activations(const Scenario& scenario) {
  return trainer_of(scenario).offloads_activations && scenario.schedule.options.count("offload") == 0 &&
         (written(scenario, "offload", "activations") == nullptr || is_open(scenario, "offload.activations")) &&
         host_path_obstacle(scenario).empty();
}

OpenOffload open_offload(const Scenario& scenario) {
  const auto open = [&](const char* key) {
    return written(scenario, "offload", key) != nullptr && is_open(scenario, fmt::format("offload.{}", key));
  };
  return {open("optimizer"), open("parameters"), open("activations")};
}

Answer search_offload(const Experiment& experiment, const SearchOptions& options) {
  const OpenOffload open = open_offload(experiment.scenario);
  if (!open.any()) return search_recompute(experiment, options);
  Answer answer;
  SearchState all;
  std::vector<std::string> notes, found, notes_of_best;
  std::vector<Place> places = places_of(experiment, open, notes);
  if (streams_too(experiment.scenario, open)) places.push_back({{true, true}, "", true});
  for (const Place& place : places) {
    if (!found.empty() && options.stopped()) break;
    Answer next = search_at(place, open, experiment, options);
    all = found.empty() ? next.search : merged(all, next.search);
    const std::string best = next.candidates.empty() ? "" : next.candidates.front().summary;
    found.push_back(fmt::format("{}: {}", words_of(place), best.empty() ? next.reason : "the best is " + best));
    std::vector<std::string> notes_of_next = std::move(next.notes);
    if (answer.candidates.empty()) {
      next.interrupted |= answer.interrupted;
      answer = std::move(next);
    } else {
      take_over(std::move(next), experiment.scenario, options, answer);
    }
    if (answer.candidates.empty() || answer.candidates.front().summary == best) notes_of_best = std::move(notes_of_next);
  }
  answer.interrupted |= options.stopped();
  answer.search = std::move(all);
  notes.insert(notes.end(), notes_of_best.begin(), notes_of_best.end());
  answer.notes = std::move(notes);
  if (answer.candidates.empty()) {
    answer.reason = fmt::format("{}", fmt::join(found, "; "));
    return answer;
  }
  answer.notes.insert(answer.notes.begin(), found.begin(), found.end());
  if (answer.candidates.front().metrics.front().second <= answer.search.best) return answer;
  answer.search.proved_optimal = false;  // what was proved is of another plan
  answer.search.proved_but_for.clear();
  return answer;
}

}  // namespace panpipe::planner
