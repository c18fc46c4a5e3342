// A schedule: the ordered actions of one step, for each rank. Families, text form, legality check, evaluation with plain costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schedule/action.hpp"

namespace panpipe {

struct Schedule {
  std::string name;  // family, or the file's name
  int ranks = 0;
  int microbatches = 0;
  int stages = 0;
  int splits = 1;  // sequence splits
  // Embedding and head are cut over all ranks (vocabulary.hpp): 1 or 2 exchanges between a microbatch's last forward and its
  // first backward. 0: stages hold them whole, and there are no passes E, S, T, G.
  int vocabulary_barriers = 0;
  std::vector<int> stage_to_rank;
  std::vector<std::vector<int>> chains;    // forward paths: ordered stages
  std::vector<std::vector<Action>> order;  // per rank; groups are flattened as in action.hpp
  // Empty cells of a file, so that it can be written back unchanged: for each rank the number before each action of `order` and
  // after the last one. Empty if the file has none.
  std::vector<std::vector<std::int32_t>> empty_cells;
  std::vector<std::string> notes;  // changes made while reading, such as letters of an older dialect rewritten
  // Set by searched families: under the costs of the search, no order of these sizes within this memory has a shorter step.
  std::optional<double> lower_bound;
};

// The first action of a kind for which is(kind) holds; nullptr if there is none.
template <class Is>
const Action* find_action(const Schedule& schedule, Is&& is) {
  for (const std::vector<Action>& row : schedule.order)
    for (const Action& action : row)
      if (is(action.kind)) return &action;
  return nullptr;
}
inline bool has_action(const Schedule& schedule, ActionKind kind) {
  return find_action(schedule, [kind](ActionKind found) { return found == kind; }) != nullptr;
}

using ScheduleOptions = std::map<std::string, std::string>;

// One time per pass, the same on every stage. The unit is free, but the same for all.
struct PassCosts {
  double F = 1, I = 1, W = 1;
  std::optional<double> B;         // default I + W
  double comm = 0;                 // delay of an input from another rank
  double offload = 1;              // moving one activation to the host, on the rank's copy lane
  std::optional<double> reload{};  // moving it back; defaults to offload
  double S = 0.5, T = 0.5;         // passes of a rank's share of the head; those of the embedding take no time
  double waiting = 1;              // share of an activation that stays from I to W; scales the copies made in between
  // Costs of each stage, if stages differ; they replace F, I and W above. Empty = all alike.
  struct Stage {
    double F = 1, I = 1, W = 1;
  };
  std::vector<Stage> stages{};
};

// The entry of a family, defined in the family's own file in families/ and listed in families.cpp. Planners derive all other
// properties from the orders that the family makes.
struct ScheduleFamily {
  std::string_view name;
  std::string_view summary;
  std::string_view source;                                             // where the order was published
  std::vector<std::pair<std::string_view, std::string_view>> options;  // key, default as text ("2", "M", "P")
  // A searched family optimises its order for given costs; a fixed family has one order for all costs.
  using Fixed = Schedule (*)(int ranks, int microbatches, const ScheduleOptions& options);
  using Searched = Schedule (*)(int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs);
  std::variant<Fixed, Searched> generate;
  // Returns the reason why no order of these sizes exists, or an empty text. Without this function every size exists.
  std::string (*refusal)(int ranks, int microbatches, const ScheduleOptions& options) = nullptr;
  bool planned = true;  // planners try it if the scenario leaves the schedule open, with several stages per rank if it takes
                        // them, otherwise with its defaults

  bool searched() const { return std::holds_alternative<Searched>(generate); }
  std::string refused(int ranks, int microbatches, const ScheduleOptions& given) const {
    return refusal == nullptr ? "" : refusal(ranks, microbatches, given);
  }
};
const std::vector<ScheduleFamily>& schedule_families();

// Throws InputError for an unknown family or option (with "did you mean"), and for sizes that the family does not support (with
// the reason). A searched family optimises for `costs`.
Schedule make_schedule(std::string_view family, int ranks, int microbatches, const ScheduleOptions& options = {},
                       const PassCosts& costs = {});

// --- text form (PyTorch's CSV and our superset; docs/file-formats.md) ---
// Infers stages, placement and chains; "#" header lines override them. Strict: throws InputError with line and cell for junk,
// duplicates, out-of-range numbers and empty groups. Recognises and rewrites legacy files (B = input gradient, BW = full
// backward).
Schedule read_schedule_csv(const std::string& text, const std::string& name);
Schedule load_schedule_csv(const std::string& path);
std::string to_csv(const Schedule& schedule, bool for_torch);  // for_torch: throws InputError if PyTorch cannot express it

// --- legality ---
struct ScheduleProblem {
  int rank = -1;
  int position = -1;  // cell in the rank's row, from 0, empty cells not counted; -1 = no cell (an action is missing)
  std::string action;
  std::string message;
};
// All faults, the first one first. Checks that each pass occurs exactly once per (stage, microbatch), that numbers are in range,
// stages on their ranks, F before I before W, and that the order can finish (else each rank's blocked action and the cycle). An
// empty list means legal.
std::vector<ScheduleProblem> check_schedule(const Schedule& schedule);

// --- evaluation with one cost per pass (`panpipe schedule --costs`) ---
struct ScheduleEvaluation {
  double makespan = 0;
  double span = 0;  // longest time from a rank's first start to its last end
  std::vector<double> busy;
  double bubble_step = 0;  // 1 - busy / makespan over all ranks
  double bubble_span = 0;  // 1 - busy / span over all ranks, each with its own span
  // Of steps in a row (schedule/rolling.hpp), from one to the next; nullopt: a step ends before the next begins. The other
  // figures are of one step that begins with idle ranks and drains. An update takes no time here.
  std::optional<double> period;
  std::vector<int> peak_activations;
  std::vector<std::vector<std::pair<double, double>>> times;  // per rank, per action of `order`: start, end
};
// The schedule must be legal. A group runs as one unit (duration = sum, outputs at the end) unless split_groups is set.
ScheduleEvaluation evaluate(const Schedule& schedule, const PassCosts& costs, bool split_groups = false);
// The same for an order that is legal but for cycles; nullopt if it cannot finish.
std::optional<ScheduleEvaluation> evaluate_if_it_ends(const Schedule& schedule, const PassCosts& costs,
                                                      bool split_groups = false);

// A grid with steps down and ranks across, as PyTorch prints orders. The first problem's cell is marked "<-- ERROR HERE"; long
// rows are shown only around the mark.
std::string grid(const Schedule& schedule, const std::vector<ScheduleProblem>& problems);

// A drawing for the terminal: one row per rank, at most `width` columns.
std::string draw(const Schedule& schedule, const ScheduleEvaluation& evaluation, int width, bool color);

// The document panpipe-schedule/1 as JSON text.
std::string to_json(const Schedule& schedule, const std::vector<ScheduleProblem>& problems,
                    const std::optional<ScheduleEvaluation>& evaluation);

}  // namespace panpipe
