// The search for a plan: options and answer. Values that the scenario states stay fixed; absent or `auto` values are searched. If
// it states a trainer, the method auto searches what that trainer can run.
// Methods have one folder each: pfeife/ (cuts and schedule together), piper/ (degrees and recompute per stage, exact), auto/
// (everything, on a cluster). A search uses only as many threads as it is given.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe::planner {

enum class Method : std::uint8_t { Auto, Pfeife, Piper };
std::string_view name_of(Method method);       // "auto", ...
Method method_named(const std::string& name);  // throws InputError for an unknown name

// Progress of a search, and its result at the end.
struct SearchState {
  std::int64_t evaluated = 0;   // candidates whose objective was computed
  std::int64_t pruned = 0;      // excluded without evaluation by a bound, a memory limit or illegality
  double best = 0;              // least objective found; 0 = none yet
  double lower_bound = 0;       // bound on the objective in the searched space
  bool proved_optimal = false;  // for the objective in the first candidate's metrics
  // Where it would be proved but for these families, of which the work alone is a bound; else empty.
  std::vector<std::string> proved_but_for = {};
};

struct SearchOptions {
  Method method = Method::Auto;
  int threads = 1;
  std::string objective;                             // for piper: "time_per_sample" (also when empty) or "step"
  std::size_t candidates = 5;                        // number of plans returned; it does not change the best ones
  std::function<void(const SearchState&)> progress;  // called now and then from one thread; may be empty
  const std::atomic<bool>* stop = nullptr;           // when set, the best plan so far is returned, not proved
  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
  // Simulates the finalists with contention, from several threads; empty = not simulated. The planner does not depend on a
  // simulator.
  std::function<Timeline(const TaskGraph&, const Cluster&)> simulate;
};

struct PlannedStage {
  std::vector<std::string> operators;  // names of its units
  int data = 1, tensor = 1;
  std::vector<std::string> recompute;  // the recomputed ones of `operators`
  std::vector<int> devices;
};

// A plan that was found, with its predicted figures.
struct Candidate {
  std::string summary;                                  // one line: "zb-h1, 4 stages, tensor 2 ..."
  std::vector<std::pair<std::string, double>> metrics;  // "step_time_s", "peak_memory_bytes", "time_per_sample" ...
  std::vector<std::pair<std::string, double>> simulated;
  std::optional<Evidence> evidence;   // of its step, if engines can run it
  std::vector<std::string> cautions;  // plan_cautions
  std::optional<RunCost> run;         // of the run that the scenario states, from the step that decides
  std::vector<PlannedStage> stages;
  std::string schedule;                                               // family
  std::vector<std::pair<std::string, std::string>> schedule_options;  // its keys
  // The scenario's keys that this plan decides ("parallel.tensor", "2"). They are applied before the plan's other parts are read.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<RecomputedKind> recomputed;  // operators of its selective recompute, found by the search; empty: the scenario's
  std::shared_ptr<const Plan> plan;        // null if engines cannot run it (degrees that differ between stages)
};

struct Answer {
  Method method = Method::Auto;
  std::string objective;                   // "step_time_s", or "time_per_sample" in the unit of the input
  std::vector<Candidate> candidates;       // best first; empty = infeasible
  std::optional<Candidate> yours;          // the plan that the scenario states, whether it fits or not (add_yours)
  std::string without_yours;               // why there is none though the scenario states a plan; else empty
  bool simulation_decides = false;         // candidates are sorted by their simulated step, else by the objective
  std::shared_ptr<const Trainer> trainer;  // whose plans were searched; null: no trainer is stated
  std::vector<std::string> runs_in;        // the trainers that can run the first candidate, where none is stated
  int devices = 0;                         // of the cluster
  double tie_within = 0;                   // plans whose figures differ by at most this share are a tie; 0: unknown
  SearchState search;
  bool interrupted = false;
  std::vector<std::string> notes;  // searched space, and exclusions with reasons and counts
  std::string reason;              // if infeasible: the limiting constraint, and by how much
};

// The scenario with what the candidate decides outside of its plan: state in the host's memory, operators that recompute.
Scenario with_choices(Scenario scenario, const Candidate& candidate);

// Throws InputError if the scenario lacks what the method needs.
Answer search(const Experiment& experiment, const SearchOptions& options);

// A value of the objective as text. Times have a unit; values in the unit of the input have none.
std::string objective_text(const std::string& objective, double value);

// The figure by which plans are compared: the simulated step if simulation decides, else the objective. 0: unknown.
double deciding_figure(const Answer& answer, const Candidate& candidate);

// True if the candidate ties with the first one in the deciding figure (docs/models/uncertainty.md).
bool is_tie(const Answer& answer, const Candidate& candidate);
bool ties_with_yours(const Answer& answer, const Candidate& candidate);

// The share of yours' deciding figure that the candidate saves; negative: it takes more. nullopt without yours.
std::optional<double> gain_over_yours(const Answer& answer, const Candidate& candidate);

// Adds the plan that a scenario states to the answer of a search for it: predicted like the finalists, and not part of the
// search. Only plans of as many samples a step are compared. Nothing for the method piper, whose objective is none of a step.
void add_yours(const Experiment& searched, const Scenario& yours, const SearchOptions& options, Answer& answer);

// The devices of the cluster that a candidate does not use.
std::vector<int> unused_devices(const Answer& answer, const Candidate& candidate);

std::string to_json(const Answer& answer);  // panpipe-plan/1

}  // namespace panpipe::planner
