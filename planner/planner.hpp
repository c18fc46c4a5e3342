// The search for a plan: what is asked, what is answered. What the scenario states stays fixed; what is absent or `auto` is
// searched. One folder per method: pfeife/ (cuts and schedule together), piper/ (degrees and recompute per stage, exact), auto/
// (everything, on a cluster). No threads of the caller's: a search uses as many as it is given.
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
Method method_named(const std::string& name);  // InputError when there is none

// What a search says of itself while it works, and at its end.
struct SearchState {
  std::int64_t evaluated = 0;   // candidates whose objective was computed
  std::int64_t pruned = 0;      // candidates excluded by a bound, a memory limit or illegality, without being evaluated
  double best = 0;              // of the objective, the least found; 0 = none yet
  double lower_bound = 0;       // of the objective: nothing that was searched can be better
  bool proved_optimal = false;  // of the objective in the first candidate's metrics
};

// What a trainer can run, for plans that are made for it. Cuts need no word: this search cuts between whole blocks.
struct SearchLimits {
  std::string whose;                   // "megatron": named in messages; empty: no limits
  std::vector<std::string> schedules;  // families
  bool tensor = true;                  // it has tensor parallelism, context parallelism and experts over ranks
  bool sequence_with_experts = false;  // it trains experts beside tensor parallelism with sequence parallelism only
  bool pipeline_next = true;           // it can number the ranks of a replica side by side
  std::vector<int> zero = {};          // stages that it has
  std::vector<Recompute> recompute = {};
};

struct SearchOptions {
  Method method = Method::Auto;
  SearchLimits limits = {};  // of the method auto
  int threads = 1;
  std::string objective;                             // of piper: "time_per_sample" (also when empty) or "step"
  std::size_t candidates = 5;                        // how many of the best are returned; the best do not depend on it
  std::function<void(const SearchState&)> progress;  // now and then, from one thread; may be empty
  const std::atomic<bool>* stop = nullptr;           // set: the best so far is returned, not proved
  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
  // Contention of the finalists, from several threads; empty = not simulated. The planner knows no simulator.
  std::function<Timeline(const TaskGraph&, const Cluster&)> simulate;
};

struct PlannedStage {
  std::vector<std::string> operators;  // names of its units
  int data = 1, tensor = 1;
  std::vector<std::string> recompute;  // of `operators`, those that are recomputed
  std::vector<int> devices;
};

// One plan that was found, and what it is said to take.
struct Candidate {
  std::string summary;                                  // one line: "zb-h1, 4 stages, tensor 2 ..."
  std::vector<std::pair<std::string, double>> metrics;  // "step_time_s", "peak_memory_bytes", "time_per_sample" ...
  std::vector<std::pair<std::string, double>> simulated;
  std::optional<Evidence> evidence;  // of its step, where engines can run it
  std::optional<RunCost> run;        // of the run that the scenario states, by the estimated step
  std::vector<PlannedStage> stages;
  std::string schedule;                                               // family
  std::vector<std::pair<std::string, std::string>> schedule_options;  // its keys
  // The scenario's keys that this plan decides ("parallel.tensor", "2"): applied before the plan's own parts are read.
  std::vector<std::pair<std::string, std::string>> settings;
  std::shared_ptr<const Plan> plan;  // null where engines cannot run it (degrees that differ from stage to stage)
};

struct Answer {
  Method method = Method::Auto;
  std::string objective;              // "step_time_s", or "time_per_sample" in the unit of the input
  std::vector<Candidate> candidates;  // best first; empty = infeasible
  bool simulation_decides = false;    // candidates are in the order of their simulated step, else of the objective
  int devices = 0;                    // of the cluster
  double tie_within = 0;              // plans whose figures are no farther apart (a share) are a tie; 0: not known
  SearchState search;
  bool interrupted = false;
  std::vector<std::string> notes;  // what was searched, what was excluded and why, and how many
  std::string reason;              // infeasible: which limit is in the way, and by how much
};

// Throws InputError when the scenario leaves the method nothing to stand on.
Answer search(const Experiment& experiment, const SearchOptions& options);

// A value of the objective: times have a unit; what a method counts in the unit of its input has none.
std::string objective_text(const std::string& objective, double value);

// Whether a runner-up is a tie with the first candidate, by the figure that decided (docs/models/uncertainty.md).
bool is_tie(const Answer& answer, const Candidate& candidate);

// The devices of the cluster that a candidate leaves idle.
std::vector<int> unused_devices(const Answer& answer, const Candidate& candidate);

std::string to_json(const Answer& answer);               // panpipe-plan/1
std::string to_table(const Answer& answer, bool color);  // for people

}  // namespace panpipe::planner
